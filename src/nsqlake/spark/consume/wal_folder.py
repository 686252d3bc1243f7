"""The write-ahead folder: messages taken from a channel, as files, until Spark has committed their batch.

Files are numbered: `00000000000000000007.arrow` holds what the offset 7 added. Whoever reads a batch again
reads the same files.
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from nsqlake.spark.errors import OptionError

__all__ = ["WalFolder"]

_NAME = re.compile(r"([0-9]{20})\.arrow")
_LOCK = "lock"
_LOCK_PAUSE_S = 0.1
LOCK_WAIT_S = 15.0  # the process of a query that was stopped or killed may need a moment to end


class WalFolder:
    """One folder for one query, on a disk that driver and executors share."""

    def __init__(self, path: str) -> None:
        self.path = path.removeprefix("file://")
        if not path:
            raise OptionError("walDir", None, "is needed for mode=consume: a folder that all executors see")
        if "://" in self.path:
            raise OptionError("walDir", path, "must be a folder of a file system")

    def __reduce__(self) -> tuple[type["WalFolder"], tuple[str]]:
        return WalFolder, (self.path,)

    # The driver ---------------------------------------------------------------------------------------

    def open(self, wait_s: float = LOCK_WAIT_S) -> None:
        """Make the folder, and keep others out while this process lives; OptionError if that cannot be."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._lock = os.open(os.path.join(self.path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OptionError("walDir", self.path, f"cannot be used: {error.strerror}") from error
        if not self._take_lock(time.monotonic() + wait_s):
            os.close(self._lock)
            raise OptionError("walDir", self.path, "is used by another query that runs")

    def _take_lock(self, deadline_s: float) -> bool:
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    return False
                time.sleep(_LOCK_PAUSE_S)
            else:
                return True

    def close(self) -> None:
        os.close(self._lock)

    def numbers(self) -> list[int]:
        return sorted(int(found[1]) for name in os.listdir(self.path) if (found := _NAME.fullmatch(name)))

    def file(self, number: int) -> str:
        return os.path.join(self.path, f"{number:020d}.arrow")

    def write(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Durable when this returns."""
        temporary = f"{self.file(number)}.tmp"
        try:
            with open(temporary, "wb") as file:
                with pa.ipc.new_file(file, batches[0].schema) as writer:
                    for batch in batches:
                        writer.write_batch(batch)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self.file(number))
            self._sync()
        except OSError as error:
            raise OptionError("walDir", self.path, f"cannot be written: {error.strerror}") from error

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file(number))

    def remove_after(self, last: int) -> None:
        """What no batch has ever had, and what was not written to its end."""
        self.remove(number for number in self.numbers() if number > last)
        for name in os.listdir(self.path):
            if name.endswith(".arrow.tmp"):
                os.unlink(os.path.join(self.path, name))

    def _sync(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    # Driver and executors -----------------------------------------------------------------------------

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        # Not mapped: a file that vanishes from a network disk would kill the process.
        try:
            source = pa.OSFile(self.file(number))
        except OSError as error:
            reason = f"has no file {number} here; do driver and executors see the same folder?"
            raise OptionError("walDir", self.path, reason) from error
        with source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def read_keys(self, number: int) -> Iterator[tuple[str, str]]:
        """The nsqd and the id of every message."""
        for batch in self.read(number):
            yield from zip(batch.column("node").to_pylist(), batch.column("id").to_pylist(), strict=True)
