"""Reading a segment block by block: what an index is rebuilt from, and how damage is found."""

import itertools
import struct
from dataclasses import dataclass, field

import google_crc32c
import numpy as np
import numpy.typing as npt

from nsqlake.topiclog.block import BLOCK_HEADER, CHECKED_FROM, MAGIC, TAGGED, BlockFault
from nsqlake.topiclog.chunk import headers_at
from nsqlake.topiclog.files import Files
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.segment import SEGMENT_HEADER_BYTES

__all__ = ["BadStretch", "Scan", "scan_segment"]

_WINDOW_BYTES = 4 * 1024 * 1024
_PAGE_BYTES = 4096
_HEADER_BYTES = BLOCK_HEADER.size
_LEADING_FIELDS = struct.Struct(">4sIII")  # magic, crc, length, count: what a torn header may still tell
_LENGTH = struct.Struct(">I")
_WORTH_BATCHING = 8
_BATCH_BLOCKS = 4096
_extend = google_crc32c.extend


@dataclass(frozen=True, slots=True)
class BadStretch:
    """Bytes that are no block; `messages` is known from the offsets around them."""

    position: int
    end: int
    reason: str
    messages: int


@dataclass(slots=True)
class Scan:
    """What a segment holds."""

    index: BlockIndex
    size: int  # the end of the last good block
    bad: list[BadStretch] = field(default_factory=list)
    tail: BadStretch | None = None  # bad bytes with nothing good behind them
    is_unreadable: bool = False  # some page could not be read at all


class _Window:
    """A stretch of the file in memory; unreadable pages read as zeros."""

    def __init__(self, files: Files, fd: int, file_size: int) -> None:
        self._files, self._fd, self.file_size = files, fd, file_size
        self.start, self.data = 0, b""
        self.is_unreadable = False

    def load(self, position: int, length: int) -> int:
        """Have [position, position + length) in `data`, as far as the file goes; return where it begins."""
        local = position - self.start
        wanted = min(length, self.file_size - position)
        if local < 0 or local + wanted > len(self.data):
            self.start = position
            self.data = self._read(position, min(max(wanted, _WINDOW_BYTES), self.file_size - position))
            local = 0
        return local

    def _read(self, position: int, length: int) -> bytes:
        try:
            data = self._files.pread(self._fd, length, position)
        except OSError:
            self.is_unreadable = True
            pages = range(position, position + length, _PAGE_BYTES)
            data = b"".join(self._page(at, min(_PAGE_BYTES, position + length - at)) for at in pages)
        return data.ljust(length, b"\0")

    def _page(self, position: int, length: int) -> bytes:
        try:
            return self._files.pread(self._fd, length, position).ljust(length, b"\0")
        except OSError:
            return bytes(length)


class _Scanner:
    def __init__(self, window: _Window, salt: int, base: int) -> None:
        self._window = window
        self._salt = salt
        self._fault = BlockFault.SHORT
        self.index = BlockIndex(base)

    def take(self, position: int) -> int:
        """Add the block at `position` to the index and return its end; 0 when there is none."""
        window = self._window
        local = window.load(position, _HEADER_BYTES)
        if window.file_size - position < _HEADER_BYTES:
            return self._no(BlockFault.SHORT)
        fields = BLOCK_HEADER.unpack_from(window.data, local)
        magic, crc, length, count, base, timestamp_ns, due_ns, flags, record_size, _producer = fields
        if magic != MAGIC:
            return self._no(BlockFault.MAGIC)
        size = _HEADER_BYTES + length
        if position + size > window.file_size:
            return self._no(BlockFault.SHORT)
        least = count * record_size if record_size else 4 * (count + 1)
        is_framed = least <= length and (not record_size or (least < length) == bool(flags))
        if flags > TAGGED or not count or not is_framed:
            return self._no(BlockFault.LAYOUT)
        if not self.index.end <= base < self.index.base + 2**32:
            return self._no(BlockFault.LAYOUT)
        if local + size > len(window.data):
            local = window.load(position, size)
        if crc != _extend(self._salt, window.data[local + CHECKED_FROM : local + size]):
            return self._no(BlockFault.CHECKSUM)
        self.index.add(base, position, count, timestamp_ns, due_ns)
        return position + int(size)

    def take_many(self, position: int) -> int:
        """Add blocks from `position` on as long as they are good; return the end of the last, or `position`.

        Most of a segment is good, so its blocks are followed by their lengths alone and checked together.
        """
        window = self._window
        local = window.load(position, _HEADER_BYTES)
        places, ends = _chain(window.data, local)
        if len(places) < _WORTH_BATCHING:
            return position
        heads = headers_at(window.data, np.array(places))
        assert heads is not None
        good = self._good_prefix(heads, places, ends)
        if not good:
            return position
        heads = heads[:good]
        columns = (heads[name].astype(np.int64) for name in ("count", "timestamp", "due"))
        positions = np.array(places[:good]) + window.start
        self.index.extend(heads["base"].astype(np.int64), positions, *columns)
        return window.start + ends[good - 1]

    def _good_prefix(self, heads: npt.NDArray[np.void], places: list[int], ends: list[int]) -> int:
        bases, counts = heads["base"].astype(np.int64), heads["count"].astype(np.int64)
        lengths, sizes = heads["length"].astype(np.int64), heads["record_size"].astype(np.int64)
        expected = np.concatenate(([self.index.end], bases[:-1] + counts[:-1]))
        least = np.where(sizes > 0, sizes * counts, 4 * (counts + 1))
        plausible = (
            (heads["magic"] == MAGIC)
            & (heads["flags"] <= TAGGED)
            & (counts > 0)
            & (least <= lengths)
            & ((sizes == 0) | ((least < lengths) == (heads["flags"] == TAGGED)))
            & (bases == expected)
            & (bases < self.index.base + 2**32)
        )
        data, salt = self._window.data, self._salt
        candidates = len(places) if plausible.all() else int(plausible.argmin())
        pieces = [data[a + CHECKED_FROM : b] for a, b in zip(places[:candidates], ends, strict=False)]
        sums = np.fromiter(map(_extend, itertools.repeat(salt), pieces), np.int64, candidates)
        wrong = np.flatnonzero(sums != heads["crc"][:candidates])
        return int(wrong[0]) if len(wrong) else candidates

    def resync(self, position: int) -> int:
        """Where the next good block starts, which is not taken yet; 0 when there is none."""
        window = self._window
        while window.file_size - position >= _HEADER_BYTES:
            local = window.load(position, _HEADER_BYTES)
            found = window.data.find(MAGIC, local)
            if found < 0:
                position = window.start + max(len(window.data) - len(MAGIC) + 1, local + 1)
                continue
            position = window.start + found
            if self._peek(position):
                return position
            position += 1
        return 0

    def fault(self) -> str:
        """Why the last `take` found no block."""
        return self._fault.value

    def _peek(self, position: int) -> bool:
        kept, self.index = self.index, BlockIndex(self.index.base)
        self.index.end = kept.end
        fault, found = self._fault, self.take(position) > 0
        self.index, self._fault = kept, fault
        return found

    def _no(self, fault: BlockFault) -> int:
        self._fault = fault
        return 0


def scan_segment(files: Files, fd: int, file_size: int, *, salt: int, base: int) -> Scan:
    """Index every good block; bad bytes are skipped up to the next valid checksum with a later offset."""
    window = _Window(files, fd, file_size)
    scanner = _Scanner(window, salt, base)
    result = Scan(scanner.index, min(SEGMENT_HEADER_BYTES, file_size))
    position = SEGMENT_HEADER_BYTES
    while position < file_size:
        end = scanner.take_many(position)
        end = scanner.take(position) if end == position else end
        if end:
            position = result.size = end
            continue
        reason, expected = scanner.fault(), scanner.index.end
        good = scanner.resync(position + 1)
        if not good:
            messages = _claimed_messages(window, position)
            result.tail = BadStretch(position, file_size, reason, messages)
            break
        local = window.load(good, _HEADER_BYTES)
        messages = BLOCK_HEADER.unpack_from(window.data, local)[4] - expected
        result.bad.append(BadStretch(position, good, reason, messages))
        position = good
    result.is_unreadable = window.is_unreadable
    return result


def _chain(data: bytes, local: int) -> tuple[list[int], list[int]]:
    """Starts and ends of what would be blocks if every length is right, as far as `data` goes."""
    places: list[int] = []
    ends: list[int] = []
    last = len(data) - _HEADER_BYTES
    while local <= last and len(places) < _BATCH_BLOCKS:
        end = local + _HEADER_BYTES + _LENGTH.unpack_from(data, local + 8)[0]
        if end > len(data):
            break
        places.append(local)
        ends.append(end)
        local = end
    return places, ends


def _claimed_messages(window: _Window, position: int) -> int:
    """How many messages a torn block says it had, 0 when too little of it is left to say."""
    local = window.load(position, _LEADING_FIELDS.size)
    if window.file_size - position < _LEADING_FIELDS.size:
        return 0
    magic, _crc, _length, count = _LEADING_FIELDS.unpack_from(window.data, local)
    return int(count) if magic == MAGIC else 0
