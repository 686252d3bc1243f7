"""Which task reads what: pure functions from the sizes of ranges to parts of about equal size.

Sizes are known at marks. Between two marks an offset is a message only where no offset is missing: after an
unclean stop of a node a thousand million of them are. There a cut is made at a mark.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from nsqlake.spark.offsets import SourceKey

__all__ = ["LogRange", "LogSizes", "Mark", "cut_to_limits", "plan_parts"]

Measure = Literal["nbytes", "messages"]


class Mark(NamedTuple):
    """An offset, and the bytes and messages from the start of a range to it."""

    offset: int
    nbytes: int
    messages: int


class LogSizes(NamedTuple):
    """How a range is filled. The last mark is its end."""

    start: int
    marks: Sequence[Mark]

    @property
    def end(self) -> int:
        return self.marks[-1].offset if self.marks else self.start

    @property
    def nbytes(self) -> int:
        return self.marks[-1].nbytes if self.marks else 0

    @property
    def messages(self) -> int:
        return self.marks[-1].messages if self.marks else 0

    def offset_after(self, wanted: int, measure: Measure) -> int:
        """The offset by which about `wanted` bytes or messages have passed, rather fewer than more."""
        number = bisect_left(self.marks, wanted, key=attrgetter(measure))
        if number == len(self.marks):
            return self.end
        before = self.marks[number - 1] if number else Mark(self.start, 0, 0)
        return _between(before, self.marks[number], wanted, measure)


def _between(before: Mark, mark: Mark, wanted: int, measure: Measure) -> int:
    passed: int = getattr(before, measure)
    until: int = getattr(mark, measure)
    messages = mark.messages - before.messages
    if wanted == until:
        return mark.offset
    if mark.offset - before.offset == messages:
        return before.offset + messages * (wanted - passed) // (until - passed)
    return before.offset


class LogRange(NamedTuple):
    """The messages of [start, end) of one topic on one node; about `nbytes` of the log."""

    topic: str
    node: str
    log: str
    start: int
    end: int
    nbytes: int


# Partitions -------------------------------------------------------------------------------------------


def plan_parts(
    sizes: Mapping[SourceKey, LogSizes], logs: Mapping[SourceKey, str], wished: int
) -> list[tuple[LogRange, ...]]:
    """All ranges behind each other, cut into `wished` parts of equal size, fewer if there is too little.

    A large log is read by many tasks, and many small ones by the same.
    """
    total = sum(each.nbytes for each in sizes.values())
    wished = max(1, min(wished, total))
    cuts = iter([total * number // wished for number in range(1, wished)])
    parts: list[list[LogRange]] = [[]]
    passed, cut = 0, next(cuts, total)
    for key in sorted(sizes):
        each, start, done = sizes[key], sizes[key].start, 0
        while cut < passed + each.nbytes:
            end = each.offset_after(cut - passed, "nbytes")
            if end > start:
                parts[-1].append(LogRange(*key, logs[key], start, end, cut - passed - done))
                start, done = end, cut - passed
            parts.append([])
            cut = next(cuts, total)
        if each.nbytes and start < each.end:
            parts[-1].append(LogRange(*key, logs[key], start, each.end, each.nbytes - done))
        passed += each.nbytes
    return [tuple(part) for part in parts if part]


# Limits -----------------------------------------------------------------------------------------------


def cut_to_limits(
    sizes: Mapping[SourceKey, LogSizes], *, max_messages: int | None = None, max_bytes: int | None = None
) -> dict[SourceKey, int]:
    """Where each range ends when all together may not exceed the limits; each gives up the same share.

    A range that has anything always goes on by a message, so that no log is left behind for ever.
    """
    limits: list[tuple[Measure, int]] = []
    for measure, most in (("messages", max_messages), ("nbytes", max_bytes)):
        if most is not None:
            limits.append((measure, most))  # type: ignore[arg-type]
    totals = {measure: sum(getattr(each, measure) for each in sizes.values()) for measure, _ in limits}
    return {key: min(_ends(each, limits, totals)) for key, each in sizes.items()}


def _ends(
    each: LogSizes, limits: Sequence[tuple[Measure, int]], totals: Mapping[Measure, int]
) -> Iterator[int]:
    yield each.end
    for measure, most in limits:
        if totals[measure] > most and each.messages:
            share = getattr(each, measure) * most // totals[measure]
            end = each.offset_after(share, measure)
            yield end if end > each.start else _first_step(each)


def _first_step(each: LogSizes) -> int:
    """As little as can be: a message, or what is before the first mark if offsets are missing there."""
    mark = each.marks[0]
    return each.start + 1 if mark.offset - each.start == mark.messages else mark.offset
