"""Time for the daemons: a wall clock that jumps cannot disturb, and the plain one."""

import time
from collections.abc import Callable
from functools import partial

NsSource = Callable[[], int]

MAX_DRIFT_NS = 500_000_000  # a larger difference is a jump of the wall clock, not drift
CHECK_INTERVAL_NS = 100_000_000

# CLOCK_BOOTTIME also counts the time a machine was suspended, so delays end when people expect them to.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


# A partial, not a function: it is called for every read of every connection.
steady_ns: NsSource = partial(time.clock_gettime_ns, _STEADY_CLOCK)


class Clock:
    """Deadlines are taken from `now_ns`, message timestamps from `timestamp_ns`."""

    def __init__(self, wall_ns: NsSource = time.time_ns, steady_ns: NsSource = steady_ns) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        steady = steady_ns()
        self._offset_ns = wall_ns() - steady
        self._check_at_ns = steady + CHECK_INTERVAL_NS
        self._latest_ns = 0

    def now_ns(self) -> int:
        """Nanoseconds since 1970 that never go backwards and never jump with the wall clock."""
        steady = self._steady_ns()
        if steady >= self._check_at_ns:
            self._follow_drift(steady)
        now = steady + self._offset_ns
        if now < self._latest_ns:
            return self._latest_ns
        self._latest_ns = now
        return now

    def timestamp_ns(self) -> int:
        """What the wall clock says, jumps and all."""
        return self._wall_ns()

    def _follow_drift(self, steady: int) -> None:
        self._check_at_ns = steady + CHECK_INTERVAL_NS
        offset_ns = self._read_offset_ns(steady)
        if abs(offset_ns - self._offset_ns) < MAX_DRIFT_NS:
            self._offset_ns = offset_ns

    def _read_offset_ns(self, steady: int) -> int:
        return self._wall_ns() - steady
