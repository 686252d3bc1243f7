"""One attempt of one part of a transaction, on disk."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from nsqlake.nsqd.transactions.staged_records import (
    StagedRecord,
    decode_record,
    encode_record,
    is_whole,
    scan_records,
)
from nsqlake.topiclog.files import Files, write_all
from nsqlake.wire.command_reader import Messages

__all__ = ["StagedPart"]


class StagedPart:
    """Records in the order in which they were staged; every method blocks on the disk for a moment."""

    def __init__(self, files: Files, path: str, records: Iterable[StagedRecord] = ()) -> None:
        self._files = files
        self.path = path
        self.records = list(records)
        self.nbytes = sum(record.nbytes for record in self.records)
        self.message_count = sum(record.message_count for record in self.records)
        self.topics = {record.topic for record in self.records}
        self.cut_bytes = 0  # behind the last whole record, of no use to anybody
        self.is_lost = False  # a sync failed: nobody knows what is on the disk

    @classmethod
    def load(cls, files: Files, path: str) -> "StagedPart":
        """What a daemon before this one was sent. A torn end is overwritten by what comes next."""
        fd = files.open(path, os.O_RDONLY)
        try:
            size = files.size(fd)
            records, end = scan_records(partial(_pread, files, fd), size)
        finally:
            files.close(fd)
        part = cls(files, path, records)
        part.cut_bytes = size - end
        return part

    def append(self, topic: str, messages: Messages, defer_ms: int) -> None:
        """Survives the end of the process when this returns; on an OSError nothing was added."""
        record, pieces = encode_record(len(self.records), topic, messages, defer_ms, self.nbytes)
        is_new = not self.records
        fd = self._files.open(
            self.path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_TRUNC if is_new else 0)
        )
        try:
            if self.cut_bytes and not is_new:
                self._files.ftruncate(fd, self.nbytes)
            self.cut_bytes = record.nbytes  # until all of it is there
            self._write(fd, pieces, record.nbytes)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.ftruncate(fd, self.nbytes)
            raise
        finally:
            self._files.close(fd)
        self.cut_bytes = 0
        self.records.append(record)
        self.topics.add(topic)
        self.nbytes += record.nbytes
        self.message_count += record.message_count

    def _write(self, fd: int, pieces: Sequence[bytes], nbytes: int) -> None:
        written = self._files.writev(fd, pieces)
        if written < nbytes:
            write_all(self._files, fd, memoryview(b"".join(pieces))[written:])

    def holds(self, number: int, topic: str, messages: Messages, defer_ms: int) -> bool:
        """Whether record `number` is just this."""
        return encode_record(number, topic, messages, defer_ms)[0].crc == self.records[number].crc

    def read(self, records: Sequence[StagedRecord]) -> list[Messages | None]:
        """The messages of each, None for what the disk has changed."""
        with self._opened() as fd:
            return [decode_record(self._pread(fd, record), record) for record in records]

    def first_damaged(self) -> StagedRecord | None:
        """The first record that is not on the disk as it was sent."""
        with self._opened() as fd:
            return next((each for each in self.records if not is_whole(self._pread(fd, each), each)), None)

    def sync(self) -> None:
        """Durable when this returns. After an OSError it never will be: a second try proves nothing."""
        with self._opened() as fd:
            try:
                self._files.fsync(fd)
            except OSError:
                self.is_lost = True
                raise

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        fd = self._files.open(self.path, os.O_RDONLY)
        try:
            yield fd
        finally:
            self._files.close(fd)

    def _pread(self, fd: int, record: StagedRecord) -> bytes:
        return _pread(self._files, fd, record.nbytes, record.position)


def _pread(files: Files, fd: int, length: int, position: int) -> bytes:
    """All of it, or less at the end of the file."""
    data = files.pread(fd, length, position)
    while 0 < len(data) < length and (more := files.pread(fd, length - len(data), position + len(data))):
        data += more
    return data
