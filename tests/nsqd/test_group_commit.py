"""Sharing the disk: every waiter gets a job that began after its change."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from nsqlake.nsqd.group_commit import GroupCommit
from tests.fakes.loop_turns import next_turn

Result = TypeVar("Result")


class GatedJob:
    """A job that ends when the test lets it."""

    def __init__(self, number: int, error: OSError | None = None) -> None:
        self.number, self._error = number, error
        self.gate = threading.Event()

    def run(self) -> None:
        assert self.gate.wait(10)
        if self._error is not None:
            raise self._error


class Disk:
    """Begins numbered jobs and notes how they ended."""

    def __init__(self) -> None:
        self.jobs: list[GatedJob] = []
        self.ended: list[tuple[int, OSError | None]] = []
        self.errors: dict[int, OSError] = {}
        self.has_work = True
        self.failure: OSError | None = None

    def begin(self) -> GatedJob | None:
        if self.failure is not None:
            raise self.failure
        if not self.has_work:
            return None
        number = len(self.jobs)
        self.jobs.append(GatedJob(number, self.errors.get(number)))
        return self.jobs[-1]

    def end(self, job: object, error: OSError | None) -> None:
        assert isinstance(job, GatedJob)
        self.ended.append((job.number, error))


def on_loop(scenario: Callable[[GroupCommit, Disk], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        disk = Disk()
        with ThreadPoolExecutor(1) as executor:
            try:
                return await scenario(GroupCommit(executor, disk.begin, disk.end), disk)
            finally:
                for job in disk.jobs:
                    job.gate.set()

    return asyncio.run(run())


def test_waiters_of_one_turn_share_a_job() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> int:
        waiters = [commit.wait() for _ in range(3)]
        await next_turn()
        assert commit.is_busy
        disk.jobs[0].gate.set()
        await asyncio.gather(*waiters)
        assert not commit.is_busy
        return len(disk.jobs)

    assert on_loop(scenario) == 1


def test_waiter_that_comes_during_a_job_waits_for_the_next_one() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> list[tuple[int, OSError | None]]:
        first = commit.wait()
        await next_turn()
        second = commit.wait()
        disk.jobs[0].gate.set()
        await first
        await next_turn()
        assert not second.done()
        disk.jobs[1].gate.set()
        await second
        return disk.ended

    assert on_loop(scenario) == [(0, None), (1, None)]


def test_failed_job_fails_its_waiters_only() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> list[int]:
        disk.errors[0] = OSError(5, "Input/output error")
        failing = commit.wait()
        await next_turn()
        later = commit.wait()
        disk.jobs[0].gate.set()
        with pytest.raises(OSError, match="Input/output error"):
            await failing
        await next_turn()
        disk.jobs[1].gate.set()
        await later
        return [number for number, error in disk.ended if error is not None]

    assert on_loop(scenario) == [0]


def test_nothing_to_do_is_done_at_once() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> bool:
        disk.has_work = False
        await commit.wait()
        return commit.is_busy

    assert on_loop(scenario) is False


def test_job_that_cannot_begin_fails_its_waiters() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> None:
        disk.failure = OSError(5, "Input/output error")
        with pytest.raises(OSError, match="Input/output error"):
            await commit.wait()

        disk.failure, disk.has_work = None, False
        await commit.wait()

    on_loop(scenario)


def test_request_begins_a_job_at_once_and_another_when_asked_meanwhile() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> list[int]:
        commit.request()
        assert commit.is_busy
        commit.request()
        commit.request()
        assert len(disk.jobs) == 1
        disk.jobs[0].gate.set()
        while len(disk.jobs) < 2:
            await next_turn()
        disk.jobs[1].gate.set()
        while commit.is_busy:
            await next_turn()
        return [number for number, _ in disk.ended]

    assert on_loop(scenario) == [0, 1]


def test_request_takes_those_who_wait_along() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> int:
        waiter = commit.wait()
        commit.request()
        disk.jobs[0].gate.set()
        await waiter
        await next_turn()
        return len(disk.jobs)

    assert on_loop(scenario) == 1


def test_waiter_that_gave_up_is_passed_over() -> None:
    async def scenario(commit: GroupCommit, disk: Disk) -> None:
        gone, other = commit.wait(), commit.wait()
        gone.cancel()
        await next_turn()
        disk.jobs[0].gate.set()
        await other

    on_loop(scenario)


def test_end_is_optional() -> None:
    async def scenario(_commit: GroupCommit, disk: Disk) -> list[tuple[int, OSError | None]]:
        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, disk.begin)
            waiter = commit.wait()
            await next_turn()
            disk.jobs[0].gate.set()
            await waiter
        return disk.ended

    assert on_loop(scenario) == []
