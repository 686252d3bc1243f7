"""All segments of a log, oldest first, and the offsets between them that no message has.

A retired segment's file goes. When an older segment has to stay, one file of every retired stretch is cut
down to its header instead, so that the next start can tell retirement from a file that vanished.
"""

import contextlib
import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter

from nsqlake.topiclog.files import Files
from nsqlake.topiclog.gaps import Gaps
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.retention import Extent, RetentionPolicy, removable
from nsqlake.topiclog.segment import SEGMENT_HEADER_BYTES, Segment, index_path

__all__ = ["SegmentList"]

_by_base = attrgetter("base")


class SegmentList:
    """The last segment may be the active one, which is still written to."""

    def __init__(self, files: Files, segments: list[Segment], next_: int) -> None:
        self._files = files
        self.all = segments
        self.gaps = Gaps()
        self.active: Segment | None = None
        for segment in segments:
            for start, end in segment.index.holes():
                self.gaps.add(start, end)
        ends = [*(segment.base for segment in segments[1:]), next_]
        for segment, end in zip(segments, ends, strict=bool(segments)):
            self.gaps.add(segment.end, end)

    @property
    def oldest(self) -> int | None:
        """The base of the oldest segment, pinned or not."""
        return self.all[0].base if self.all else None

    @property
    def first(self) -> int | None:
        """The base of the contiguous rest: behind the last retired stretch."""
        for number in range(len(self.all) - 1, 0, -1):
            before, segment = self.all[number - 1], self.all[number]
            if before.is_empty and before.vanished_before(segment):
                return segment.base
        return self.oldest

    @property
    def nbytes(self) -> int:
        return sum(segment.size for segment in self.all)

    def add_active(self, segment: Segment) -> None:
        self.all.append(segment)
        self.active = segment

    def start_at(self, offset: int) -> int:
        """The number of the segment in which to look for `offset` first."""
        return max(bisect_right(self.all, offset, key=_by_base) - 1, 0)

    def between(self, start: int, stop: int) -> Iterator[Segment]:
        """The segments that may hold messages of [start, stop)."""
        behind = itertools.islice(self.all, self.start_at(start), None)
        return itertools.takewhile(lambda segment: segment.base < stop, behind)

    def removable(self, needed: Callable[[int, int], bool], policy: RetentionPolicy) -> list[Segment]:
        """What may go, the active segment among them if nobody needs it."""
        extents = [Extent(s.base, s.end, s.size, s.index.newest_ns) for s in self.all]
        numbers = removable(extents, lambda base, end: base < end and needed(base, end), policy)
        return [self.all[number] for number in numbers if not self.all[number].readers]

    def remove(self, segments: list[Segment], release: Callable[[Segment], None]) -> list[tuple[str, int]]:
        """Remove those that are not active; return path and end offset of those whose messages are gone."""
        removed = []
        for segment in segments:
            if segment is self.active or (segment.is_empty and segment is not self.all[0]):
                continue
            release(segment)
            end = segment.end
            if self._remove_one(segment):
                removed.append((segment.path, end))
        if self.all:
            self.gaps.forget_below(self.all[0].base)
        return removed

    def _remove_one(self, segment: Segment) -> bool:
        number = self.all.index(segment)
        end = self.all[number + 1].base if number + 1 < len(self.all) else segment.end
        must_mark = number > 0 and not self.all[number - 1].is_empty
        with contextlib.suppress(OSError):
            if must_mark:
                self._empty(segment)
            else:
                self._unlink(segment)
                del self.all[number]
            self.gaps.add(segment.base, end)
            return True
        return False

    def _unlink(self, segment: Segment) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(index_path(segment.path))
        if segment.is_unreadable:
            self._files.rename(segment.path, segment.path + ".bad")
            return
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(segment.path)
        with contextlib.suppress(OSError):
            self._unlink_torn(segment)

    def _unlink_torn(self, segment: Segment) -> None:
        directory, name = os.path.split(segment.path)
        for other in self._files.listdir(directory):
            if other.startswith(f"{name}.torn-"):
                self._files.unlink(os.path.join(directory, other))

    def _empty(self, segment: Segment) -> None:
        # The index goes first: with it, an empty segment would look like one that lost its blocks.
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(index_path(segment.path))
        fd = self._files.open(segment.path, os.O_RDWR)
        try:
            self._files.ftruncate(fd, SEGMENT_HEADER_BYTES)
        finally:
            self._files.close(fd)
        segment.index = BlockIndex(segment.base)
        segment.size = SEGMENT_HEADER_BYTES
