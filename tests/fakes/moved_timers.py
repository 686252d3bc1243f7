"""Timers for a test that runs on the loop itself: nothing is due until the test lets time pass."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class MovedTimer:
    due_s: float
    callback: Callable[..., object]
    args: tuple[object, ...]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class MovedTimers:
    """`nsqlake.runtime.timers.Timers` by hand."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self.timers: list[MovedTimer] = []

    def now_s(self) -> float:
        return self._now_s

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> MovedTimer:
        timer = MovedTimer(self._now_s + delay_s, callback, args)
        self.timers.append(timer)
        return timer

    async def sleep(self, delay_s: float) -> None:
        done = asyncio.get_running_loop().create_future()
        self.call_later(delay_s, done.set_result, None)
        await done

    @property
    def waiting_count(self) -> int:
        return sum(not timer.is_cancelled for timer in self.timers)

    def advance(self, elapsed_s: float) -> None:
        """Let time pass and call what becomes due, in its order."""
        end_s = self._now_s + elapsed_s
        while due := [t for t in self.timers if not t.is_cancelled and t.due_s <= end_s]:
            timer = min(due, key=lambda t: t.due_s)
            self._now_s = max(self._now_s, timer.due_s)
            self.timers.remove(timer)
            timer.callback(*timer.args)
        self._now_s = end_s
