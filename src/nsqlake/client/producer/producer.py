"""Publishing to nsqd from asyncio.

async with Producer("127.0.0.1:4150") as producer:
    await producer.publish("orders", b"hello")
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final, Self

from nsqlake.client.addresses import parse_nsqd_address
from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import (
    ClientClosedError,
    ConnectError,
    InvalidArgumentError,
    PublishError,
    PublishNotSentError,
    PublishRejectedError,
)
from nsqlake.client.producer.dispatcher import Dispatcher
from nsqlake.client.producer.encoding import Body, Delay, PublishEncoder, checked_timeout_s
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.node import Node
from nsqlake.client.producer.node_choice import NodeChoice
from nsqlake.client.producer.pinging import check_heard_from, handshake_once
from nsqlake.client.producer.publication import Outcome, Publication
from nsqlake.client.producer.stats import Counters, ProducerStats
from nsqlake.runtime.timers import LoopTimers, Timers, deadline

# nsqd could not store it, which says nothing about another nsqd.
FAILED_CODES: Final = frozenset({"E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED"})
HOOKS_LIMIT_S: Final = 1.0


class Producer:
    """Publishes over one connection to each nsqd, many publishes at a time.

    It connects on `start` or with the first publish, and again whenever a connection is lost; publishes wait
    for that. One that fails raises PublishRejectedError (refused), PublishNotSentError (not stored, safe to
    publish again) or PublishUnknownError (sent, no answer: it may be stored). Further keyword arguments are
    fields of ClientConfig.
    """

    def __init__(
        self,
        nsqd_tcp_addresses: str | Sequence[str],
        *,
        config: ClientConfig | None = None,
        strategy: str = "round-robin",
        retries: int = 0,
        retry_unknown: bool = False,
        hooks: ProducerHooks | None = None,
        timers: Timers | None = None,
        **options: Any,
    ) -> None:
        self.config = (config or ClientConfig()).replace(**options)
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidArgumentError("retries", retries, "must be a number of attempts, or 0")
        self._retries, self._retry_unknown = retries, retry_unknown
        self._timers = timers or LoopTimers()
        self._now_s = self._timers.now_s
        self._encoder = PublishEncoder()
        self._dispatcher = Dispatcher(
            checked_addresses(nsqd_tcp_addresses),
            self.config,
            self._timers,
            choice=NodeChoice(strategy, random.randrange),
            retries=self._may_retry,
            hooks=hooks or ProducerHooks(),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None
        self._failed_before_flush = 0
        self.direct = Counters()  # for a front end that publishes past this producer

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, *, wait: bool = False) -> None:
        """Begin to connect; `wait` until one nsqd is ready, or ConnectError if all first attempts fail."""
        self._begin()
        if not wait:
            return
        attempts = [asyncio.ensure_future(node.first_attempt.wait()) for node in self._nodes]
        for attempt in asyncio.as_completed(attempts):
            await attempt
            if any(node.is_ready for node in self._nodes):
                for each in attempts:
                    each.cancel()
                return
        raise self._connect_error()

    def _begin(self) -> asyncio.AbstractEventLoop:
        if self._is_closed:
            raise ClientClosedError("producer")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            for node in self._nodes:
                node.begin()
        return self._loop

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self._nodes]

    @property
    def _nodes(self) -> list[Node]:
        return self._dispatcher.nodes

    # Publishing ---------------------------------------------------------------------------------------

    async def publish(
        self, topic: str, body: Body, *, timeout: Delay | None = None, block: bool = True
    ) -> None:
        """Returns when nsqd has taken it; waits for a connection and for room, unless `block` is false."""
        command = self._encoder.pub(topic, body)
        future = (self._loop or self._begin()).create_future()
        self.submit(future, topic, command, timeout=timeout, block=block)
        await future

    async def multi_publish(
        self, topic: str, bodies: Sequence[Body], *, timeout: Delay | None = None, block: bool = True
    ) -> None:
        """All of them or none."""
        command, count = self._encoder.mpub(topic, bodies)
        future = self._begin().create_future()
        self.submit(future, topic, command, message_count=count, timeout=timeout, block=block)
        await future

    async def deferred_publish(
        self, topic: str, delay: Delay, body: Body, *, timeout: Delay | None = None, block: bool = True
    ) -> None:
        """nsqd delivers it after `delay` at the earliest; seconds, a timedelta or text such as "5m"."""
        command = self._encoder.dpub(topic, delay, body)
        future = self._begin().create_future()
        self.submit(future, topic, command, timeout=timeout, block=block)
        await future

    def publish_nowait(self, topic: str, body: Body, *, timeout: Delay | None = None) -> asyncio.Future[None]:
        """The answer comes later; PublishNotSentError at once when too many are unanswered.

        Whoever does not look at the futures learns from `flush` how many failed.
        """
        command = self._encoder.pub(topic, body)
        future: asyncio.Future[None] = (self._loop or self._begin()).create_future()
        dispatcher = self._dispatcher
        if not dispatcher.room.fits_behind(dispatcher.waiting, len(command)):
            raise PublishNotSentError(topic, None, f"queue full: {dispatcher.room.count} are unanswered")
        self.submit(future, topic, command, timeout=timeout)
        return future

    def submit(
        self,
        outcome: Outcome,
        topic: str,
        command: bytes,
        *,
        message_count: int = 1,
        timeout: Delay | None = None,
        block: bool = True,
    ) -> None:
        """For other front ends: publish an encoded command; `outcome` is settled exactly once."""
        if self._loop is None or self._is_closed:
            self._begin()
        timeout_s = self.config.publish_timeout
        if timeout is not None:
            timeout_s = checked_timeout_s(timeout, timeout_s)
        now_s = self._now_s()
        size_bytes = len(command)
        publication = Publication(
            outcome, topic, command, size_bytes, message_count, now_s, now_s + timeout_s, self._retries
        )
        self._dispatcher.submit(publication, block=block)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is unanswered; any thread may look."""
        # In this order: what waits is sent before it stops waiting.
        return not len(self._dispatcher.waiting) and not self._dispatcher.room.count

    def _may_retry(self, error: PublishError) -> bool:
        match error:
            case PublishRejectedError():
                return error.code in FAILED_CODES
            case PublishNotSentError():
                return True
            case _:
                return self._retry_unknown

    # Looking and waiting ------------------------------------------------------------------------------

    async def flush(self) -> int:
        """Wait for everything outstanding; how many publishes have failed since the last flush."""
        await self._dispatcher.flush()
        failed = self._dispatcher.counters.failed + self.direct.failed
        new, self._failed_before_flush = failed - self._failed_before_flush, failed
        return new

    async def ping(self, *, strict: bool = False, timeout: Delay | None = None) -> None:
        """One nsqd is connected and was heard from lately, or ConnectError; `strict` shakes hands anew."""
        self._begin()
        timeout_s = checked_timeout_s(timeout, self.config.dial_timeout + self.config.handshake_timeout)
        if strict:
            await handshake_once(self.addresses, self.config, self._timers)
            return
        try:
            async with deadline(self._timers, timeout_s):
                await self._dispatcher.wait_ready()
        except TimeoutError:
            raise self._connect_error() from None
        check_heard_from(self._nodes, self.config, self._now_s())

    def _connect_error(self) -> ConnectError:
        errors = [node.last_error for node in self._nodes if node.last_error is not None]
        refused = [error for error in errors if isinstance(error, ConnectError)]
        if refused:
            return refused[0]
        return ConnectError(self._nodes[0].address, str(errors[0]) if errors else "not connected yet")

    def stats(self) -> ProducerStats:
        dispatcher = self._dispatcher
        counters = dispatcher.counters.plus(self.direct)
        return ProducerStats(
            commands=counters.commands,
            messages=counters.messages,
            bytes=counters.bytes,
            rejected=counters.rejected,
            not_sent=counters.not_sent,
            unknown=counters.unknown,
            retries=counters.retries,
            pending=dispatcher.room.count,
            pending_bytes=dispatcher.room.size_bytes,
            waiting=len(dispatcher.waiting),
            latency_s=counters.latencies(),
            nodes=tuple(node.stats() for node in self._nodes),
        )

    # Closing ------------------------------------------------------------------------------------------

    async def close(self, *, timeout: Delay | None = None) -> None:
        """Take no more, wait for what is outstanding, at most `timeout` or `stop_timeout`, and disconnect."""
        timeout_s = checked_timeout_s(timeout, self.config.stop_timeout)
        self._is_closed = True
        if self._loop is None:
            return
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(timeout_s), name="close producer")
        await asyncio.shield(self._closing)

    async def _close(self, timeout_s: float) -> None:
        try:
            async with deadline(self._timers, timeout_s):
                await self._dispatcher.flush()
        except TimeoutError:
            self._dispatcher.fail_rest(f"the producer was closed after waiting {timeout_s:g} s")
        await self._dispatcher.close()
        await self._dispatcher.hook_calls.finish(HOOKS_LIMIT_S)


def checked_addresses(addresses: str | Sequence[str]) -> list[str]:
    """Each in one spelling, and once; there must be one."""
    argument = "nsqd_tcp_addresses"
    texts = [addresses] if isinstance(addresses, str) else addresses
    checked = [str(parse_nsqd_address(text, argument=argument)) for text in texts]
    if not checked:
        raise InvalidArgumentError(argument, addresses, "must hold at least one address")
    return list(dict.fromkeys(checked))
