"""One block of a topic's log, to bytes and back.

A block is the unit of writing, checksumming, caching and delivering. All integers are big-endian.

    field         bytes  meaning
    magic         4      b"NQB1": finds block starts again after damage
    crc32c        4      of everything after this field, begun with the log's salt instead of 0
    length        4      bytes that follow the header
    count         4      messages in the block, at least 1
    base offset   8      offset of the first message
    timestamp     8      ns, of every message in the block
    due           8      0, or the ns timestamp before which no channel may deliver it
    flags         4      0, or 1: a tag follows the records; any other value is a newer format
    record size   4      size of every record when all are equal, else 0
    producer key  4      0; kept for idempotent publishing
    starts        4 x (count + 1), positions within the records; absent when all records have one size
    records              4-byte size and body each, exactly as in the MPUB they came in
    tag                  what is left of `length`, if flags say that there is one

A tag is about the block as a whole and means nothing to this package. The salt is random per log, so a
message body can never pass for a block.
"""

import struct
import sys
from array import array
from collections.abc import Sequence
from enum import Enum

import google_crc32c
import numpy as np
import numpy.typing as npt

__all__ = [
    "BLOCK_HEADER",
    "MAGIC",
    "TAGGED",
    "BlockFault",
    "Span",
    "block_size",
    "block_tag",
    "decode_block",
    "encode_block",
]

MAGIC = b"NQB1"
TAGGED = 1  # the flag of a block with a tag
BLOCK_HEADER = struct.Struct(">4sIIIQQQIII")
CHECKED_FROM = 8  # the checksum covers everything after itself

_PREFIX = struct.Struct(">4sI")
_REST = struct.Struct(">IIQQQIII")
_HEADER_BYTES = BLOCK_HEADER.size
_extend = google_crc32c.extend


class BlockFault(Enum):
    """Why bytes are not a block."""

    SHORT = "cut short"
    MAGIC = "no block starts here"
    CHECKSUM = "checksum failed"
    LAYOUT = "fields contradict each other"


class Span:
    """Messages with consecutive offsets and one due time, as they lie in `data`.

    Equal records (`record_size` > 0) lie `stride` apart from `first` on; otherwise `starts` has their
    positions and the end of the last one. `timestamp_ns` is one for all, or one for each.
    """

    __slots__ = (
        "base",
        "count",
        "data",
        "due_ns",
        "first",
        "record_size",
        "starts",
        "stride",
        "timestamp_ns",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - made once per block on the hot path, so without keywords
        self,
        base: int,
        count: int,
        record_size: int,
        data: bytes,
        first: int,
        stride: int,
        starts: Sequence[int] | None,
        timestamp_ns: int | npt.NDArray[np.int64],
        due_ns: int = 0,
    ) -> None:
        self.base = base
        self.count = count
        self.record_size = record_size
        self.data = data
        self.first = first
        self.stride = stride
        self.starts = starts
        self.timestamp_ns = timestamp_ns
        self.due_ns = due_ns

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return self.base + self.count

    @property
    def nbytes(self) -> int:
        """Bytes of the records, size fields included."""
        if self.starts is None:
            return self.count * self.record_size
        return self.starts[self.count] - self.starts[0]

    def body(self, i: int) -> bytes:
        """The body of message `base + i`."""
        if self.starts is None:
            position = self.first + i * self.stride
            return self.data[position + 4 : position + self.record_size]
        return self.data[self.starts[i] + 4 : self.starts[i + 1]]

    def timestamp(self, i: int) -> int:
        """When message `base + i` was published, in ns."""
        stamps = self.timestamp_ns
        return stamps if isinstance(stamps, int) else int(stamps[i])

    def since(self, offset: int) -> "Span":
        """The messages from `offset`, which is within the span, on; the bytes are shared."""
        skipped = offset - self.base
        stamps = self.timestamp_ns if isinstance(self.timestamp_ns, int) else self.timestamp_ns[skipped:]
        starts = None if self.starts is None else self.starts[skipped:]
        first = self.first + skipped * self.stride
        count, size = self.count - skipped, self.record_size
        return Span(offset, count, size, self.data, first, self.stride, starts, stamps, self.due_ns)

    def __repr__(self) -> str:
        return f"Span([{self.base}, {self.end}), record_size={self.record_size}, due_ns={self.due_ns})"


def encode_block(  # noqa: PLR0913 - one argument for each field
    records: bytes,
    count: int,
    *,
    base: int,
    salt: int,
    timestamp_ns: int,
    record_size: int = 0,
    starts: Sequence[int] | None = None,
    due_ns: int = 0,
    tag: bytes = b"",
) -> tuple[bytes, bytes]:
    """The header, with the starts if sizes differ, and the records with the tag: to be written in turn."""
    length = len(records)
    flags = TAGGED if tag else 0
    if record_size:
        if count < 1 or count * record_size != length:
            raise ValueError(f"{count} records of {record_size} bytes are not {length} bytes")
        rest = _REST.pack(length + len(tag), count, base, timestamp_ns, due_ns, flags, record_size, 0)
    else:
        if (
            count < 1
            or starts is None
            or len(starts) != count + 1
            or starts[0] != 0
            or starts[count] != length
        ):
            raise ValueError(f"starts do not frame {count} records in {length} bytes")
        places = _encode_starts(starts)
        length += len(places) + len(tag)
        rest = _REST.pack(length, count, base, timestamp_ns, due_ns, flags, 0, 0) + places
    if tag:
        records += tag
    return _PREFIX.pack(MAGIC, _extend(_extend(salt, rest), records)) + rest, records


def _encode_starts(starts: Sequence[int]) -> bytes:
    places = array("I", starts)
    if sys.byteorder == "little":
        places.byteswap()
    return places.tobytes()


def encode_single_head(record: bytes, base: int, salt: int, timestamp_ns: int) -> bytes:
    """The header of a block with one record that is due at once."""
    length = len(record)
    rest = _REST.pack(length, 1, base, timestamp_ns, 0, 0, length, 0)
    return _PREFIX.pack(MAGIC, _extend(_extend(salt, rest), record)) + rest


def block_size(data: bytes, position: int) -> int:
    """The whole size of the block whose header is at `position`, as the header claims it."""
    return _HEADER_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")


def decode_block(data: bytes, position: int, salt: int) -> Span | BlockFault:
    """The block at `position`, its records left in `data`, or the reason why there is none."""
    if len(data) - position < _HEADER_BYTES:
        return BlockFault.SHORT
    fields = BLOCK_HEADER.unpack_from(data, position)
    magic, crc, length, count, base, timestamp_ns, due_ns, flags, record_size, _producer = fields
    if magic != MAGIC:
        return BlockFault.MAGIC
    first = position + _HEADER_BYTES
    end = first + length
    if end > len(data):
        return BlockFault.SHORT
    if crc != _extend(salt, data[position + CHECKED_FROM : end]):
        return BlockFault.CHECKSUM
    if flags > TAGGED or not count:
        return BlockFault.LAYOUT
    if record_size:
        tag_bytes = length - count * record_size
        if tag_bytes < 0 or bool(tag_bytes) != bool(flags):
            return BlockFault.LAYOUT
        return Span(base, count, record_size, data, first, record_size, None, timestamp_ns, due_ns)
    starts = _decode_starts(data, first, count, end, has_tag=flags == TAGGED)
    if starts is None:
        return BlockFault.LAYOUT
    return Span(base, count, 0, data, starts[0], 0, starts, timestamp_ns, due_ns)


def block_tag(span: Span) -> bytes:
    """The tag of a block that was decoded from bytes which begin with it; empty when it has none."""
    return span.data[span.first + span.nbytes : block_size(span.data, 0)]


def _decode_starts(data: bytes, first: int, count: int, end: int, *, has_tag: bool) -> list[int] | None:
    records_at = first + 4 * (count + 1)
    if records_at > end:
        return None
    places = np.frombuffer(data, ">u4", count + 1, first).astype(np.int64) + records_at
    starts: list[int] = places.tolist()
    if starts[0] != records_at or starts[-1] > end:
        return None
    return starts if (starts[-1] < end) == has_tag else None
