"""Everybody who waits for the disk shares the next write or sync that begins after their change."""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

__all__ = ["GroupCommit", "Job", "run_job"]


class Job(Protocol):
    def run(self) -> None: ...


class GroupCommit:
    """Runs one blocking job at a time on another thread.

    `begin` takes what is to be done (None: nothing), `end` hears how it went; both run on the loop's thread.
    """

    def __init__(
        self,
        executor: Executor,
        begin: "Callable[[], Job | None]",
        end: "Callable[[Job, OSError | None], None] | None" = None,
    ) -> None:
        self._executor, self._begin, self._end = executor, begin, end
        self._running: list[asyncio.Future[None]] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._is_wanted = False

    @property
    def is_busy(self) -> bool:
        return self._running is not None or self._is_wanted

    def request(self) -> None:
        """Have a job begin as soon as may be, without waiting for it."""
        self._is_wanted = True
        self._start()

    def wait(self) -> "asyncio.Future[None]":
        """Done when a job that began after this call has ended; raises its OSError."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._is_wanted = True
        # Whoever else changes something in this turn of the loop shares the job.
        asyncio.get_running_loop().call_soon(self._start)
        return future

    def _start(self) -> None:
        if self._running is not None or not self._is_wanted:
            return
        self._is_wanted = False
        waiters, self._waiting = self._waiting, []
        try:
            job = self._begin()
        except OSError as error:
            _resolve(waiters, error)
            return
        if job is None:
            _resolve(waiters, None)
            return
        self._running = waiters
        future = asyncio.get_running_loop().run_in_executor(self._executor, run_job, job)
        future.add_done_callback(lambda done: self._ended(job, _outcome(done)))

    def _ended(self, job: Job, error: OSError | None) -> None:
        waiters, self._running = self._running or [], None
        if self._end is not None:
            self._end(job, error)
        _resolve(waiters, error)
        self._start()


def run_job(job: Job) -> OSError | None:
    """For another thread: how the job ended."""
    try:
        job.run()
    except OSError as error:
        return error
    return None


def _outcome(done: "asyncio.Future[OSError | None]") -> OSError | None:
    """An error of our own in a job must not leave everybody waiting: it counts as one of the disk."""
    error = done.exception()
    return done.result() if error is None else OSError(errno.EIO, f"storage job failed: {error!r}")


def _resolve(waiters: "list[asyncio.Future[None]]", error: OSError | None) -> None:
    for future in waiters:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
