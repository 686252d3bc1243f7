"""Blocks as they lie in a log's files, found by its index alone: for whoever sends them on unread."""

import os
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from nsqlake.topiclog.block import BLOCK_HEADER, Span, block_size, encode_block
from nsqlake.topiclog.errors import ReadError
from nsqlake.topiclog.files import Files
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.segment import Segment
from nsqlake.topiclog.segment_list import SegmentList

__all__ = ["MAX_FILES", "RawBlocks", "encode_span", "find_raw_blocks"]

MAX_FILES = 8  # held open by one reader, however small the segments are


class RawBlocks:
    """Whole blocks in order: `parts` (descriptor, position, bytes), or `data` when the log has no files.

    Until `release` the descriptors stay open and retention leaves the files as they are.
    """

    __slots__ = ("_files", "_segments", "base", "data", "next", "parts")

    def __init__(self, offset: int, files: Files | None = None) -> None:
        self.base = offset  # the offset of the first message; `next` when there is none
        self.next = offset  # where to read on
        self.parts: list[tuple[int, int, int]] = []
        self.data = b""
        self._files = files
        self._segments: list[tuple[Segment, int]] = []

    @property
    def nbytes(self) -> int:
        return len(self.data) + sum(count for _, _, count in self.parts)

    @property
    def file_count(self) -> int:
        return len(self._segments)

    def add(self, segment: Segment, start: int, stop: int) -> int:
        """The blocks [start, stop) of a segment; returns how many bytes they have. Raises `ReadError`."""
        assert self._files is not None
        index = segment.index
        if not self.parts:
            self.base = index.offset(start)
        self.next = index.offset(stop - 1) + index.counts[stop - 1]
        try:
            fd = self._files.open(segment.path, os.O_RDONLY)
            segment.readers += 1
            self._segments.append((segment, fd))
            extents = list(_extents(self._files, fd, segment, start, stop))
        except OSError as error:
            self.release()
            raise ReadError(segment.path, error) from error
        self.parts += [(fd, position, count) for position, count in extents]
        return sum(count for _, count in extents)

    def release(self) -> None:
        """Nobody needs the files any longer; may be called twice."""
        for segment, fd in self._segments:
            assert self._files is not None
            segment.readers -= 1
            self._files.close(fd)
        self._segments.clear()
        self.parts = []


def find_raw_blocks(
    files: Files, segments: SegmentList, offset: int, max_bytes: int, limit: int | None = None
) -> RawBlocks:
    """The blocks from the one that holds `offset` on, up to `max_bytes` but at least one if there is any.

    None that begins at or behind the offset `limit`.
    """
    blocks = RawBlocks(offset, files)
    for segment in segments.all[segments.start_at(offset) :]:
        start = segment.index.find(offset)
        if start == len(segment.index):
            continue
        stop = _stop_within(segment, start, max_bytes)
        if not blocks.parts:
            stop = max(stop, start + 1)
        if limit is not None:
            stop = min(stop, segment.index.find(limit))
        if stop > start:
            max_bytes -= blocks.add(segment, start, stop)
        if stop < len(segment.index) or blocks.file_count == MAX_FILES:
            break
    return blocks


def _stop_within(segment: Segment, start: int, max_bytes: int) -> int:
    """The number of the first block that does not end within `max_bytes` from block `start` on."""
    positions = segment.index.positions
    limit = positions[start] + max_bytes
    if segment.size <= limit:
        return len(positions)
    return max(bisect_right(positions, limit, start) - 1, start)


def _extents(files: Files, fd: int, segment: Segment, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """(position, bytes) of the blocks [start, stop), parted where damaged ones have left the index."""
    positions = segment.index.positions
    first = start
    for last in _before_holes(segment.index, start, stop):
        head = files.pread(fd, BLOCK_HEADER.size, positions[last])
        end = positions[last + 1] if last + 1 < len(positions) else segment.size
        if len(head) == BLOCK_HEADER.size:
            end = min(end, positions[last] + block_size(head, 0))  # which may be damaged too
        yield positions[first], end - positions[first]
        first = last + 1
    if first < stop:
        end = positions[stop] if stop < len(positions) else segment.size
        yield positions[first], end - positions[first]


def _before_holes(index: BlockIndex, start: int, stop: int) -> list[int]:
    """The numbers of the blocks of [start, stop) that are not followed by the next offset."""
    bases = np.frombuffer(index.bases[start : stop + 1], np.uint32).astype(np.int64)
    if stop == len(index):
        bases = np.append(bases, index.end - index.base)
    ends = bases[:-1] + np.frombuffer(index.counts[start:stop], np.uint32)
    return [start + int(i) for i in np.flatnonzero(ends != bases[1:])]


def encode_span(span: Span, salt: int = 0) -> bytes:
    """A block that a memory log keeps as it was published."""
    head, records = encode_block(
        span.data,
        span.count,
        base=span.base,
        salt=salt,
        timestamp_ns=span.timestamp(0),
        record_size=span.record_size,
        starts=span.starts,
        due_ns=span.due_ns,
    )
    return head + records
