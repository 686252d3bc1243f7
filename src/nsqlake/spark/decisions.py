"""What a streaming sink has decided to publish of a batch, kept with the checkpoint.

A batch that Spark runs again may be cut into other partitions, which go to other nodes. So its rows must not
be mixed with what some nodes have published before: which attempts count is written down before the first
node is told, and a batch that has such a decision is only completed.
"""

import json
import os
from dataclasses import asdict, dataclass
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from nsqlake.spark.errors import OptionError

__all__ = ["Decision", "DecisionFile", "StagedPart"]

FILE_NAME = "nsq-sink-decision.json"
SPARKS_FILE = "metadata"  # Spark writes it when a query first starts

_ALIASES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names


@dataclass(frozen=True)
class StagedPart:
    """What one attempt at a partition has staged, and where."""

    node: str
    part: int
    attempt: int
    records: int = 0
    messages: int = 0


@dataclass(frozen=True)
class Decision:
    """The attempts that count."""

    txn: str
    parts: tuple[StagedPart, ...]


class DecisionFile:
    """The last decision of a query. Raises OptionError where the checkpoint cannot be used."""

    def __init__(self, checkpoint: str) -> None:
        if not checkpoint:
            reason = "is needed as an option of this query to publish exactly once"
            raise OptionError("checkpointLocation", None, reason)
        self._checkpoint = checkpoint
        self._files, self._directory = self._open()

    def check(self) -> None:
        """That this process sees the files of Spark: else it would not find its own after a restart."""
        if self._load(SPARKS_FILE) is None:
            raise self._unusable(f"there is no {SPARKS_FILE} of Spark; give it as a full URI")

    def read(self) -> Decision | None:
        text = self._load(FILE_NAME)
        if text is None:
            return None
        try:
            found = json.loads(text)
            return Decision(found["txn"], tuple(StagedPart(**part) for part in found["parts"]))
        except (ValueError, KeyError, TypeError) as error:
            raise self._unusable(f"{FILE_NAME} is damaged") from error

    def write(self, decision: Decision) -> None:
        """Whole or not at all."""
        text = json.dumps(asdict(decision)).encode()
        path = f"{self._directory}/{FILE_NAME}"
        try:
            if isinstance(self._files, fs.LocalFileSystem):
                _replace(path, text)
            else:
                with self._files.open_output_stream(path) as file:
                    file.write(text)
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _load(self, name: str) -> bytes | None:
        path = f"{self._directory}/{name}"
        try:
            with self._files.open_input_file(path) as file:
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _open(self) -> tuple[fs.FileSystem, str]:
        scheme, colon, rest = self._checkpoint.partition(":")
        if not colon or "/" in scheme:
            return fs.LocalFileSystem(), os.path.abspath(self._checkpoint)
        if scheme == "file":  # as Spark takes it: nothing in it is quoted
            return fs.LocalFileSystem(), os.path.abspath(rest[2:] if rest.startswith("//") else rest)
        url = urlsplit(self._checkpoint)
        uri = url._replace(scheme=_ALIASES.get(scheme, scheme), path=quote(url.path)).geturl()
        try:
            files, directory = fs.FileSystem.from_uri(uri)
        except (pa.ArrowException, OSError) as error:
            raise self._unusable(str(error)) from error
        return files, directory.rstrip("/")

    def _unusable(self, reason: str) -> OptionError:
        return OptionError(
            "checkpointLocation", self._checkpoint, f"cannot be used for delivery=exactly-once: {reason}"
        )


def _replace(path: str, text: bytes) -> None:
    temporary = f"{path}.new"
    with open(temporary, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
