"""How late the event loop is: a timer that compares when it should have rung with when it did."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter_ns

from nsqlake.nsqd.stats.histogram import Histogram

__all__ = ["INTERVAL_NS", "measure_loop_lag"]

INTERVAL_NS = 250_000_000


async def measure_loop_lag(
    lag: Histogram,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    now_ns: Callable[[], int] = perf_counter_ns,
) -> None:
    """For ever. The loop's timers are good to a millisecond, so less than that says nothing."""
    while True:
        due_ns = now_ns() + INTERVAL_NS
        await sleep(INTERVAL_NS / 1e9)
        lag.observe(now_ns() - due_ns)
