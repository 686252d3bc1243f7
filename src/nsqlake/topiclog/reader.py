"""Reading blocks back from the segments of a log, with the last few stretches kept decoded."""

import errno
import os
from array import array
from bisect import bisect_right
from collections import Counter

import numpy as np
import numpy.typing as npt

from nsqlake.topiclog.block import BlockFault, Span, block_tag
from nsqlake.topiclog.chunk import Chunk, Placed, decode_blocks
from nsqlake.topiclog.damage import Damage, DamageCounter, set_aside
from nsqlake.topiclog.errors import ReadError, describe
from nsqlake.topiclog.files import Files
from nsqlake.topiclog.segment import Segment
from nsqlake.topiclog.segment_list import SegmentList

__all__ = ["READ_BYTES", "SegmentReader"]

READ_BYTES = 256 * 1024
_MAX_CACHED_BYTES = 8 * READ_BYTES
_MAX_CACHED_CHUNKS = 16
_MAX_OPEN_SEGMENTS = 4
_MAX_FAILED_READS = 10  # of one block; a channel tries once per second


class SegmentReader:
    """Serves spans of the segments it shares with the log; bad blocks become gaps."""

    def __init__(self, files: Files, salt: int, segments: SegmentList, damage: DamageCounter) -> None:
        self._files = files
        self._salt = salt
        self._segments = segments
        self._damage = damage
        self._chunks: list[Chunk] = []  # the last used at the end
        self._open: dict[Segment, int] = {}  # the last used at the end
        self._failed_reads: Counter[tuple[Segment, int]] = Counter()  # by position of the block

    @property
    def nbytes(self) -> int:
        """Bytes the kept chunks hold."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def read(self, offset: int) -> Span | None:
        """The span with the first message at or after `offset`, or None behind the last one."""
        for i, chunk in enumerate(self._chunks):
            if chunk.start <= offset < chunk.end:
                self._chunks.append(self._chunks.pop(i))
                span = chunk.find(offset)
                if span is not None:
                    return span
                offset = chunk.end
                break
        return self._read_segments(offset)

    def forget_below(self, offset: int) -> None:
        """Drop what lies wholly below `offset`."""
        self._chunks = [chunk for chunk in self._chunks if chunk.end > offset]

    def release(self, segment: Segment) -> None:
        """Close the segment, which is about to go, and drop what was read from it."""
        fd = self._open.pop(segment, -1)
        if fd >= 0:
            self._files.close(fd)
        self._chunks = [chunk for chunk in self._chunks if not segment.base <= chunk.start < segment.end]

    def close(self) -> None:
        for fd in self._open.values():
            self._files.close(fd)
        self._open.clear()
        self._chunks.clear()

    def read_block(self, segment: Segment, number: int) -> Span | None:
        """One block by its number, past the cache; None when it is damaged."""
        offset = segment.index.offset(number)  # now: a damaged block leaves the index
        return self._load(segment, number, number + 1).find(offset)

    def locate(self, offset: int) -> tuple[Segment, int] | None:
        """The segment and number of the first block that ends after `offset`, None when there is none."""
        for segment in self._segments.all[self._segments.start_at(offset) :]:
            number = segment.index.find(offset)
            if number < len(segment.index):
                return segment, number
        return None

    def read_tag(self, segment: Segment, number: int) -> tuple[int, int, bytes]:
        """First offset, count and tag of one block; the tag is empty when it has none or is damaged."""
        base, count = segment.index.offset(number), segment.index.counts[number]
        span = self.read_block(segment, number)
        return base, count, b"" if span is None else block_tag(span)

    def _read_segments(self, offset: int) -> Span | None:
        i = self._segments.start_at(offset)
        while i < len(self._segments.all):
            segment = self._segments.all[i]
            number = segment.index.find(offset)
            if number == len(segment.index):
                i += 1
                continue
            chunk = self._load(segment, number, self._last_of_chunk(segment, number))
            self._keep(chunk)
            span = chunk.find(offset)
            if span is not None:
                return span
        return None

    def _last_of_chunk(self, segment: Segment, number: int) -> int:
        positions = segment.index.positions
        limit = positions[number] + READ_BYTES
        if segment.size <= limit:
            return len(positions)
        return max(bisect_right(positions, limit, number + 1) - 1, number + 1)

    def _keep(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        total = self.nbytes
        while len(self._chunks) > 1 and (total > _MAX_CACHED_BYTES or len(self._chunks) > _MAX_CACHED_CHUNKS):
            total -= self._chunks.pop(0).nbytes

    def _load(self, segment: Segment, start: int, stop: int) -> Chunk:
        index = segment.index
        position = index.positions[start]
        end_position = index.positions[stop] if stop < len(index) else segment.size
        first, end = index.offset(start), index.offset(stop - 1) + index.counts[stop - 1]
        try:
            data = self._pread(segment, end_position - position, position)
        except OSError as error:
            if stop - start > 1:
                return self._load(segment, start, start + 1)
            self._failed_reads[segment, position] += 1
            if self._failed_reads[segment, position] < _MAX_FAILED_READS:
                raise ReadError(segment.path, error) from error
            # A sector that is gone for good must not hold up everything behind it.
            del self._failed_reads[segment, position]
            segment.is_unreadable = True
            self._discard(segment, start, stop, b"", describe(error))
            return Chunk(first, end, [], 0)
        del self._failed_reads[segment, position]
        placed = Placed(
            _wide(index.positions[start:stop]) - position,
            _wide(index.bases[start:stop]) + index.base,
            _wide(index.counts[start:stop]),
        )
        places = placed.positions
        spans, bad = decode_blocks(data, placed, self._salt)
        for i, stop_i, reason in reversed(_runs(bad)):
            end_of_run = int(places[stop_i]) if stop_i < len(places) else len(data)
            self._discard(segment, start + i, start + stop_i, data[int(places[i]) : end_of_run], reason)
        return Chunk(first, end, spans, len(data))

    def _pread(self, segment: Segment, length: int, position: int) -> bytes:
        fd = self._descriptor(segment)
        if fd < 0:
            return b""
        data = self._files.pread(fd, length, position)
        while 0 < len(data) < length:
            more = self._files.pread(fd, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def _descriptor(self, segment: Segment) -> int:
        """An open descriptor, or -1 when the file is gone."""
        if segment.fd >= 0:
            return segment.fd
        fd = self._open.pop(segment, -1)
        if fd < 0:
            try:
                fd = self._files.open(segment.path, os.O_RDONLY)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return -1
                raise ReadError(segment.path, error) from error
            if len(self._open) >= _MAX_OPEN_SEGMENTS:
                self._files.close(self._open.pop(next(iter(self._open))))
        self._open[segment] = fd
        return fd

    def _discard(self, segment: Segment, start: int, stop: int, data: bytes, reason: str) -> None:
        index = segment.index
        position, messages = index.positions[start], sum(index.counts[start:stop])
        if data:
            set_aside(self._files, segment.path, "bad", position, [data])
        self._segments.gaps.add(index.offset(start), index.offset(stop - 1) + index.counts[stop - 1])
        index.remove(start, stop)
        self._damage.add(
            Damage(segment.path, position, len(data), reason, messages=messages, blocks=stop - start)
        )


def _runs(bad: list[tuple[int, BlockFault]]) -> list[tuple[int, int, str]]:
    """Neighbouring bad blocks as one stretch: (first, stop, reason of the first)."""
    runs: list[tuple[int, int, str]] = []
    for number, fault in bad:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1, runs[-1][2])
        else:
            runs.append((number, number + 1, fault.value))
    return runs


def _wide(column: "array[int]") -> npt.NDArray[np.int64]:
    return np.frombuffer(column, np.uint32).astype(np.int64)
