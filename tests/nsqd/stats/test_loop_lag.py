"""A timer that comes late says how late."""

import asyncio
from collections.abc import Awaitable

import pytest

from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.nsqd.stats.loop_lag import INTERVAL_NS, measure_loop_lag

MS = 1_000_000


def test_the_lag_is_what_passed_beyond_the_interval() -> None:
    lag = Histogram((MS, 10 * MS))
    lateness_ns = iter([0, 5 * MS, 30 * MS])
    now_ns = 0

    async def sleep(seconds: float) -> None:
        nonlocal now_ns
        late_ns = next(lateness_ns, None)
        if late_ns is None:
            raise asyncio.CancelledError
        now_ns += round(seconds * 1e9) + late_ns

    def measure() -> Awaitable[None]:
        return measure_loop_lag(lag, sleep=sleep, now_ns=lambda: now_ns)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(measure())  # type: ignore[arg-type]

    assert lag.buckets() == [("0.001", 1), ("0.01", 2), ("+Inf", 3)]
    assert lag.sum_ns == 35 * MS
    assert now_ns == 3 * INTERVAL_NS + 35 * MS
