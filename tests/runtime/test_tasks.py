"""`TaskSupervisor` on a real loop."""

import asyncio
import logging

import pytest

from nsqlake.runtime.tasks import TaskSupervisor
from tests.fakes.loop_turns import next_turn, wait_until


async def wait_forever() -> None:
    await asyncio.Event().wait()


def test_a_failing_task_is_logged_with_its_traceback_and_the_others_go_on(caplog):
    async def fail() -> None:
        raise ValueError("broken")

    async def scenario() -> tuple[int, int, bool]:
        supervisor = TaskSupervisor()
        other = supervisor.spawn(wait_forever(), "other")
        await supervisor.spawn(fail(), "sync")
        result = supervisor.failure_count, len(supervisor), other.done()
        await supervisor.close()
        return result

    assert asyncio.run(scenario()) == (1, 1, False)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "TASK(sync): failed")
    assert "ValueError: broken" in caplog.text


def test_a_finished_task_is_forgotten():
    async def scenario() -> int:
        supervisor = TaskSupervisor()
        task = supervisor.spawn(next_turn(), "short")
        await asyncio.wait([task])
        await next_turn()
        return len(supervisor)

    assert asyncio.run(scenario()) == 0


def test_close_cancels_and_awaits_every_task(caplog):
    cleaned_up = []

    async def work(name: str) -> None:
        try:
            await wait_forever()
        finally:
            await next_turn()
            cleaned_up.append(name)

    async def scenario() -> list[str]:
        supervisor = TaskSupervisor()
        for name in ("a", "b"):
            supervisor.spawn(work(name), name)
        await next_turn()
        return await supervisor.close()

    assert asyncio.run(scenario()) == []
    assert sorted(cleaned_up) == ["a", "b"]
    assert caplog.records == []


def test_close_does_not_wait_longer_than_its_limit(caplog):
    async def scenario() -> list[str]:
        supervisor = TaskSupervisor()
        release = asyncio.Event()

        async def stubborn() -> None:
            try:
                await wait_forever()
            except asyncio.CancelledError:
                await release.wait()
                raise

        supervisor.spawn(stubborn(), "stubborn")
        await next_turn()
        names = await supervisor.close(limit_s=0.01)
        release.set()
        return names

    assert asyncio.run(scenario()) == ["stubborn"]
    assert "TASK(stubborn): ignored its cancellation limit_s=0.01" in caplog.text


def test_a_task_cancelled_before_its_first_step_leaves_no_open_coroutine():
    async def scenario() -> list[str]:
        supervisor = TaskSupervisor()
        supervisor.spawn(wait_forever(), "never begun")
        return await supervisor.close()

    assert asyncio.run(scenario()) == []


def test_close_called_by_a_task_of_its_own_does_not_cancel_it():
    async def scenario() -> list[str]:
        supervisor = TaskSupervisor()
        ended = []

        async def shut_down() -> None:
            ended.extend(await supervisor.close())
            ended.append("done")

        await supervisor.spawn(shut_down(), "shutdown")
        return ended

    assert asyncio.run(scenario()) == ["done"]


def test_nothing_starts_after_close():
    async def scenario() -> None:
        supervisor = TaskSupervisor()
        await supervisor.close()
        with pytest.raises(RuntimeError, match="task late was started after the supervisor closed"):
            supervisor.spawn(wait_forever(), "late")

    asyncio.run(scenario())


def test_what_must_never_end_is_begun_again_after_a_failure(caplog):
    begun = []

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise ValueError("broken")
        await wait_forever()

    async def scenario() -> tuple[int, list[str]]:
        supervisor = TaskSupervisor()
        supervisor.keep(work, "housekeeping", pause_s=0)
        await wait_until(lambda: len(begun) == 3)
        return supervisor.failure_count, await supervisor.close()

    assert asyncio.run(scenario()) == (2, [])
    assert [record.getMessage() for record in caplog.records] == ["TASK(housekeeping): failed"] * 2
