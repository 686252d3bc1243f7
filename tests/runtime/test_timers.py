import asyncio
import time

import pytest

from nsqlake.runtime.timers import LoopTimers, Timers, deadline
from tests.fakes.moved_timers import MovedTimers


def test_loop_timers_call_sleep_and_tell_the_time() -> None:
    async def scenario() -> list[str]:
        timers: Timers = LoopTimers()
        called: list[str] = []
        timers.call_later(0.0, called.append, "called")
        timers.call_later(0.0, called.append, "cancelled").cancel()
        wait = timers.sleep
        await wait(0.002)
        assert timers.now_s() == pytest.approx(time.monotonic(), abs=5.0)
        return called

    assert asyncio.run(scenario()) == ["called"]


def test_a_deadline_passes_by_the_time_of_its_timers() -> None:
    async def scenario() -> None:
        timers = MovedTimers()
        asyncio.get_running_loop().call_soon(timers.advance, 5.0)
        async with deadline(timers, 5.0):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


def test_a_deadline_that_was_kept_leaves_nothing_behind() -> None:
    async def scenario() -> int:
        timers = MovedTimers()
        async with deadline(timers, 5.0):
            await asyncio.sleep(0)
        timers.advance(10.0)
        await asyncio.sleep(0)
        return timers.waiting_count

    assert asyncio.run(scenario()) == 0


def test_cancelling_the_body_is_no_timeout() -> None:
    async def body(timers: MovedTimers) -> None:
        async with deadline(timers, 5.0):
            await asyncio.get_running_loop().create_future()

    async def scenario() -> int:
        timers = MovedTimers()
        task = asyncio.create_task(body(timers))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return timers.waiting_count

    assert asyncio.run(scenario()) == 0
