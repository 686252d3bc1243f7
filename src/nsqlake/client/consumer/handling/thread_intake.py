"""Plain handlers: threads of their own, so that nothing a handler does can hold up the event loop.

Jobs go to the threads through one queue and come back through the inbox, which wakes the loop once for many.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic

from nsqlake.client.consumer.delivery.inbox import Inbox
from nsqlake.client.consumer.handling.jobs import Job, Jobs
from nsqlake.client.message import Message
from nsqlake.runtime.timers import Timers


class ThreadIntake(Generic[Job]):
    """Runs `handler` on jobs in at most `concurrency()` threads, which begin when they are needed."""

    def __init__(
        self,
        handler: Callable[[Job], object],
        jobs: Jobs[Job],
        timers: Timers,
        concurrency: Callable[[], int],
        inbox: Inbox,
    ) -> None:
        self._handler, self._jobs, self._timers = handler, jobs, timers
        self._concurrency, self._inbox = concurrency, inbox
        self._loop = asyncio.get_running_loop()
        self._to_threads: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsettled = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def queued(self) -> int:
        return self._to_threads.qsize()

    @property
    def running(self) -> int:
        return max(0, self._unsettled - self._to_threads.qsize())

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        return task in self._tasks

    def add(self, jobs: list[Job]) -> None:
        now_s = self._timers.now_s()
        for job in jobs:
            admitted = self._jobs.admit(job, now_s)
            if admitted is not None:
                self._to_threads.put(admitted)
                self._unsettled += 1
        if self._unsettled:
            self._idle.clear()
        for _ in range(len(self._threads), min(self._concurrency(), self._unsettled)):
            self._begin_thread()

    def take_unstarted(self) -> list[Message]:
        messages: list[Message] = []
        try:
            while True:
                job = self._to_threads.get_nowait()
                if job is not None:
                    messages.extend(self._jobs.messages(job))
                    self._settled()
        except Empty:
            return messages

    def cancel(self) -> None:
        """Threads cannot be interrupted."""
        for task in self._tasks:
            task.cancel()

    async def wait_idle(self) -> None:
        await self._idle.wait()

    def close(self) -> None:
        for _ in self._threads:
            self._to_threads.put(None)

    def _begin_thread(self) -> None:
        thread = Thread(target=self._serve, name=f"consumer handler {len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # In the threads -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (job := self._to_threads.get()) is not None:
            self._run(job)

    def _run(self, job: Job) -> None:
        if not self._jobs.is_fresh(job, self._timers.now_s()):
            self._inbox.post(self._add_again, job)
            return
        try:
            result = self._handler(job)
        except BaseException as error:  # noqa: BLE001 - it is reported on the loop; the thread goes on
            self._inbox.post(self._fail, job, error)
        else:
            self._inbox.post(self._settle, job, result)

    # On the loop --------------------------------------------------------------------------------------

    def _add_again(self, job: Job) -> None:
        """It waited too long: the loop sees what is left of it."""
        self._settled()
        self.add([job])

    def _settle(self, job: Job, result: object) -> None:
        if inspect.isawaitable(result):
            task = self._loop.create_task(self._wait(job, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        self._jobs.settle(job, result)
        self._settled()

    async def _wait(self, job: Job, result: Awaitable[object]) -> None:
        """The function has returned a coroutine instead of being one."""
        try:
            value = await result
        except BaseException as error:
            self._fail(job, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._settle(job, value)

    def _fail(self, job: Job, error: BaseException) -> None:
        # A thread that is told to exit has failed at its message like any other.
        self._jobs.fail(job, error if isinstance(error, Exception | asyncio.CancelledError) else _wrap(error))
        self._settled()

    def _settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            self._idle.set()


def _wrap(error: BaseException) -> Exception:
    wrapped = RuntimeError(f"the handler raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped
