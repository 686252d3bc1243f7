"""Offsets that no message has: jumps between epochs, damage, missing and retired segments."""

from bisect import bisect_right

__all__ = ["Gaps"]


class Gaps:
    """Sorted, disjoint ranges; asking is O(log n), adding is rare and O(n)."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._missing: list[int] = [0]  # offsets in the gaps before the n-th

    def __len__(self) -> int:
        return len(self._starts)

    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))

    def add(self, start: int, end: int) -> None:
        """Note that [start, end) holds no message; it may touch or overlap other gaps."""
        if start >= end:
            return
        kept = []
        for other_start, other_end in self.ranges():
            if other_end < start or other_start > end:
                kept.append((other_start, other_end))
            else:
                start, end = min(start, other_start), max(end, other_end)
        self._set(sorted([*kept, (start, end)]))

    def forget_below(self, offset: int) -> None:
        """Drop the gaps that end at or below `offset`."""
        if self._ends and self._ends[0] <= offset:
            self._set([gap for gap in self.ranges() if gap[1] > offset])

    def missing(self, start: int, stop: int) -> int:
        """How many offsets of [start, stop) are in gaps."""
        if not self._starts or stop <= start:
            return 0
        return self._below(stop) - self._below(start)

    def _below(self, offset: int) -> int:
        i = bisect_right(self._starts, offset)
        if i == 0:
            return 0
        return self._missing[i] - max(self._ends[i - 1] - offset, 0)

    def _set(self, ranges: list[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]
        self._missing = [0]
        for start, end in ranges:
            self._missing.append(self._missing[-1] + end - start)
