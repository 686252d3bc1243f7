"""Long work lets others in."""

import asyncio
from collections.abc import Iterator
from time import perf_counter_ns

from nsqlake.runtime.pace import SLICE_NS, run_in_slices


def busy_steps(count: int, step_ns: int) -> Iterator[None]:
    for _ in range(count):
        until_ns = perf_counter_ns() + step_ns
        while perf_counter_ns() < until_ns:
            pass
        yield


def test_others_on_the_loop_come_in_between() -> None:
    async def run() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await run_in_slices(busy_steps(50, SLICE_NS // 5))
        task.cancel()
        return turns

    assert asyncio.run(run()) >= 8


def test_short_work_is_done_in_one_go() -> None:
    async def run() -> list[int]:
        found: list[int] = []
        pending = asyncio.create_task(asyncio.sleep(0))
        await run_in_slices(map(found.append, range(3)))
        assert not pending.done()
        pending.cancel()
        return found

    assert asyncio.run(run()) == [0, 1, 2]
