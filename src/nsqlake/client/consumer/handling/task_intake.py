"""Coroutine handlers: a few tasks that take jobs from a queue.

A task works on until the queue is empty, so a handler that waits for nothing costs no task per message. Only
when all tasks wait inside handlers, and jobs are left, more tasks begin: one, then twice as many each turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic

from nsqlake.client.consumer.handling.jobs import Job, Jobs
from nsqlake.client.message import Message
from nsqlake.runtime.timers import Timers

SLICE_S: Final = 0.005  # then others get their turn
SLICE_JOBS: Final = 256


class TaskIntake(Generic[Job]):
    """Runs `handler` on jobs, at most `concurrency()` at a time."""

    def __init__(
        self,
        handler: Callable[[Job], Awaitable[object]],
        jobs: Jobs[Job],
        timers: Timers,
        concurrency: Callable[[], int],
    ) -> None:
        self._handler, self._jobs, self._timers = handler, jobs, timers
        self._concurrency = concurrency
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._in_handler = 0
        self._burst = 1
        self._is_looking = False

    @property
    def queued(self) -> int:
        return sum(len(self._jobs.messages(job)) for job in self._queue)

    @property
    def running(self) -> int:
        return self._in_handler

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        """Whether `task` runs a handler."""
        return task in self._tasks

    def add(self, jobs: list[Job]) -> None:
        self._queue.extend(jobs)
        if not self._tasks:
            self._burst = 1
            self._begin(1)
        if not self._is_looking:
            self._look_again()

    def take_unstarted(self) -> list[Message]:
        messages = [message for job in self._queue for message in self._jobs.messages(job)]
        self._queue.clear()
        return messages

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def wait_idle(self) -> None:
        await self._idle.wait()

    def close(self) -> None:
        """The tasks have ended with the last job."""

    # Tasks --------------------------------------------------------------------------------------------

    def _begin(self, count: int) -> None:
        for _ in range(count):
            task = self._loop.create_task(self._work(), name="consumer handler")
            self._tasks.add(task)
            task.add_done_callback(self._end)
        self._idle.clear()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._loop.call_exception_handler({"message": "handler ended its task", "task": task})
        if not self._tasks:
            self._idle.set()
            if self._queue:
                self._begin(1)

    def _look_again(self) -> None:
        self._is_looking = True
        self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Begin more tasks if all of them wait inside handlers; no handler is running while this does."""
        self._is_looking = False
        room = self._concurrency() - len(self._tasks)
        if not self._queue or room <= 0:
            return  # a task that ends a job takes the next
        if self._in_handler == len(self._tasks):
            self._begin(min(self._burst, room, len(self._queue)))
            self._burst *= 2
        self._look_again()

    # Jobs ---------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        queue, jobs, handler, now_s = self._queue, self._jobs, self._handler, self._timers.now_s
        yield_at_s, left = now_s() + SLICE_S, SLICE_JOBS
        while queue:
            began_s = now_s()
            job = jobs.admit(queue.popleft(), began_s)
            if job is not None:
                self._in_handler += 1
                try:
                    result = await handler(job)
                except BaseException as error:  # noqa: BLE001 - reported, and raised if it must be
                    self._in_handler -= 1
                    jobs.fail(job, error)
                    self._raise_if_ending(error)
                else:
                    self._in_handler -= 1
                    jobs.settle(job, result)
            left -= 1
            if began_s >= yield_at_s or not left:
                await asyncio.sleep(0)
                yield_at_s, left = now_s() + SLICE_S, SLICE_JOBS
        self._burst = 1

    @staticmethod
    def _raise_if_ending(error: BaseException) -> None:
        if isinstance(error, Exception):
            return
        task = asyncio.current_task()
        # A handler may let out the cancellation of something else; then only its own work has ended.
        if not isinstance(error, asyncio.CancelledError) or (task is not None and task.cancelling()):
            raise error
