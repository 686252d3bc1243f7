"""A topic's log as its channels see it: up to `fanout`, without what was emptied."""

from bisect import bisect_right
from typing import Protocol

from nsqlake.topiclog.block import Span

__all__ = ["Backlog", "Log"]


class Log(Protocol):
    """What topics and channels need of a `TopicLog` or a `MemoryLog`."""

    @property
    def oldest(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def memory_first(self) -> int: ...
    def read(self, offset: int) -> Span | None: ...
    def count(self, start: int, stop: int) -> int: ...
    def due_blocks(self, start: int, stop: int) -> list[tuple[int, int, int]]: ...


class Backlog:
    """The readable part of a log. `fanout` is the offset up to which messages flow to channels."""

    __slots__ = ("_emptied", "fanout", "flowed", "log")

    def __init__(self, log: Log, fanout: int, emptied: list[tuple[int, int]] | None = None) -> None:
        self.log = log
        self.fanout = fanout
        self.flowed = 0  # messages that ever flowed to channels; `count` forgets what storage lets go
        self._emptied = sorted(emptied or [])

    @property
    def emptied(self) -> list[tuple[int, int]]:
        return list(self._emptied)

    def skip(self, start: int, stop: int) -> None:
        """Nobody shall be sent what lies in [start, stop)."""
        if start >= stop:
            return
        if self._emptied and self._emptied[-1][1] == start:
            # `read` steps over one range at a time, so neighbours have to be one.
            start = self._emptied.pop()[0]
        self._emptied.append((start, stop))

    def forget_before(self, offset: int) -> None:
        self._emptied = [(start, stop) for start, stop in self._emptied if stop > offset]

    def count(self, start: int, stop: int) -> int:
        """Messages in [start, stop) that channels may be sent."""
        if start >= stop:
            return 0
        total = self.log.count(start, stop)
        for low, high in self._emptied:
            if low < stop and high > start:
                total -= self.log.count(max(low, start), min(high, stop))
        return total

    def read(self, offset: int) -> tuple[Span, int, int] | None:
        """The span with the first readable message at or after `offset`, its offset, where the run ends."""
        if not self._emptied:
            span = self.log.read(offset) if offset < self.fanout else None
            if span is None or span.base >= self.fanout:
                return None
            return span, max(offset, span.base), min(span.end, self.fanout)
        return self.read_up_to(offset, self.fanout)

    def read_up_to(self, offset: int, limit: int) -> tuple[Span, int, int] | None:
        """`read` as if messages flowed up to `limit`."""
        while True:
            offset = self._skip_emptied(offset)
            if offset >= limit:
                return None
            span = self.log.read(offset)
            if span is None:
                return None
            begin = max(offset, span.base)
            if begin != offset and self._skip_emptied(begin) != begin:
                offset = begin
                continue
            stop = min(span.end, limit, self._next_emptied(begin))
            return (span, begin, stop) if begin < stop else None

    def due_blocks(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Blocks published with a delay, less what was emptied (a block is emptied whole or not at all)."""
        blocks = self.log.due_blocks(start, stop)
        return [block for block in blocks if self._skip_emptied(block[0]) == block[0]]

    def count_due(self, start: int, stop: int) -> int:
        """Messages in [start, stop) that were published with a delay."""
        blocks = self.due_blocks(start, stop) if start < stop else ()
        return sum(min(base + count, stop) - max(base, start) for base, count, _ in blocks)

    def _skip_emptied(self, offset: int) -> int:
        at = bisect_right(self._emptied, (offset, 1 << 62)) - 1
        if at >= 0 and self._emptied[at][1] > offset:
            return self._emptied[at][1]
        return offset

    def _next_emptied(self, offset: int) -> int:
        at = bisect_right(self._emptied, (offset, 1 << 62))
        return self._emptied[at][0] if at < len(self._emptied) else 1 << 62
