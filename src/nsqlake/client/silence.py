"""Noticing that an nsqd has fallen silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nsqlake.runtime.timers import Timer, Timers

GRACE_S: Final = 1.0


class SilenceWatch:
    """Calls `on_silent` when nothing came for `limit_s`; `last_received_s` says when something did.

    The loop may have stood still itself, with bytes waiting in the socket: so it looks twice.
    """

    def __init__(
        self,
        timers: Timers,
        limit_s: float,
        *,
        last_received_s: Callable[[], float],
        on_silent: Callable[[], None],
    ) -> None:
        self._timers, self._limit_s = timers, limit_s
        self._last_received_s, self._on_silent = last_received_s, on_silent
        self._has_doubts = False
        self._timer: Timer = timers.call_later(limit_s, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left_s = self._last_received_s() + self._limit_s - self._timers.now_s()
        if left_s > 0:
            self._has_doubts = False
            self._timer = self._timers.call_later(left_s, self._look)
        elif not self._has_doubts:
            self._has_doubts = True
            self._timer = self._timers.call_later(min(GRACE_S, self._limit_s / 10), self._look)
        else:
            self._on_silent()
