"""Where the blocks of one segment are: derived from the segment, never trusted, rebuilt by a scan.

In memory it is a few arrays, 12 bytes per block: a backlog of single PUBs has a million of them.
Beside the segment it is written as

    magic b"NQX1" (4) | crc32c of what follows (4)
    segment base offset (8) | segment size (8) | newest timestamp (8) | end offset (8)
    blocks (4) | due blocks (4)
    base offsets, relative (4 x blocks) | positions (4 x blocks) | counts (4 x blocks)
    numbers of the due blocks (4 x due) | due times (8 x due)
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import google_crc32c
import numpy as np
import numpy.typing as npt

__all__ = ["BlockIndex"]

_MAGIC = b"NQX1"
_PREFIX = struct.Struct(">4sI")
_HEAD = struct.Struct(">QQQQII")


class BlockIndex:
    """Offset, position and count of every block of a segment, in order."""

    __slots__ = ("base", "bases", "counts", "due_blocks", "due_times", "end", "newest_ns", "positions")

    def __init__(self, base: int) -> None:
        self.base = base
        self.end = base
        self.newest_ns = 0
        self.bases = array("I")  # relative to `base`
        self.positions = array("I")
        self.counts = array("I")
        self.due_blocks = array("I")
        self.due_times = array("Q")

    def __len__(self) -> int:
        return len(self.bases)

    def add(self, offset: int, position: int, count: int, timestamp_ns: int, due_ns: int) -> None:
        """Note the block that was written behind all the others."""
        if due_ns:
            self.due_blocks.append(len(self.bases))
            self.due_times.append(due_ns)
        self.bases.append(offset - self.base)
        self.positions.append(position)
        self.counts.append(count)
        self.end = offset + count
        self.newest_ns = max(self.newest_ns, timestamp_ns)

    def extend(
        self,
        offsets: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        stamps: npt.NDArray[np.int64],
        dues: npt.NDArray[np.int64],
    ) -> None:
        """`add` for many blocks."""
        due_numbers = np.flatnonzero(dues)
        self.due_blocks.extend((due_numbers + len(self.bases)).tolist())
        self.due_times.extend(dues[due_numbers].tolist())
        self.bases.frombytes((offsets - self.base).astype(np.uint32).tobytes())
        self.positions.frombytes(positions.astype(np.uint32).tobytes())
        self.counts.frombytes(counts.astype(np.uint32).tobytes())
        self.end = int(offsets[-1] + counts[-1])
        self.newest_ns = max(self.newest_ns, int(stamps.max()))

    def find(self, offset: int) -> int:
        """The number of the first block that ends after `offset`; `len(self)` when there is none."""
        number = bisect_right(self.bases, max(offset - self.base, 0)) - 1
        if number < 0:
            return 0
        return number if self.base + self.bases[number] + self.counts[number] > offset else number + 1

    @property
    def last_end(self) -> int:
        """The offset after the last block; `end` is higher when blocks behind it were lost."""
        return self.offset(len(self) - 1) + self.counts[-1] if self.bases else self.base

    def offset(self, number: int) -> int:
        return self.base + self.bases[number]

    def due(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(base, count, due_ns) of the due blocks that hold messages of [start, stop)."""
        for i in range(bisect_left(self.due_blocks, self.find(start)), len(self.due_blocks)):
            number = self.due_blocks[i]
            offset = self.offset(number)
            if offset >= stop:
                return
            yield offset, self.counts[number], self.due_times[i]

    def remove(self, start: int, stop: int) -> None:
        """Forget damaged blocks. The arrays are replaced, not changed: a sync job may be writing them."""
        a, b = bisect_left(self.due_blocks, start), bisect_left(self.due_blocks, stop)
        shifted = array("I", [number - (stop - start) for number in self.due_blocks[b:]])
        self.due_blocks = self.due_blocks[:a] + shifted
        self.due_times = self.due_times[:a] + self.due_times[b:]
        self.bases = self.bases[:start] + self.bases[stop:]
        self.positions = self.positions[:start] + self.positions[stop:]
        self.counts = self.counts[:start] + self.counts[stop:]

    def holes(self) -> list[tuple[int, int]]:
        """The offset ranges between `base` and `end` that no block covers."""
        starts = np.append(np.frombuffer(self.bases, np.uint32), self.end - self.base).astype(np.int64)
        ends = np.concatenate(([0], starts[:-1] + np.frombuffer(self.counts, np.uint32)))
        return [(self.base + int(ends[i]), self.base + int(starts[i])) for i in np.flatnonzero(starts > ends)]

    def frozen(self) -> "BlockIndex":
        """A second view of the same arrays, which a later `remove` leaves as it is."""
        copy = BlockIndex(self.base)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def encode(self, segment_size: int) -> bytes:
        head = _HEAD.pack(
            self.base, segment_size, self.newest_ns, self.end, len(self.bases), len(self.due_blocks)
        )
        columns = (self.bases, self.positions, self.counts, self.due_blocks, self.due_times)
        body = head + b"".join(_big_endian(column) for column in columns)
        return _PREFIX.pack(_MAGIC, google_crc32c.value(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> "tuple[BlockIndex, int] | None":
        """The index and the segment size it was written for, or None when it is damaged."""
        if len(data) < _PREFIX.size + _HEAD.size:
            return None
        magic, crc = _PREFIX.unpack_from(data)
        if magic != _MAGIC or crc != google_crc32c.value(data[_PREFIX.size :]):
            return None
        base, segment_size, newest_ns, end, blocks, dues = _HEAD.unpack_from(data, _PREFIX.size)
        position = _PREFIX.size + _HEAD.size
        if len(data) != position + 12 * blocks + 12 * dues:
            return None
        index = cls(base)
        index.end, index.newest_ns = end, newest_ns
        for column, length in (
            (index.bases, blocks),
            (index.positions, blocks),
            (index.counts, blocks),
            (index.due_blocks, dues),
            (index.due_times, dues),
        ):
            stored = np.frombuffer(data, f">u{column.itemsize}", length, position)
            column.frombytes(stored.astype(f"=u{column.itemsize}").tobytes())
            position += stored.nbytes
        return index, segment_size


def _big_endian(column: "array[int]") -> bytes:
    size = column.itemsize
    return np.frombuffer(column, f"=u{size}").astype(f">u{size}").tobytes()
