"""One timer for the deadlines of all publishes, instead of one each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from nsqlake.runtime.timers import Timer, Timers

MIN_INTERVAL_S: Final = 0.005  # a look over all publishes costs too much to happen more often


class DeadlineWatch:
    """Calls `expire(now_s)` when the earliest deadline has passed; it returns the next one, or infinity."""

    __slots__ = ("_expire", "_next_s", "_timer", "_timers")

    def __init__(self, timers: Timers, expire: Callable[[float], float]) -> None:
        self._timers = timers
        self._expire = expire
        self._timer: Timer | None = None
        self._next_s = math.inf

    def watch(self, deadline_s: float) -> None:
        # Most deadlines are later than one that is watched already, and cost this comparison only.
        if deadline_s < self._next_s:
            self._arm(deadline_s)

    def _arm(self, deadline_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_s = deadline_s
        delay_s = max(deadline_s - self._timers.now_s(), MIN_INTERVAL_S)
        self._timer = self._timers.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer, self._next_s = None, math.inf
        self.watch(self._expire(self._timers.now_s()))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next_s = None, math.inf
