"""Many neighbouring blocks, read in one go, as few spans.

A backlog of single PUBs is a row of blocks with a message or two. Taken one by one they would cost
several microseconds each, so their headers are checked together as arrays and each run of them becomes
one span; only the checksum is left to a loop.
"""

import itertools
from bisect import bisect_right
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from nsqlake.topiclog.block import BLOCK_HEADER, CHECKED_FROM, MAGIC, BlockFault, Span, decode_block
from nsqlake.topiclog.merging import SMALL_COUNT

__all__ = ["Chunk", "Placed", "decode_blocks", "headers_at"]

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
_HEADER_BYTES = BLOCK_HEADER.size
_HEADER_RANGE = np.arange(_HEADER_BYTES, dtype=np.int64)
_WORTH_MERGING = 8  # neighbours
_extend = google_crc32c.extend


class Placed(NamedTuple):
    """Where the index says that blocks are: positions in the chunk's bytes, first offsets, counts."""

    positions: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class Chunk:
    """The spans of the offsets [start, end)."""

    __slots__ = ("_bases", "_spans", "end", "nbytes", "start")

    def __init__(self, start: int, end: int, spans: list[Span], nbytes: int) -> None:
        self.start = start
        self.end = end
        self.nbytes = nbytes
        self._spans = spans
        self._bases = [span.base for span in spans]

    def find(self, offset: int) -> Span | None:
        """The span with the first message at or after `offset`."""
        i = bisect_right(self._bases, offset) - 1
        if i >= 0 and self._spans[i].end > offset:
            return self._spans[i]
        return self._spans[i + 1] if i + 1 < len(self._spans) else None


class _Decoder:
    """Collects the spans of good blocks and the numbers of bad ones."""

    def __init__(self, data: bytes, placed: Placed, salt: int) -> None:
        self._data = data
        self._placed = placed
        self._salt = salt
        self.spans: list[Span] = []
        self.bad: list[tuple[int, BlockFault]] = []

    def take_each(self, start: int, stop: int) -> None:
        placed = self._placed
        for number in range(start, stop):
            span = decode_block(self._data, int(placed.positions[number]), self._salt)
            if isinstance(span, BlockFault):
                self.bad.append((number, span))
            elif span.base != placed.offsets[number] or span.count != placed.counts[number]:
                self.bad.append((number, BlockFault.LAYOUT))
            else:
                self.spans.append(span)

    def take_small(self, start: int, stop: int) -> None:
        """Small blocks: all together if all are good, else one by one to find the bad ones."""
        placed = Placed(*(column[start:stop] for column in self._placed))
        heads = headers_at(self._data, placed.positions)
        if heads is None or not self._are_good(heads, placed):
            self.take_each(start, stop)
            return
        dues = heads["due"]
        ends = placed.offsets + placed.counts
        breaks = np.flatnonzero((placed.offsets[1:] != ends[:-1]) | (dues[1:] != dues[:-1])) + 1
        for a, b in itertools.pairwise([0, *breaks.tolist(), stop - start]):
            part = Placed(*(column[a:b] for column in placed))
            self.spans.append(_merge(self._data, heads[a:b], part))

    def _are_good(self, heads: npt.NDArray[np.void], placed: Placed) -> bool:
        data, salt = self._data, self._salt
        lengths, counts, sizes = heads["length"], heads["count"].astype(np.int64), heads["record_size"]
        ends = placed.positions + _HEADER_BYTES + lengths
        plausible = (
            (heads["magic"] == MAGIC)
            & (counts == placed.counts)
            & (heads["flags"] == 0)
            & (heads["base"] == placed.offsets)
            & (ends <= len(data))
            & np.where(sizes > 0, sizes * counts == lengths, lengths > 4 * (counts + 1))
        )
        if not plausible.all():
            return False
        checked = zip((placed.positions + CHECKED_FROM).tolist(), ends.tolist(), strict=True)
        sums = list(map(_extend, itertools.repeat(salt), [data[a:b] for a, b in checked]))
        return bool(sums == heads["crc"].tolist())


def decode_blocks(data: bytes, placed: Placed, salt: int) -> tuple[list[Span], list[tuple[int, BlockFault]]]:
    """The spans of all good blocks, in order, and the numbers of the bad ones with the reason."""
    decoder = _Decoder(data, placed, salt)
    is_small = placed.counts <= SMALL_COUNT
    turns = np.flatnonzero(is_small[1:] != is_small[:-1]) + 1
    for start, stop in itertools.pairwise([0, *turns.tolist(), len(placed.counts)]):
        if is_small[start] and stop - start >= _WORTH_MERGING:
            decoder.take_small(start, stop)
        else:
            decoder.take_each(start, stop)
    return decoder.spans, decoder.bad


def headers_at(data: bytes, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.void] | None:
    """The headers at two or more positions, in place when evenly spaced; None when the last is cut off."""
    if int(positions[-1]) + _HEADER_BYTES > len(data):
        return None
    stride = int(positions[1] - positions[0])
    if bool((np.diff(positions) == stride).all()):
        return np.ndarray(len(positions), _HEADER, data, int(positions[0]), (stride,))
    gathered = np.frombuffer(data, np.uint8)[positions[:, None] + _HEADER_RANGE]
    headers: npt.NDArray[np.void] = gathered.view(_HEADER)[:, 0]
    return headers


def _merge(data: bytes, heads: npt.NDArray[np.void], placed: Placed) -> Span:
    """One span of good neighbouring blocks: equal single records stay in place, others move together."""
    lengths, sizes = heads["length"].astype(np.int64), heads["record_size"].astype(np.int64)
    counts = placed.counts
    count, base, due_ns = int(counts.sum()), int(placed.offsets[0]), int(heads["due"][0])
    stamps = np.repeat(heads["timestamp"].astype(np.int64), counts)
    size = int(sizes[0])
    are_equal = size > 0 and bool((sizes == size).all())
    begins = placed.positions + _HEADER_BYTES
    if are_equal and count == len(counts) and bool((np.diff(begins) == size + _HEADER_BYTES).all()):
        return Span(base, count, size, data, int(begins[0]), size + _HEADER_BYTES, None, stamps, due_ns)
    begins = begins + np.where(sizes > 0, 0, 4 * (counts + 1))
    ends = (placed.positions + _HEADER_BYTES + lengths).tolist()
    joined = b"".join([data[a:b] for a, b in zip(begins.tolist(), ends, strict=True)])
    if are_equal:
        return Span(base, count, size, joined, 0, size, None, stamps, due_ns)
    starts = [0, *np.cumsum(_record_sizes(data, sizes, placed)).tolist()]
    return Span(base, count, 0, joined, 0, 0, starts, stamps, due_ns)


def _record_sizes(data: bytes, sizes: npt.NDArray[np.int64], placed: Placed) -> npt.NDArray[np.int64]:
    """The size of every record of good blocks."""
    if (sizes > 0).all():
        return np.repeat(sizes, placed.counts)
    parts = []
    for position, size, count in zip(placed.positions, sizes, placed.counts, strict=True):
        if size:
            parts.append(np.full(count, size, np.int64))
        else:
            starts = np.frombuffer(data, ">u4", int(count) + 1, int(position) + _HEADER_BYTES)
            parts.append(np.diff(starts.astype(np.int64)))
    return np.concatenate(parts)
