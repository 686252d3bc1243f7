"""Which task reads what: pure functions from positions and sizes to ranges of about equal bytes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nsqlake.spark.offsets import SourceKey

__all__ = ["LogRange", "LogSizes", "Mark", "cut_to_limits", "plan_ranges"]


class Mark(NamedTuple):
    """An offset, and the bytes and messages from the start of a range to it."""

    offset: int
    nbytes: int
    messages: int


class LogSizes(NamedTuple):
    """How a range is filled. The last mark is its end; offsets between marks need not be dense."""

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


class LogRange(NamedTuple):
    """What one task reads: the messages of [start, end) of one topic on one node."""

    topic: str
    node: str
    log: str
    start: int
    end: int


# Partitions -------------------------------------------------------------------------------------------


def plan_ranges(
    sizes: Mapping[SourceKey, LogSizes], logs: Mapping[SourceKey, str], min_partitions: int
) -> list[LogRange]:
    """About `min_partitions` ranges of equal size, at least one for each log that has anything new."""
    total = sum(each.nbytes for each in sizes.values())
    target = max(1, -(-total // max(1, min_partitions)))
    return [
        LogRange(key.topic, key.node, logs[key], start, end)
        for key in sorted(sizes)
        for start, end in _split(sizes[key], target)
    ]


def _split(sizes: LogSizes, target_bytes: int) -> list[tuple[int, int]]:
    if sizes.start >= sizes.end:
        return []
    pieces = max(1, round(sizes.nbytes / target_bytes))
    ranges: list[tuple[int, int]] = []
    start = sizes.start
    for mark in sizes.marks[:-1]:
        wanted = (len(ranges) + 1) * sizes.nbytes / pieces
        if mark.nbytes >= wanted and mark.offset > start and len(ranges) + 1 < pieces:
            ranges.append((start, mark.offset))
            start = mark.offset
    return [*ranges, (start, sizes.end)]


# Limits -----------------------------------------------------------------------------------------------


def cut_to_limits(
    sizes: Mapping[SourceKey, LogSizes], *, max_messages: int | None = None, max_bytes: int | None = None
) -> dict[SourceKey, int]:
    """Where each range ends when all together may not exceed the limits; each gives up the same share.

    A range that has anything always goes on a little, so that no log is left behind for ever.
    """
    share = 1.0
    messages = sum(each.messages for each in sizes.values())
    nbytes = sum(each.nbytes for each in sizes.values())
    if max_messages is not None and messages > max_messages:
        share = max_messages / messages
    if max_bytes is not None and nbytes > max_bytes:
        share = min(share, max_bytes / nbytes)
    return {key: _cut(each, share) for key, each in sizes.items()}


def _cut(sizes: LogSizes, share: float) -> int:
    """The offset up to which about `share` of the range's messages lie."""
    if share >= 1 or sizes.start >= sizes.end:
        return sizes.end
    wanted = max(1, int(sizes.messages * share))
    before = Mark(sizes.start, 0, 0)
    for mark in sizes.marks:
        if mark.messages >= wanted:
            return _within(before, mark, wanted)
        before = mark
    return sizes.end


def _within(before: Mark, mark: Mark, wanted: int) -> int:
    """Offsets between two marks count messages only where none is missing; else the mark has to do."""
    is_dense = mark.offset - before.offset == mark.messages - before.messages
    if is_dense or before.messages >= wanted:
        return before.offset + (wanted - before.messages)
    return mark.offset
