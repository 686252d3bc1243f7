"""Consuming without an event loop.

BlockingConsumer("orders", "archive", handler, nsqd_tcp_addresses="127.0.0.1:4150").run()
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Self, TypeVar

from nsqlake.client.blocking.errors import ForkedClientError
from nsqlake.client.blocking.loop_thread import LoopThread, check_not_in_loop, shared
from nsqlake.client.blocking.signals import on_stop_signals
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.consumer.stats import ConsumerStats
from nsqlake.client.errors import ClientClosedError
from nsqlake.client.message import Message

GRACE_S: Final = 5.0

T = TypeVar("T")


class BlockingConsumer:
    """A Consumer on an event loop in a daemon thread; the arguments are those of Consumer.

    `run` blocks until a signal; a plain handler runs in a pool of threads, so it may block. Without a
    handler, `get` and iteration hand out messages, each to be answered by whoever takes it.
    """

    def __init__(
        self, topic: str, channel: str, handler: Callable[..., Any] | None = None, **arguments: Any
    ) -> None:
        self._in_handler = threading.local()
        if handler is not None and not inspect.iscoroutinefunction(handler):
            handler = self._noting_thread(handler)
        self._consumer = Consumer(topic, channel, handler, **arguments)
        self._thread: LoopThread = shared()
        self._is_started = False

    def _noting_thread(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(handler)
        def call(argument: Any) -> Any:
            self._in_handler.is_true = True
            try:
                return handler(argument)
            finally:
                self._in_handler.is_true = False

        return call

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # From start to stop -------------------------------------------------------------------------------

    def start(self, *, wait: bool = False) -> None:
        """Connect in the background; with `wait`, until every nsqd known was tried."""
        self._run(lambda: self._consumer.start(wait=wait), "start")
        self._is_started = True
        self._thread.register(self._consumer, self._stop_within)

    def run(self) -> None:
        """Start, and block until SIGINT, SIGTERM or `request_stop`; a second signal waits for nothing.

        Signals are looked at in the main thread only.
        """
        check_not_in_loop("run")
        if not self._is_started:
            self.start()
        with on_stop_signals(self._signalled):
            self._run(self._consumer.wait_stopped, "run")
        self._thread.forget(self._consumer)

    def _signalled(self) -> None:
        self._thread.post(self._stop_or_hurry)

    def _stop_or_hurry(self) -> None:
        if self._consumer.is_stopping:
            self._consumer.stop_now()
        else:
            self._consumer.request_stop()

    def request_stop(self) -> None:
        """Begin to stop and return."""
        self._check_process()
        self._thread.post(self._consumer.request_stop)

    def stop(self) -> None:
        """Take no more messages, let running handlers end, give back the others, disconnect.

        At most `stop_timeout`; called by a handler it returns at once and the rest follows.
        """
        if getattr(self._in_handler, "is_true", False):
            self.request_stop()
            return
        self._run(self._consumer.stop, "stop")
        self._thread.forget(self._consumer)

    async def _stop_within(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._consumer.stop()
        except TimeoutError:
            self._consumer.stop_now()

    # Messages for who asks ----------------------------------------------------------------------------

    def get(self, timeout: float | None = None) -> Message:
        """The next message. TimeoutError after `timeout` seconds; ClientClosedError once it is stopped."""
        return self._run(lambda: self._consumer.get(timeout), "get")

    def __iter__(self) -> Iterator[Message]:
        """Messages until the consumer stops."""
        with contextlib.suppress(ClientClosedError):
            while True:
                yield self.get()

    # Looking at it ------------------------------------------------------------------------------------

    def set_max_in_flight(self, count: int) -> None:
        """0 pauses."""
        self._call(lambda: self._consumer.set_max_in_flight(count), "set_max_in_flight")

    def pause(self) -> None:
        """Take no more messages; connections, heartbeats and answers go on."""
        self._call(self._consumer.pause, "pause")

    def resume(self) -> None:
        self._call(self._consumer.resume, "resume")

    def is_starved(self) -> bool:
        return self._call(self._consumer.is_starved, "is_starved")

    def is_healthy(self) -> bool:
        return self._call(self._consumer.is_healthy, "is_healthy")

    def stats(self) -> ConsumerStats:
        return self._call(self._consumer.stats, "stats")

    def _call(self, function: Callable[[], T], name: str) -> T:
        async def call() -> T:
            return function()

        self._check_process()
        return self._thread.run(call, name=name, limit_s=GRACE_S)

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        self._check_process()
        return self._thread.run(make, name=name)

    def _check_process(self) -> None:
        if os.getpid() != self._thread.pid:
            raise ForkedClientError("consumer", self._thread.pid, os.getpid())
