"""The timers of clients under test: due when the test's clock says so, on the loop that set them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from threading import Lock

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.loop_turns import give_turns

__all__ = ["ManualTimer", "ManualTimers"]

_SECOND_NS = 1_000_000_000


class ManualTimer:
    """A call that waits for its time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[..., object], args: tuple[object, ...]
    ) -> None:
        self.loop = loop
        self.is_cancelled = False
        self._callback, self._args = callback, args

    def cancel(self) -> None:
        self.is_cancelled = True

    def run(self) -> None:
        if not self.is_cancelled:
            self._callback(*self._args)


class ManualTimers:
    """`nsqlake.runtime.timers.Timers` by a `ManualClock`, for clients on any number of loops and threads."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._order = count()
        self._heap: list[tuple[int, int, ManualTimer]] = []
        self._loops: set[asyncio.AbstractEventLoop] = set()
        clock.followers.insert(
            0, self
        )  # clients before brokers: what a client sends, the broker has in one round

    def now_s(self) -> float:
        return self._clock.elapsed_ns / _SECOND_NS

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> ManualTimer:
        timer = ManualTimer(asyncio.get_running_loop(), callback, args)
        due_ns = self._clock.elapsed_ns + max(0, round(delay_s * _SECOND_NS))
        with self._lock:
            self._loops.add(timer.loop)
            if due_ns > self._clock.elapsed_ns:
                heappush(self._heap, (due_ns, next(self._order), timer))
                return timer
        timer.loop.call_soon(timer.run)
        return timer

    async def sleep(self, delay_s: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_s, _wake, done)
        try:
            await done
        finally:
            timer.cancel()

    # As a follower of the clock -----------------------------------------------------------------------

    @property
    def wait_ns(self) -> int | None:
        with self._lock:
            while self._heap and self._heap[0][2].is_cancelled:
                heappop(self._heap)
            return max(0, self._heap[0][0] - self._clock.elapsed_ns) if self._heap else None

    def act(self) -> None:
        for timer in self._take_due():
            with suppress(RuntimeError):  # its loop is closed: nobody waits any more
                timer.loop.call_soon_threadsafe(timer.run)

    def _take_due(self) -> list[ManualTimer]:
        due = []
        with self._lock:
            while self._heap and self._heap[0][0] <= self._clock.elapsed_ns:
                due.append(heappop(self._heap)[2])
        return due

    def settle(self) -> bool:
        with self._lock:
            self._loops = {loop for loop in self._loops if not loop.is_closed()}
            loops = list(self._loops)
        for loop in loops:
            give_turns(loop)
        return False  # what clients do is seen by the broker

    def end_move(self) -> None:
        """Nothing is left to do."""


def _wake(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)
