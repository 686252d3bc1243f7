"""One attempt of one part of a transaction, on disk."""

import os
from collections.abc import Iterable

from nsqlake.nsqd.transactions.staged_records import (
    StagedRecord,
    decode_body,
    encode_record,
    scan_records,
)
from nsqlake.topiclog.errors import CorruptBlockError
from nsqlake.topiclog.files import Files

__all__ = ["StagedPart"]


class StagedPart:
    """Records in the order in which they were staged; every method blocks on the disk for a moment."""

    def __init__(self, files: Files, path: str, records: Iterable[StagedRecord] = ()) -> None:
        self._files = files
        self.path = path
        self.records = list(records)
        self.nbytes = sum(record.nbytes for record in self.records)

    @classmethod
    def load(cls, files: Files, path: str) -> "StagedPart":
        """What a daemon before this one was sent; a torn end is cut off."""
        fd = files.open(path, os.O_RDWR)
        try:
            size = files.size(fd)
            records, end = scan_records(lambda length, position: files.pread(fd, length, position), size)
            if end < size:
                files.ftruncate(fd, end)
        finally:
            files.close(fd)
        return cls(files, path, records)

    @property
    def message_count(self) -> int:
        return sum(record.message_count for record in self.records)

    @property
    def topics(self) -> set[str]:
        return {record.topic for record in self.records}

    def append(self, topic: str, count: int, defer_ms: int, body: bytes) -> None:
        """Survives the end of the process when this returns; on an OSError nothing was added."""
        head, body = encode_record(len(self.records), topic, count, defer_ms, body)
        nbytes = len(head) + len(body)
        fd = self._files.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            written = self._files.writev(fd, (head, body))
            while written < nbytes:
                rest = (head + body)[written:]
                written += self._files.write(fd, rest)
        except OSError:
            self._files.ftruncate(fd, self.nbytes)
            raise
        finally:
            self._files.close(fd)
        self.records.append(StagedRecord(len(self.records), topic, count, defer_ms, self.nbytes, nbytes))
        self.nbytes += nbytes

    def read(self, record: StagedRecord) -> bytes:
        """The body of a record; CorruptBlockError when the disk has changed it."""
        fd = self._files.open(self.path, os.O_RDONLY)
        try:
            body = decode_body(self._files.pread(fd, record.nbytes, record.position))
        finally:
            self._files.close(fd)
        if body is None:
            raise CorruptBlockError(self.path, record.position, "checksum failed")
        return body

    def sync(self) -> None:
        fd = self._files.open(self.path, os.O_RDONLY)
        try:
            self._files.fsync(fd)
        finally:
            self._files.close(fd)

    def remove(self) -> None:
        if self._files.exists(self.path):
            self._files.unlink(self.path)
