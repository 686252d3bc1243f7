"""Time for code that waits: one interface, so that a test can move it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Protocol

__all__ = ["LoopTimers", "Timer", "Timers", "deadline"]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def now_s(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Timer: ...

    async def sleep(self, delay_s: float) -> None: ...


class LoopTimers:
    """The time of the running event loop."""

    now_s = staticmethod(time.monotonic)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback, *args)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


@contextlib.asynccontextmanager
async def deadline(timers: Timers, limit_s: float) -> AsyncIterator[None]:
    """TimeoutError when the body takes longer, by the time of `timers`."""
    async with asyncio.timeout(None) as scope:
        timer = timers.call_later(limit_s, _expire, scope)
        try:
            yield
        finally:
            timer.cancel()


def _expire(scope: asyncio.Timeout) -> None:
    scope.reschedule(asyncio.get_running_loop().time() - 1.0)
