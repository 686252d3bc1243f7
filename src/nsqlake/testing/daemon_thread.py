"""A daemon on an event loop in a thread of its own."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar, overload

import uvloop

__all__ = ["DaemonThread"]

CALL_LIMIT_S = 30.0


class _Daemon(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> object: ...


D = TypeVar("D", bound=_Daemon)
T = TypeVar("T")


class DaemonThread(Generic[D]):
    """Touch the daemon through `call` only."""

    def __init__(self, daemon: D, name: str) -> None:
        self.daemon = daemon
        self._loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self.call(lambda daemon: daemon.start())
        except BaseException:
            self._end_loop()
            raise

    def stop(self) -> None:
        """Stop as SIGTERM does; nothing happens the second time."""
        if self._loop.is_closed():
            return
        try:
            self.call(lambda daemon: daemon.stop())
        finally:
            self._end_loop()

    @overload
    def call(self, function: Callable[[D], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    def call(self, function: Callable[[D], T]) -> T: ...
    def call(self, function: Callable[[D], Any]) -> Any:
        """Run `function` on the daemon's loop, await a coroutine it returns, and hand back the result."""
        return self.submit(function).result(CALL_LIMIT_S)

    @overload
    def submit(self, function: Callable[[D], Coroutine[Any, Any, T]]) -> "Future[T]": ...
    @overload
    def submit(self, function: Callable[[D], T]) -> "Future[T]": ...
    def submit(self, function: Callable[[D], Any]) -> "Future[Any]":
        """`call` that does not wait."""

        async def run() -> Any:
            result = function(self.daemon)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_LIMIT_S)
        self._loop.close()
