"""The write-ahead folder: messages taken from a channel, as files, until Spark has committed their batch.

Files are numbered: `00000000000000000007.arrow` holds what the offset 7 added. Whoever reads a batch again
reads the same files.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from nsqlake.spark.errors import OptionError

__all__ = ["WalFolder"]

_NAME = re.compile(r"([0-9]{20})\.arrow")
_IDS_KEPT_S = 3600.0  # nsqd delivers a message that was not finished again long before


class WalFolder:
    """One folder for one query, on a disk that driver and executors share."""

    def __init__(self, path: str) -> None:
        if not path:
            raise OptionError("walDir", None, "is needed for mode=consume: a folder that all executors see")
        self.path = path
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise OptionError("walDir", path, f"cannot be made: {error.strerror}") from error

    def numbers(self) -> list[int]:
        return sorted(int(found[1]) for name in os.listdir(self.path) if (found := _NAME.fullmatch(name)))

    def file(self, number: int) -> str:
        return os.path.join(self.path, f"{number:020d}.arrow")

    def write(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Durable when this returns."""
        temporary = f"{self.file(number)}.tmp"
        with open(temporary, "wb") as file:
            with pa.ipc.new_file(file, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, self.file(number))
        self._sync()

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self.file(number)) as source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            try:
                os.unlink(self.file(number))
            except FileNotFoundError:
                continue

    def known_ids(self, upto: int) -> set[str]:
        """Ids of messages that Spark has, and nsqd may not know it: they were never finished."""
        found: set[str] = set()
        for number in self.numbers():
            if number > upto:
                continue
            if time.time() - os.stat(self.file(number)).st_mtime > _IDS_KEPT_S:
                self.remove([number])
                continue
            for batch in self.read(number):
                found.update(batch.column("id").to_pylist())
        return found

    def _sync(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
