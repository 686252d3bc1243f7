"""An nsqd inside the process that tests against it, with a port and a data path of its own.

with running_nsqd(msg_timeout_ns=300_000_000) as nsqd:
    client = connect("127.0.0.1", nsqd.tcp_port)
    depth = nsqd.call(lambda daemon: daemon.broker.topics["orders"].core.depth)
"""

import asyncio
import contextlib
import inspect
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from threading import Thread
from typing import Any, TypeVar, overload

import uvloop

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.options import NsqdOptions, validate

__all__ = ["NsqdFixture", "running_nsqd"]

CALL_LIMIT_S = 30.0

T = TypeVar("T")


class NsqdFixture:
    """A daemon on a loop in a thread of its own; touch it through `call` only."""

    def __init__(self, options: NsqdOptions) -> None:
        self.options = options
        self.daemon = Daemon(options)
        self._loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="nsqd", daemon=True)

    @property
    def tcp_port(self) -> int:
        return self.daemon.tcp_listener.port

    @property
    def tcp_address(self) -> str:
        """`host:port`, or the path of the unix socket."""
        return self.daemon.tcp_listener.local_address

    @property
    def http_port(self) -> int:
        return self.daemon.http.http_port

    @property
    def https_port(self) -> int:
        return self.daemon.http.https_port

    @property
    def http_address(self) -> str:
        """`host:port`, or the path of the unix socket."""
        return self.daemon.http.http_address

    def start(self) -> None:
        self._thread.start()
        try:
            self.call(lambda daemon: daemon.start())
        except BaseException:
            self._end_loop()
            raise

    def stop(self) -> None:
        """Stop as SIGTERM does."""
        try:
            self.call(lambda daemon: daemon.stop())
        finally:
            self._end_loop()

    @overload
    def call(self, function: Callable[[Daemon], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    def call(self, function: Callable[[Daemon], T]) -> T: ...
    def call(self, function: Callable[[Daemon], Any]) -> Any:
        """Run `function` on the daemon's loop, await a coroutine it returns, and hand back the result."""

        async def run() -> Any:
            result = function(self.daemon)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_LIMIT_S)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_LIMIT_S)
        self._loop.close()


@contextlib.contextmanager
def running_nsqd(**options: Any) -> Iterator[NsqdFixture]:
    """An nsqd with these options; without `data_path` what it stores goes when it stops."""
    with contextlib.ExitStack() as stack:
        if "data_path" not in options:
            options["data_path"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="nsqd-"))
        options.setdefault("tcp_address", "127.0.0.1:0")
        options.setdefault("http_address", "127.0.0.1:0")
        options.setdefault("https_address", "")
        nsqd = NsqdFixture(validate(NsqdOptions(**options)))
        nsqd.start()
        stack.callback(nsqd.stop)
        yield nsqd
