"""A histogram with fixed bounds: cheap enough to be fed once per run of messages."""

from bisect import bisect_left
from itertools import accumulate

__all__ = ["LATENCY_BOUNDS_NS", "Histogram"]

_MICROSECOND = 1_000
_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
LATENCY_BOUNDS_NS = (
    *(factor * _MICROSECOND for factor in (50, 100, 250, 500)),
    *(factor * _MILLISECOND for factor in (1, 2.5, 5, 10, 25, 50, 100, 250, 500)),
    *(factor * _SECOND for factor in (1, 2.5, 5, 10, 60, 600)),
)


class Histogram:
    """Counts of durations by upper bound."""

    __slots__ = ("_bounds_ns", "_counts", "sum_ns")

    def __init__(self, bounds_ns: tuple[float, ...] = LATENCY_BOUNDS_NS) -> None:
        self._bounds_ns = bounds_ns
        self._counts = [0] * (len(bounds_ns) + 1)
        self.sum_ns = 0

    def observe(self, duration_ns: int, count: int = 1) -> None:
        """`count` things took about `duration_ns` each; less than nothing, as a clock jumped, is nothing."""
        duration_ns = max(0, duration_ns)
        self._counts[bisect_left(self._bounds_ns, duration_ns)] += count
        self.sum_ns += duration_ns * count

    @property
    def count(self) -> int:
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, int]]:
        """Upper bound in seconds, as Prometheus writes it, and how many were not longer."""
        bounds = [*(str(float(bound / _SECOND)) for bound in self._bounds_ns), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True))
