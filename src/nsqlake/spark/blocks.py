"""The blocks of an answer of `/log/read`, found and tested as arrays: only checksums are done one by one."""

import itertools
import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from nsqlake.errors import NsqlakeError
from nsqlake.topiclog.block import BLOCK_HEADER, CHECKED_FROM, MAGIC, TAGGED

__all__ = ["HEADER_BYTES", "START_BYTES", "BlockDamageError", "BlockRun", "Bytes", "Ints", "find_runs"]

ROWS_PER_RUN = 16_384  # 5,000 to 20,000 rows are equally fast in Spark, 1,000 are 10 % slower
BYTES_PER_RUN = 8 * 1024 * 1024
HEADER_BYTES = BLOCK_HEADER.size
START_BYTES = 4

_HEADER = np.dtype(
    [
        ("magic", "S4"),
        ("crc", ">u4"),
        ("length", ">u4"),
        ("count", ">u4"),
        ("base", ">u8"),
        ("timestamp", ">u8"),
        ("due", ">u8"),
        ("flags", ">u4"),
        ("record_size", ">u4"),
        ("producer", ">u4"),
    ]
)
_LENGTH = struct.Struct(">I")
_LENGTH_AT = 8
_SMALL_BLOCK_BYTES = 4096

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Heads = npt.NDArray[np.void]


class BlockDamageError(NsqlakeError):
    """Bytes of a log that are not what was written."""

    retriable = True

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"bad block at offset {offset}: {reason}")
        self.offset, self.reason = offset, reason


class BlockRun(NamedTuple):
    """Good blocks that become one batch. Block i is `data[places[i]:places[i + 1]]`.

    The bytes are those of the answer, and gone when the next one comes.
    """

    data: Bytes
    places: Ints
    counts: Ints
    bases: Ints
    timestamps_us: Ints
    record_sizes: Ints
    is_tagged: bool

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return int(self.bases[-1] + self.counts[-1])


def find_runs(data: memoryview, salt: int, start: int, end: int) -> Iterator[BlockRun]:
    """The blocks in `data` that hold messages of [start, end), as runs.

    A run may begin before `start` and end behind `end`. Raises BlockDamageError when all that is good before
    the damage has been handed out.
    """
    array = np.frombuffer(data, np.uint8)
    places = _find_places(array)
    heads = _heads_at(array, places[:-1])
    fault = _find_fault(array, places, heads, salt)
    if fault is not None:
        heads, places = heads[: fault[0]], places[: fault[0] + 1]
    elif places[-1] != len(array):
        fault = len(heads), "cut short"
    bases, counts = heads["base"].astype(np.int64), heads["count"].astype(np.int64)
    ends = bases + counts
    first, last = int(np.searchsorted(ends, start, "right")), int(np.searchsorted(bases, end))
    for a, b in _parts(counts, places, first, last):
        yield BlockRun(
            array,
            places[a : b + 1],
            counts[a:b],
            bases[a:b],
            heads["timestamp"][a:b].astype(np.int64) // 1000,
            heads["record_size"][a:b].astype(np.int64),
            bool(heads["flags"][a:b].any()),
        )
    reached = int(ends[-1]) if len(ends) else start
    if fault is not None and reached < end:
        raise BlockDamageError(max(start, reached), fault[1])


def _parts(counts: Ints, places: Ints, first: int, last: int) -> Iterator[tuple[int, int]]:
    rows_to = np.cumsum(counts)
    while first < last:
        rows = int(rows_to[first] - counts[first]) + ROWS_PER_RUN
        nbytes = int(places[first]) + BYTES_PER_RUN
        stop = min(int(np.searchsorted(rows_to, rows, "right")), int(np.searchsorted(places, nbytes)) - 1)
        stop = min(max(stop, first + 1), last)
        yield first, stop
        first = stop


def _find_places(array: Bytes) -> Ints:
    """Where blocks begin, and where the last whole one ends, as far as their headers can be trusted."""
    size = len(array)
    if size < HEADER_BYTES:
        return np.zeros(1, np.int64)
    stride = HEADER_BYTES + int.from_bytes(array[_LENGTH_AT : _LENGTH_AT + _LENGTH.size], "big")
    if size % stride == 0:
        heads = np.ndarray(size // stride, _HEADER, array, 0, (stride,))
        if bool(((heads["length"] == stride - HEADER_BYTES) & (heads["magic"] == MAGIC)).all()):
            return np.arange(0, size + 1, stride)
    places = [0]
    at, unpack, data = 0, _LENGTH.unpack_from, array.data
    while at + HEADER_BYTES <= size:
        at += HEADER_BYTES + unpack(data, at + _LENGTH_AT)[0]
        places.append(at)
    if at > size:
        places.pop()
    return np.array(places)


def _heads_at(array: Bytes, places: Ints) -> Heads:
    # A header may begin at any byte: a view in which the headers overlap.
    anywhere: Heads = np.ndarray(max(0, len(array) - HEADER_BYTES + 1), _HEADER, array, 0, (1,))
    return anywhere[places]


def _find_fault(array: Bytes, places: Ints, heads: Heads, salt: int) -> tuple[int, str] | None:
    """The first block that is not as it was written, and why."""
    lengths, counts = heads["length"].astype(np.int64), heads["count"].astype(np.int64)
    sizes = heads["record_size"].astype(np.int64)
    fits = np.where(sizes > 0, sizes * counts, START_BYTES * (counts + 1)) <= lengths
    tests = (
        ("no block starts here", heads["magic"] == MAGIC),
        ("checksum failed", _checksums(array, places, salt) == heads["crc"]),
        ("written by a newer version", heads["flags"] <= TAGGED),
        ("fields contradict each other", fits & (counts > 0)),
    )
    bad = np.flatnonzero(~np.logical_and.reduce([passed for _, passed in tests]))
    if not len(bad):
        return None
    number = int(bad[0])
    return number, next(reason for reason, passed in tests if not passed[number])


def _checksums(array: Bytes, places: Ints, salt: int) -> npt.NDArray[np.uint32]:
    starts, ends = (places[:-1] + CHECKED_FROM).tolist(), places[1:].tolist()
    # Many small slices are quicker from bytes, even with a copy of everything; large ones are not copied.
    data = array.tobytes() if len(array) < _SMALL_BLOCK_BYTES * len(starts) else array
    pieces = map(data.__getitem__, map(slice, starts, ends))
    sums = map(google_crc32c.extend, itertools.repeat(salt), pieces)
    return np.fromiter(sums, np.uint32, len(starts))
