"""The consumer: a topic and a channel, one or many nsqds, and a handler for what they deliver."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from nsqlake.client.config import ClientConfig
from nsqlake.client.consumer.arguments import (
    Addresses,
    address_list,
    checked_count,
    checked_name,
    consumer_config,
    nsqd_addresses,
)
from nsqlake.client.consumer.assembly import Assembly, Handling
from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.handling.handlers import Handler, Middleware
from nsqlake.client.consumer.hooks import ConsumerHooks, Hook
from nsqlake.client.consumer.running import run_until_signal
from nsqlake.client.consumer.stats import ConsumerStats
from nsqlake.client.consumer.stats_taking import take_stats
from nsqlake.client.consumer.stopping import LAST_WORDS_S
from nsqlake.client.discovery import check_lookupd_addresses
from nsqlake.client.errors import ClientClosedError, ConnectError, InvalidArgumentError
from nsqlake.client.message import Message
from nsqlake.runtime.timers import LoopTimers, Timers

logger = logging.getLogger(__name__)


class Consumer:
    """Subscribes `channel` of `topic` on every nsqd that is named or found.

    `handler` gets a message, or with `batch_size` a list of them. A coroutine function runs on the loop, a
    plain one in threads. Returning None or True finishes, False or an exception requeues; `Requeue` and
    `Discard` say it in detail. Without a handler, `get` or `async for` hand out messages, each to be answered
    by its taker.

    `options` are fields of `ClientConfig`, as max_in_flight=200.
    """

    def __init__(  # noqa: PLR0913 - most are keywords that few need
        self,
        topic: str,
        channel: str,
        handler: Handler | None = None,
        *,
        nsqd_tcp_addresses: Addresses = (),
        lookupd_http_addresses: Addresses = (),
        config: ClientConfig | None = None,
        batch_size: int | None = None,
        batch_timeout: float = 1.0,
        middleware: Sequence[Middleware] = (),
        hooks: ConsumerHooks | None = None,
        on_give_up: Hook | None = None,
        timers: Timers | None = None,
        **options: Any,
    ) -> None:
        hooks = hooks or ConsumerHooks()
        if on_give_up is not None:
            hooks = dataclasses.replace(hooks, on_give_up=on_give_up)
        self._context = Context(
            checked_name("topic", topic),
            checked_name("channel", channel),
            consumer_config(config, options),
            timers or LoopTimers(),
            hooks,
        )
        self._handling = _handling(handler, batch_size, batch_timeout, middleware)
        self._nsqds = nsqd_addresses(nsqd_tcp_addresses)
        self._lookupds = address_list("lookupd_http_addresses", lookupd_http_addresses)
        check_lookupd_addresses(self._lookupds)
        if not self._nsqds and not self._lookupds:
            raise InvalidArgumentError("nsqd_tcp_addresses", (), "needs these or lookupd_http_addresses")
        self._parts: Assembly | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._warn_of_concurrency()

    def __repr__(self) -> str:
        return f"<Consumer {self._context.name}>"

    @property
    def topic(self) -> str:
        return self._context.topic

    @property
    def channel(self) -> str:
        return self._context.channel

    @property
    def config(self) -> ClientConfig:
        return self._context.config

    # From start to stop -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, *, wait: bool = False) -> None:
        """Connect in the background.

        With `wait`, until all nsqds known by now were tried; ConnectError if nobody could be reached.
        """
        if self._parts is not None or self._stopped.is_set():
            raise ClientClosedError(f"{self!r}, once started,")
        chance = random.Random()  # noqa: S311 - spreads load, hides nothing
        self._parts = Assembly(self._context, self._handling, chance)
        self._parts.sources.start(self._nsqds, self._lookupds)
        if wait:
            try:
                await self._parts.sources.wait_started()
            except ConnectError:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Take no more messages, let running handlers end, give back the others, disconnect.

        At most `stop_timeout` seconds; called by a handler it returns at once and the rest follows.
        """
        self.request_stop()
        task = asyncio.current_task()
        if self._parts is not None and not self._parts.is_inside(task):
            await self._stopped.wait()

    def request_stop(self) -> None:
        """Begin to stop; `wait_stopped` tells the end. A plain handler may call it, from its thread."""
        if self._parts is None:
            self._stopped.set()
        elif self._parts.inbox.is_foreign:
            self._parts.inbox.post(self.request_stop)
        elif self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(self._parts))

    def stop_now(self) -> None:
        """Stop without waiting for handlers: they are cancelled, and their messages put back."""
        self.request_stop()
        if self._parts is not None:
            self._parts.draining.hurry()

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    def run(self) -> None:
        """Start, and block until SIGINT or SIGTERM has stopped it; a second one waits for nothing."""
        run_until_signal(self)

    async def _stop(self, parts: Assembly) -> None:
        logger.info("CONSUMER(%s): stops", self._context.name)
        parts.control.stop()
        parts.nodes.close()
        try:
            await asyncio.gather(parts.sources.stop(), parts.draining.drain(parts.nodes.subscriptions))
            parts.deadlines.stop()
            self._context.tell(self._context.hooks.on_stop)
            await self._context.hook_calls.finish(LAST_WORDS_S)
        finally:
            self._stopped.set()
        logger.info("CONSUMER(%s): stopped", self._context.name)

    # Messages for who asks ----------------------------------------------------------------------------

    async def get(self, timeout: float | None = None) -> Message:
        """The next message. TimeoutError after `timeout` seconds; ClientClosedError once it is stopped."""
        if self._parts is None:
            raise ClientClosedError(repr(self))
        if self._parts.pulling is None:
            raise InvalidArgumentError("handler", self._handling.handler, "gets all messages")
        return await self._parts.pulling.get(timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages until the consumer stops."""
        try:
            while True:
                yield await self.get()
        except ClientClosedError:
            return

    # Rate ---------------------------------------------------------------------------------------------

    @property
    def max_in_flight(self) -> int:
        return self.config.max_in_flight if self._parts is None else self._parts.control.max_in_flight

    def set_max_in_flight(self, count: int) -> None:
        """0 pauses."""
        self._running.control.set_max_in_flight(checked_count("max_in_flight", count, 0))

    def pause(self) -> None:
        """Take no more messages; connections, heartbeats and answers go on."""
        self._running.control.pause()

    def resume(self) -> None:
        self._running.control.resume()

    @property
    def is_paused(self) -> bool:
        return self._parts is not None and self._parts.control.is_paused

    def is_starved(self) -> bool:
        """Whether some nsqd will send no more until messages are answered: time to work off what is here."""
        return self._parts is not None and self._parts.control.flow.is_starved

    # Where from ---------------------------------------------------------------------------------------

    def connect_to_nsqd(self, address: str) -> None:
        self._running.nodes.name(address)

    def disconnect_from_nsqd(self, address: str) -> None:
        """Gracefully, in the background; InvalidArgumentError when it is unknown."""
        self._running.nodes.forget(address)

    def add_lookupd(self, address: str) -> None:
        self._running.sources.add_lookupd(address)

    def remove_lookupd(self, address: str) -> None:
        """InvalidArgumentError when it is unknown or the last one."""
        self._running.sources.remove_lookupd(address)

    # Looking at it ------------------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        return self._stopping is not None

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def is_healthy(self) -> bool:
        """Whether some nsqd is connected and was heard of within two heartbeats."""
        if self._parts is None:
            return False
        limit_s = self._context.timers.now_s() - 2 * self.config.heartbeat_interval
        connections = [subscription.connection for subscription in self._parts.nodes.subscriptions]
        return any(c is not None and c.is_open and c.last_received_s >= limit_s for c in connections)

    def stats(self) -> ConsumerStats:
        return take_stats(self._context, self._parts, is_stopping=self.is_stopping)

    @property
    def _running(self) -> Assembly:
        if self._parts is None or self._stopping is not None:
            raise ClientClosedError(repr(self))
        return self._parts

    def _warn_of_concurrency(self) -> None:
        if self.config.concurrency > self.config.max_in_flight > 0:
            logger.warning(
                "CONSUMER(%s): max_in_flight=%s keeps concurrency=%s from being reached",
                self._context.name,
                self.config.max_in_flight,
                self.config.concurrency,
            )


def _handling(
    handler: Handler | None, batch_size: int | None, batch_timeout: float, middleware: Sequence[Middleware]
) -> Handling:
    if handler is None and (batch_size is not None or middleware):
        raise InvalidArgumentError("handler", None, "batches and middleware need one")
    if handler is not None and not callable(handler):
        raise InvalidArgumentError("handler", handler, "must be a function")
    if batch_size is not None:
        checked_count("batch_size", batch_size, 1)
    if not batch_timeout > 0:
        raise InvalidArgumentError("batch_timeout", batch_timeout, "must be above 0")
    return Handling(handler, batch_size, batch_timeout, tuple(middleware))
