"""The newest spans of a log, kept in memory up to a number of messages and of bytes."""

from bisect import bisect_right

from nsqlake.topiclog.block import Span
from nsqlake.topiclog.merging import SMALL_COUNT, merge_spans, mergeable

__all__ = ["TailCache"]

_COMPACT_AT = 1024
_WORTH_MERGING = 8
_SPAN_OVERHEAD_BYTES = 256  # the objects around the records


class TailCache:
    """Spans in order of offset: added at the end, dropped at the front."""

    def __init__(self, max_messages: int, max_bytes: int, *, merges: bool = False) -> None:
        """With `merges`, small spans become one when they are read; they are then also dropped as one."""
        self._merges = merges
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._bases: list[int] = []
        self._spans: list[Span] = []
        self._head = 0
        self.messages = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._spans) - self._head

    @property
    def first(self) -> int | None:
        """The lowest offset kept."""
        return self._bases[self._head] if self._head < len(self._bases) else None

    def add(self, span: Span) -> int:
        """Keep `span`, the newest; return how many messages had to go for it."""
        self._bases.append(span.base)
        self._spans.append(span)
        self.messages += span.count
        self.nbytes += len(span.data) + _SPAN_OVERHEAD_BYTES
        if self.messages <= self._max_messages and self.nbytes <= self._max_bytes:
            return 0
        before = self.messages
        while self.messages > self._max_messages or self.nbytes > self._max_bytes:
            self.drop_first()
        return before - self.messages

    def find(self, offset: int) -> Span | None:
        """The span with the first message at or after `offset`, which is not below `first`."""
        i = bisect_right(self._bases, offset, self._head) - 1
        if i < self._head or self._spans[i].end <= offset:
            i = max(i + 1, self._head)
            if i >= len(self._spans):
                return None
        if self._merges and self._spans[i].count <= SMALL_COUNT and i + _WORTH_MERGING < len(self._spans):
            self._merge(i)
        return self._spans[i]

    def _merge(self, start: int) -> None:
        """Whoever reads a backlog of small spans reads on, so those behind become one."""
        stop = mergeable(self._spans, start)
        if stop - start < _WORTH_MERGING:
            return
        merged = merge_spans(self._spans[start:stop])
        self._spans[start:stop] = [merged]
        self._bases[start:stop] = [merged.base]
        self.nbytes -= (stop - start - 1) * _SPAN_OVERHEAD_BYTES

    def drop_below(self, offset: int) -> None:
        """Forget the spans that end at or below `offset`."""
        while self._head < len(self._spans) and self._spans[self._head].end <= offset:
            self.drop_first()

    def cut_below(self, offset: int) -> None:
        """Forget every message below `offset`, also those of a merged span that goes on behind it."""
        self.drop_below(offset)
        if self._head < len(self._spans) and self._spans[self._head].base < offset:
            span = self._spans[self._head]
            self.messages -= offset - span.base
            self._spans[self._head] = span.since(offset)
            self._bases[self._head] = offset

    def drop_first(self) -> Span:
        span = self._spans[self._head]
        self.messages -= span.count
        self.nbytes -= len(span.data) + _SPAN_OVERHEAD_BYTES
        self._spans[self._head] = _GONE
        self._head += 1
        if self._head >= _COMPACT_AT and self._head * 2 >= len(self._spans):
            del self._spans[: self._head], self._bases[: self._head]
            self._head = 0
        return span

    def clear(self) -> None:
        self._bases.clear()
        self._spans.clear()
        self._head = self.messages = self.nbytes = 0


_GONE = Span(0, 0, 1, b"", 0, 1, None, 0)
