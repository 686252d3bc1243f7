"""One event loop in a daemon thread, for all blocking clients of a process.

Calls are put into a queue, and the loop is woken once for all that are in it: of many calls from many threads
only the first pays for the wake-up.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from nsqlake.client.blocking.errors import CalledInEventLoopError, CallTimeoutError
from nsqlake.client.blocking.fork_safe_loop import ForkSafeLoop

EXIT_LIMIT_S: Final = 2.0  # for what is outstanding when the interpreter ends

T = TypeVar("T")


class LoopThread:
    """`shared()` gives the one of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = ForkSafeLoop()
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        # Writing to it gives the interpreter's lock away, which the loop's own wake-up does not: its thread
        # does not wake only to wait for the lock, which saves a quarter of a hand-over.
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closers: dict[int, Callable[[float], Coroutine[Any, Any, None]]] = {}
        self._thread = Thread(target=self._run, name="nsqlake-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.add_reader(self._wake_fd, self._run_posted)
        self.loop.run_forever()

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call `function`, which must not raise, on the loop, after everything posted before."""
        self._posted.append((function, arguments))
        # A call posted before the flag was lowered is found by the run that lowers it.
        if not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)

    @property
    def is_idle(self) -> bool:
        """Whether everything posted so far was called."""
        return not self._posted

    def _run_posted(self) -> None:
        os.eventfd_read(self._wake_fd)
        self._is_woken = False
        posted = self._posted
        while posted:
            function, arguments = posted[0]
            try:
                function(*arguments)
            finally:
                posted.popleft()  # not before: see `is_idle`

    def run(
        self, make: Callable[[], Coroutine[Any, Any, T]], *, name: str, limit_s: float | None = None
    ) -> T:
        """The result of the coroutine that `make` makes on the loop; CallTimeoutError, or what it raises."""
        check_not_in_loop(name)
        future: Future[T] = Future()
        tasks: list[asyncio.Task[None]] = []
        self.post(self._start, make, future, tasks)
        try:
            return future.result(limit_s)
        except FutureTimeoutError:
            if future.done():
                raise  # the coroutine's own
            raise CallTimeoutError(name, limit_s or 0.0) from None
        finally:
            if not future.done():  # KeyboardInterrupt, or too late
                self.post(self._cancel, tasks)

    def _start(
        self, make: Callable[[], Coroutine[Any, Any, T]], future: Future[T], tasks: list[asyncio.Task[None]]
    ) -> None:
        tasks.append(self.loop.create_task(_settle(make, future)))

    @staticmethod
    def _cancel(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()

    # Clients to close at the interpreter's end --------------------------------------------------------

    def register(self, client: object, close: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        self._closers[id(client)] = close

    def forget(self, client: object) -> None:
        self._closers.pop(id(client), None)

    def drain(self, limit_s: float) -> None:
        """Close every client, in this time."""
        closers = list(self._closers.values())
        self._closers.clear()
        # A connection that is tried again now may find no threads, and nobody to tell.
        self.loop.set_exception_handler(lambda *_: None)
        if closers:
            self.run(lambda: _close_all(closers, limit_s), name="exit", limit_s=limit_s + 1.0)


async def _settle(make: Callable[[], Coroutine[Any, Any, T]], future: Future[T]) -> None:
    try:
        result = await make()
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        future.set_result(result)


async def _close_all(closers: list[Callable[[float], Coroutine[Any, Any, None]]], limit_s: float) -> None:
    await asyncio.gather(*(close(limit_s) for close in closers), return_exceptions=True)


def check_not_in_loop(call: str) -> None:
    if asyncio._get_running_loop() is not None:
        raise CalledInEventLoopError(call)


_shared: list[LoopThread] = []
_lock = Lock()


def shared() -> LoopThread:
    """The loop thread of this process; a child process gets its own."""
    with _lock:
        if not _shared:
            _shared.append(LoopThread())
        return _shared[0]


def _forget_parent() -> None:
    # The parent's thread does not exist in the child, and another thread may have held the lock.
    global _lock  # noqa: PLW0603
    _lock = Lock()
    _shared.clear()


def _drain_at_exit() -> None:
    if _shared and asyncio._get_running_loop() is None:
        try:
            _shared[0].drain(EXIT_LIMIT_S)
        except CallTimeoutError:
            return


os.register_at_fork(after_in_child=_forget_parent)
atexit.register(_drain_at_exit)
