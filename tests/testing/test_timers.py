import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.time_lapse import advance, advance_blocking
from nsqlake.testing.timers import ManualTimer, ManualTimers


def run_with_timers(scenario: Callable[[ManualClock, ManualTimers], object]) -> object:
    clock = ManualClock()
    return asyncio.run(scenario(clock, ManualTimers(clock)))  # type: ignore[arg-type]


def pause(timers: ManualTimers, delay_s: float) -> Coroutine[Any, Any, None]:
    """No test sleeps; this one waits for a clock that the test moves."""
    wait = timers.sleep
    return wait(delay_s)


def test_a_timer_fires_when_its_time_has_come_and_not_before() -> None:
    async def scenario(clock: ManualClock, timers: ManualTimers) -> list[list[str]]:
        fired: list[str] = []
        timers.call_later(90, fired.append, "retry")
        await advance(clock, 89.999)
        before = list(fired)
        await advance(clock, 0.001)
        return [before, fired]

    assert run_with_timers(scenario) == [[], ["retry"]]


def test_timers_fire_in_the_order_of_their_time_each_at_its_own() -> None:
    async def scenario(clock: ManualClock, timers: ManualTimers) -> list[tuple[str, float]]:
        fired: list[tuple[str, float]] = []
        for name, delay_s in (("third", 30), ("first", 10), ("second", 20), ("also third", 30)):
            timers.call_later(delay_s, lambda name=name: fired.append((name, timers.now_s())))
        await advance(clock, 100)
        return fired

    expected = [("first", 10), ("second", 20), ("third", 30), ("also third", 30)]
    assert run_with_timers(scenario) == expected


def test_timers_that_a_timer_sets_fire_within_the_same_move() -> None:
    async def scenario(clock: ManualClock, timers: ManualTimers) -> tuple[list[float], float]:
        fired: list[float] = []

        def tick() -> None:
            fired.append(timers.now_s())
            timers.call_later(25, tick)

        timers.call_later(25, tick)
        await advance(clock, 100)
        return fired, timers.now_s()

    assert run_with_timers(scenario) == ([25, 50, 75, 100], 100)


def test_a_cancelled_timer_does_not_fire_even_if_it_is_due_at_the_same_moment() -> None:
    async def scenario(clock: ManualClock, timers: ManualTimers) -> list[str]:
        fired: list[str] = []
        early = timers.call_later(5, fired.append, "cancelled before")
        cancelled: list[ManualTimer] = []
        timers.call_later(10, lambda: [timer.cancel() for timer in cancelled])
        cancelled.append(timers.call_later(10, fired.append, "cancelled at its moment"))
        early.cancel()
        await advance(clock, 20)
        return fired

    assert run_with_timers(scenario) == []


def test_sleep_ends_when_the_clock_was_moved_so_far() -> None:
    async def scenario(clock: ManualClock, timers: ManualTimers) -> tuple[bool, bool]:
        sleeper = asyncio.create_task(pause(timers, 60))
        await advance(clock, 59)
        is_early = sleeper.done()
        await advance(clock, 1)
        return is_early, sleeper.done()

    assert run_with_timers(scenario) == (False, True)


def test_a_sleep_that_was_cancelled_leaves_no_timer() -> None:
    async def scenario(clock: ManualClock, timers: ManualTimers) -> int | None:
        sleeper = asyncio.create_task(pause(timers, 60))
        await asyncio.sleep(0)
        assert timers.wait_ns == 60_000_000_000
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        return timers.wait_ns

    assert run_with_timers(scenario) is None


def test_a_timer_without_delay_fires_although_the_clock_stands_still() -> None:
    async def scenario(_: ManualClock, timers: ManualTimers) -> bool:
        await pause(timers, 0)
        fired = asyncio.Event()
        timers.call_later(-1, fired.set)
        await asyncio.wait_for(fired.wait(), 10)
        return fired.is_set()

    assert run_with_timers(scenario)


def test_a_timer_fires_on_the_loop_that_set_it_though_another_thread_moves_the_clock() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)
    is_set = threading.Event()
    found: list[threading.Thread] = []

    async def client() -> None:
        fired = asyncio.Event()
        timers.call_later(30, lambda: (found.append(threading.current_thread()), fired.set()))
        is_set.set()
        await fired.wait()

    thread = threading.Thread(target=lambda: asyncio.run(client()))
    thread.start()
    assert is_set.wait(10)
    advance_blocking(clock, 30)
    thread.join(10)

    assert found == [thread]
    advance_blocking(clock, 30)  # its loop is closed, which hinders nobody


def test_a_timer_of_a_closed_loop_is_forgotten() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)

    async def set_and_leave() -> None:
        timers.call_later(30, lambda: pytest.fail("nobody is there any more"))

    asyncio.run(set_and_leave())
    advance_blocking(clock, 60)

    assert timers.wait_ns is None
