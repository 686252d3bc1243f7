"""How long messages take from publish to finish: percentiles over a sliding window.

A latency goes into a bucket by its logarithm, so that whatever is in one bucket differs by less than 2 % and
its middle is at most 1 % wrong. The window is made of slices; the oldest goes when a new one begins.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import ceil, log
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nsqlake.nsqd.stats.values import Latency, Percentile
from nsqlake.topiclog.block import Span
from nsqlake.topiclog.errors import TopicLogError

__all__ = ["LatencyRecorder", "LatencyWindow", "summarise"]

_SLICES = 4
_ERROR = 0.01
_BASE = (1 + _ERROR) / (1 - _ERROR)
_LOG_BASE = log(_BASE)
_MIDDLE = 2 / (_BASE + 1)  # of a bucket, as a share of its upper bound

Offsets = npt.NDArray[np.int64]


class LatencyWindow:
    """Latencies of the last `window_ns`, counted by bucket. Time comes in and must not go back."""

    __slots__ = ("_slice_ns", "_slices")

    def __init__(self, window_ns: int) -> None:
        self._slice_ns = max(1, window_ns // _SLICES)
        self._slices: deque[tuple[int, dict[int, int]]] = deque()

    def add(self, latency_ns: int, count: int, now_ns: int) -> None:
        """`count` messages took `latency_ns` each."""
        buckets = self._buckets(now_ns)
        bucket = ceil(log(latency_ns) / _LOG_BASE) if latency_ns > 1 else 0
        buckets[bucket] = buckets.get(bucket, 0) + count

    def add_all(self, latencies_ns: Offsets, now_ns: int) -> None:
        buckets = self._buckets(now_ns)
        numbers = np.ceil(np.log(np.maximum(latencies_ns, 1)) / _LOG_BASE).astype(np.int64)
        for bucket, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            buckets[int(bucket)] = buckets.get(int(bucket), 0) + int(count)

    def counts(self, now_ns: int) -> dict[int, int]:
        """Messages by bucket, of the window that ends now."""
        oldest = now_ns // self._slice_ns - _SLICES + 1
        total: dict[int, int] = {}
        for number, buckets in self._slices:
            if number >= oldest:
                _merge(total, buckets)
        return total

    def _buckets(self, now_ns: int) -> dict[int, int]:
        slices, number = self._slices, now_ns // self._slice_ns
        if not slices or slices[-1][0] < number:
            slices.append((number, {}))
            while slices[0][0] <= number - _SLICES:
                slices.popleft()
        return slices[-1][1]


def summarise(windows: Iterable[LatencyWindow], quantiles: Sequence[float], now_ns: int) -> Latency:
    """The percentiles of all windows together."""
    total: dict[int, int] = {}
    for window in windows:
        _merge(total, window.counts(now_ns))
    buckets = sorted(total)
    reached = list(accumulate(total[bucket] for bucket in buckets))
    count = reached[-1] if reached else 0
    return Latency(count, [_percentile(buckets, reached, quantile) for quantile in quantiles])


def _percentile(buckets: list[int], reached: list[int], quantile: float) -> Percentile:
    # In JSON, Go writes a whole number without a point.
    shown = int(quantile) if quantile == int(quantile) else quantile
    if not reached:
        return Percentile(shown, 0)
    rank = max(1, ceil(quantile * reached[-1]))
    return Percentile(shown, round(_MIDDLE * _BASE ** buckets[bisect_left(reached, rank)]))


def _merge(total: dict[int, int], more: dict[int, int]) -> None:
    for bucket, count in more.items():
        total[bucket] = total.get(bucket, 0) + count


class Stamped(Protocol):
    """What is needed of a log: when a message was published."""

    def read(self, offset: int) -> Span | None: ...


class LatencyRecorder:
    """The window of one channel, fed with the offsets of finished messages.

    A block has one timestamp, so a run costs one look-up; the last one is remembered. What the log no longer
    holds is not counted.
    """

    __slots__ = ("_base", "_end", "_log", "_now_ns", "_stamps", "window")

    def __init__(self, log: Stamped, window_ns: int, now_ns: Callable[[], int]) -> None:
        self.window = LatencyWindow(window_ns)
        self._log, self._now_ns = log, now_ns
        self._base = self._end = 0
        self._stamps: int | Offsets = 0

    def finished(self, first: int, count: int) -> None:
        """A run of messages was finished just now."""
        self.record(first, count, self._now_ns())

    def finished_offsets(self, offsets: Offsets) -> None:
        """Sorted, distinct messages were finished just now."""
        now_ns = self._now_ns()
        cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
        for part in np.split(offsets, cuts):
            self.record(int(part[0]), len(part), now_ns)

    def record(self, first: int, count: int, now_ns: int) -> None:
        end = first + count
        while first < end:
            if not self._base <= first < self._end and not self._look_up(first):
                return
            first = max(first, self._base)
            stop = min(end, self._end)
            if first >= stop:
                return
            stamps = self._stamps
            if isinstance(stamps, int):
                self.window.add(now_ns - stamps, stop - first, now_ns)
            else:
                self.window.add_all(now_ns - stamps[first - self._base : stop - self._base], now_ns)
            first = stop

    def _look_up(self, offset: int) -> bool:
        try:
            span = self._log.read(offset)
        except TopicLogError:
            return False
        if span is None:
            return False
        self._base, self._end, self._stamps = span.base, span.end, span.timestamp_ns
        return True
