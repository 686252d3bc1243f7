"""One file of a topic's log: a header, then blocks.

field        bytes  meaning
magic        4      b"NQS1"
crc32c       4      of the rest of this header
uuid         16     of the log
salt         4      begins the checksum of every block of the log
epoch        4      rises with every unclean stop
base offset  8      lowest offset the segment may hold; also its name, 20 digits, zero-padded
"""

import os
import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c

from nsqlake.topiclog.errors import AppendError, describe
from nsqlake.topiclog.files import Buffer, Files, write_all
from nsqlake.topiclog.index import BlockIndex

__all__ = [
    "EPOCH_JUMP",
    "INDEX_SUFFIX",
    "SEGMENT_HEADER_BYTES",
    "Segment",
    "SegmentHeader",
    "index_path",
    "parse_segment_name",
    "segment_name",
]

_PREFIX = struct.Struct(">4sI")
_REST = struct.Struct(">16sIIQ")
_MAGIC = b"NQS1"
_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
_DIGITS = 20
SEGMENT_HEADER_BYTES = _PREFIX.size + _REST.size
# After an unclean stop the next offset jumps: a power loss may have taken messages whose ids were given out.
EPOCH_JUMP = 2**30


class SegmentHeader(NamedTuple):
    """Whose segment this is."""

    uuid: bytes
    salt: int
    epoch: int
    base: int

    def encode(self) -> bytes:
        rest = _REST.pack(*self)
        return _PREFIX.pack(_MAGIC, google_crc32c.value(rest)) + rest

    @classmethod
    def decode(cls, data: bytes) -> "SegmentHeader | None":
        """None when the header is cut short or damaged."""
        if len(data) < SEGMENT_HEADER_BYTES:
            return None
        magic, crc = _PREFIX.unpack_from(data)
        rest = data[_PREFIX.size : SEGMENT_HEADER_BYTES]
        if magic != _MAGIC or crc != google_crc32c.value(rest):
            return None
        return cls(*_REST.unpack(rest))


def segment_name(base: int) -> str:
    return f"{base:0{_DIGITS}d}{_SUFFIX}"


def parse_segment_name(name: str) -> int | None:
    """The base offset in a segment's name, or None for any other file."""
    digits = name.removesuffix(_SUFFIX)
    is_segment = name.endswith(_SUFFIX) and len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_segment else None


def index_path(segment_path: str) -> str:
    return segment_path.removesuffix(_SUFFIX) + INDEX_SUFFIX


class Segment:
    """A segment and its index; `fd` is -1 unless it is written to or waits to be synced."""

    __slots__ = ("base", "epoch", "fd", "index", "is_unreadable", "path", "readers", "size")

    def __init__(self, path: str, index: BlockIndex, *, epoch: int, size: int, fd: int = -1) -> None:
        self.path = path
        self.base = index.base
        self.index = index
        self.epoch = epoch
        self.size = size  # the end of the last whole block
        self.fd = fd
        self.readers = 0  # who sends parts of the file somewhere; it must not be cut meanwhile
        self.is_unreadable = False  # a read failed: the file is set aside instead of deleted

    @classmethod
    def create(cls, files: Files, directory: str, header: SegmentHeader) -> "Segment":
        """Make the file; on an error nothing of it is left, or `AppendError` is not recoverable."""
        path = os.path.join(directory, segment_name(header.base))
        fd = -1
        try:
            fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
            write_all(files, fd, header.encode())
        except OSError as error:
            raise cls._undo_create(files, path, fd, error) from error
        return cls(path, BlockIndex(header.base), epoch=header.epoch, size=SEGMENT_HEADER_BYTES, fd=fd)

    @staticmethod
    def _undo_create(files: Files, path: str, fd: int, error: OSError) -> AppendError:
        if fd >= 0:
            files.close(fd)
            try:
                files.unlink(path)
            except OSError as second:
                return AppendError(f"{describe(error)}; then unlink: {describe(second)}", errno=error.errno)
        return AppendError.from_os(error)

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return self.index.end

    @property
    def is_empty(self) -> bool:
        return self.size <= SEGMENT_HEADER_BYTES

    def vanished_before(self, successor: "Segment") -> int:
        """How many offsets between the two no epoch explains: they were retired, or their file is missing."""
        jumps = EPOCH_JUMP * max(successor.epoch - self.epoch, 0)
        return max(successor.base - self.end - jumps, 0)

    def reopen(self, files: Files) -> None:
        """Open the file again to write behind its last block."""
        self.fd = files.open(self.path, os.O_RDWR | os.O_APPEND)

    def append(self, files: Files, buffers: Sequence[Buffer], size: int) -> None:
        """Write all buffers, `size` bytes in all, or nothing and raise `AppendError`."""
        try:
            written = files.writev(self.fd, buffers)
            if written != size:
                write_all(files, self.fd, memoryview(b"".join(buffers))[written:])
        except OSError as error:
            raise self._cut_back(files, error) from error
        self.size += size

    def _cut_back(self, files: Files, error: OSError) -> AppendError:
        try:
            files.ftruncate(self.fd, self.size)
        except OSError as second:
            return AppendError(f"{describe(error)}; then ftruncate: {describe(second)}", errno=error.errno)
        return AppendError.from_os(error)
