"""The nsqds of one consumer: who is connected, who will be tried again and when.

An nsqd that was named is tried for ever. One that was found is left alone when lost, until it is found again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nsqlake.client.addresses import parse_nsqd_address
from nsqlake.client.connection import connect
from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.delivery.subscription import Subscription
from nsqlake.client.consumer.stats import ConnectionStats
from nsqlake.client.errors import ClientClosedError, ConnectError, InvalidArgumentError, NsqClientError
from nsqlake.client.reconnect_delay import ReconnectDelay
from nsqlake.runtime.timers import Timer

logger = logging.getLogger(__name__)

HANDFUL: Final = 4  # with more connections on their way, each begins with RDY 1
FORGOTTEN_AFTER_S: Final = 3600.0

MakeSubscription = Callable[[str, Callable[[Subscription, NsqClientError | None], None]], Subscription]


class Node:
    """One nsqd."""

    def __init__(self, address: str, delay: ReconnectDelay, *, is_named: bool) -> None:
        self.address, self.delay, self.is_named = address, delay, is_named
        self.subscription: Subscription | None = None
        self.attempt: asyncio.Task[None] | None = None
        self.timer: Timer | None = None
        self.was_tried = asyncio.Event()
        self.error: NsqClientError | None = None
        self.logged_error = ""
        self.next_attempt_s = 0.0
        self.seen_s = 0.0

    @property
    def is_idle(self) -> bool:
        return self.subscription is None and self.attempt is None and self.timer is None

    @property
    def state(self) -> str:
        if self.subscription is not None:
            return "closing" if self.subscription.is_closing else "ready"
        return "connecting" if self.attempt is not None else "waiting"


class Nodes:
    """Connects, and connects again; `on_found_lost` is told when a found nsqd is gone."""

    def __init__(
        self,
        context: Context,
        make_subscription: MakeSubscription,
        on_found_lost: Callable[[], None],
        chance: random.Random,
    ) -> None:
        self._context, self._make_subscription = context, make_subscription
        self._on_found_lost, self._chance = on_found_lost, chance
        self._nodes: dict[str, Node] = {}
        self._is_closed = False

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    @property
    def subscriptions(self) -> list[Subscription]:
        return [node.subscription for node in self._nodes.values() if node.subscription is not None]

    def stats(self) -> tuple[ConnectionStats, ...]:
        now_s = self._context.timers.now_s()
        return tuple(_node_stats(node, now_s) for node in self._nodes.values())

    # Which --------------------------------------------------------------------------------------------

    def name(self, address: str) -> Node:
        """Connect to this one, for ever."""
        node = self._node(address)
        node.is_named = True
        self._try_soon(node)
        return node

    def found(self, addresses: Iterable[str]) -> None:
        """nsqlookupds list these."""
        self._forget_old()
        for address in addresses:
            try:
                node = self._node(address)
            except InvalidArgumentError as error:
                logger.warning("CONSUMER(%s): cannot use what was found: %s", self._context.name, error)
                continue
            node.seen_s = self._context.timers.now_s()
            self._try_soon(node)

    def forget(self, address: str) -> None:
        """Close this one gracefully, and do not connect again unless it is found."""
        key = str(parse_nsqd_address(address))
        node = self._nodes.get(key)
        if node is None:
            raise InvalidArgumentError("address", address, "is not in use")
        node.is_named = False
        self._give_up(node)
        if node.subscription is None:
            del self._nodes[key]
        else:
            node.subscription.begin_close()

    def close(self) -> None:
        """No new connections; those that are being made are not waited for."""
        self._is_closed = True
        for node in self._nodes.values():
            self._give_up(node)

    def _node(self, address: str) -> Node:
        key = str(parse_nsqd_address(address))
        node = self._nodes.get(key)
        if node is None:
            config = self._context.config
            delay = ReconnectDelay(config.reconnect_min_delay, config.reconnect_max_delay)
            node = self._nodes[key] = Node(key, delay, is_named=False)
        return node

    def _forget_old(self) -> None:
        limit_s = self._context.timers.now_s() - FORGOTTEN_AFTER_S
        for address, node in list(self._nodes.items()):
            if not node.is_named and node.is_idle and node.seen_s < limit_s:
                del self._nodes[address]

    # When ---------------------------------------------------------------------------------------------

    def _try_soon(self, node: Node) -> None:
        if self._is_closed or not node.is_idle:
            return
        wait_s = node.next_attempt_s - self._context.timers.now_s()
        if wait_s <= 0:
            self._try(node)
        else:
            node.timer = self._context.timers.call_later(wait_s, self._try, node)

    def _try(self, node: Node) -> None:
        node.timer = None
        node.attempt = asyncio.get_running_loop().create_task(self._connect(node))

    def _give_up(self, node: Node) -> None:
        if node.timer is not None:
            node.timer.cancel()
            node.timer = None
        if node.attempt is not None:
            node.attempt.cancel()
            node.attempt = None

    async def _connect(self, node: Node) -> None:
        subscription = self._make_subscription(node.address, lambda _, error: self._lost(node, error))
        context = self._context
        try:
            connection = await connect(
                node.address,
                context.config,
                listener=subscription,
                timers=context.timers,
                subscription=(context.topic, context.channel),
            )
        except ConnectError as error:
            node.attempt = None
            self._failed(node, error)
        else:
            node.attempt = None
            self._connected(node)
            if subscription.is_lost:  # within the same turn of the loop
                self._try_again(node)
            else:
                node.subscription = subscription
                subscription.open(connection, is_one_of_many=self._connecting > HANDFUL)
                context.tell(context.hooks.on_ready, node.address)
        finally:
            node.was_tried.set()

    @property
    def _connecting(self) -> int:
        return sum(node.attempt is not None for node in self._nodes.values())

    def _connected(self, node: Node) -> None:
        node.error, node.logged_error = None, ""
        node.delay.ready(self._context.timers.now_s())
        self._context.counters.connects += 1
        logger.info("NSQD(%s): subscribed to %s", node.address, self._context.name, extra=self._fields(node))
        self._context.tell(self._context.hooks.on_connect, node.address)

    def _failed(self, node: Node, error: ConnectError) -> None:
        self._context.counters.failed_connects += 1
        wait_s = self._wait_after(node, error)
        self._log_once(node, logging.ERROR if error.permanent else logging.WARNING, error, wait_s)
        self._context.tell(self._context.hooks.on_error, error)
        if node.is_named:
            self._try_soon(node)

    def _lost(self, node: Node, error: NsqClientError | None) -> None:
        node.subscription = None
        wait_s = self._wait_after(node, error)
        if error is not None:
            self._log_once(node, logging.WARNING, error, wait_s)
        else:
            logger.info("NSQD(%s): closed", node.address, extra=self._fields(node))
        self._context.tell(self._context.hooks.on_disconnect, node.address, error)
        self._try_again(node)

    def _try_again(self, node: Node) -> None:
        if node.is_named:
            self._try_soon(node)
        elif not self._is_closed:
            self._on_found_lost()

    def _wait_after(self, node: Node, error: NsqClientError | None) -> float:
        now_s = self._context.timers.now_s()
        node.error = error
        is_permanent = isinstance(error, ConnectError) and error.permanent
        wait_s = node.delay.after_failure(now_s, self._chance.random(), permanent=is_permanent)
        node.next_attempt_s = now_s + wait_s
        return wait_s

    def _log_once(self, node: Node, level: int, error: NsqClientError, wait_s: float) -> None:
        """The same trouble again is told at debug level only."""
        is_new, node.logged_error = str(error) != node.logged_error, str(error)
        level = level if is_new else logging.DEBUG
        logger.log(level, "NSQD(%s): %s; wait_s=%.2f", node.address, error, wait_s, extra=self._fields(node))

    def _fields(self, node: Node) -> dict[str, str]:
        return self._context.log_fields(node.address)

    # Waiting ------------------------------------------------------------------------------------------

    async def wait_first_attempts(self) -> None:
        """Until each was tried; the error of one when none is connected."""
        for node in list(self._nodes.values()):
            await node.was_tried.wait()
        if self._is_closed:
            raise ClientClosedError(self._context.name)
        errors = [node.error for node in self._nodes.values() if node.error is not None]
        if errors and not self.subscriptions:
            raise errors[0]


def _node_stats(node: Node, now_s: float) -> ConnectionStats:
    subscription = node.subscription
    error = "" if node.error is None else str(node.error)
    if subscription is None or subscription.connection is None:
        return ConnectionStats(address=node.address, state=node.state, last_error=error)
    connection = subscription.connection
    return ConnectionStats(
        address=node.address,
        state=node.state,
        rdy=subscription.window.rdy,
        in_flight=len(subscription.in_flight),
        received=subscription.received,
        bytes_in=connection.bytes_in,
        bytes_out=connection.bytes_out,
        last_received_s=max(0.0, now_s - connection.last_received_s),
        last_error=error,
    )
