"""One nsqd of a producer: its connection, and when to try again without one."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from enum import StrEnum
from typing import Final, Protocol

from nsqlake.client.config import ClientConfig
from nsqlake.client.connection import connect
from nsqlake.client.errors import ClientClosedError, ConnectError, NsqClientError
from nsqlake.client.producer.pipe import PipeOwner, PublishPipe
from nsqlake.client.producer.stats import NodeStats
from nsqlake.client.reconnect_delay import ReconnectDelay
from nsqlake.runtime.timers import Timer, Timers

logger = logging.getLogger(__name__)

HURRIED_DELAY_S: Final = 1.0  # while publishes wait for it, an nsqd is not left alone for longer than this


class NodeState(StrEnum):
    INIT = "init"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"  # waits before it tries again
    STOPPED = "stopped"


class NodeOwner(PipeOwner, Protocol):
    def node_ready(self, node: Node) -> None: ...
    def node_failed(self, node: Node, error: ConnectError) -> None: ...


class Node:
    """Connects when told to `begin`, and again after every loss until it is closed."""

    def __init__(self, address: str, config: ClientConfig, timers: Timers, owner: NodeOwner) -> None:
        self.address = address
        self.state = NodeState.INIT
        self.pipe: PublishPipe | None = None
        self.last_error: NsqClientError | None = None
        self.first_attempt = asyncio.Event()
        self._config, self._timers, self._owner = config, timers, owner
        self._delay = ReconnectDelay(config.reconnect_min_delay, config.reconnect_max_delay)
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._failed_at_s = 0.0
        self._next_attempt_s = math.inf
        self._connects = self._disconnects = self._failed_connects = 0

    # What the producer asks ---------------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        return 0 if self.pipe is None else len(self.pipe.pending)

    @property
    def is_ready(self) -> bool:
        return self.pipe is not None and self.pipe.connection.is_open

    @property
    def can_take(self) -> bool:
        """Ready, and not slow to take what was written."""
        pipe = self.pipe
        return pipe is not None and pipe.connection.is_open and pipe.connection.is_writable

    @property
    def is_refused_for_good(self) -> bool:
        error = self.last_error
        return self.state is NodeState.DISCONNECTED and isinstance(error, ConnectError) and error.permanent

    def stats(self) -> NodeStats:
        return NodeStats(
            address=self.address,
            state=self.state.value,
            pending=self.pending_count,
            connects=self._connects,
            disconnects=self._disconnects,
            failed_connects=self._failed_connects,
            last_error="" if self.last_error is None else str(self.last_error),
        )

    # Connecting ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        if self.state is NodeState.INIT:
            self._attempt()

    def hurry(self) -> None:
        """Somebody waits: do not sit out a long delay, unless trying again is of no use."""
        due_s = self._failed_at_s + HURRIED_DELAY_S
        is_early = self.state is NodeState.DISCONNECTED and due_s < self._next_attempt_s
        if is_early and not self.is_refused_for_good:
            self._schedule(max(0.0, due_s - self._timers.now_s()))

    def _attempt(self) -> None:
        self.state = NodeState.CONNECTING
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._connect(), name=f"connect {self.address}")

    async def _connect(self) -> None:
        pipe = PublishPipe(self.address, self._owner)
        try:
            connection = await connect(self.address, self._config, listener=pipe, timers=self._timers)
        except ConnectError as error:
            self._failed_connects += 1
            self._wait(error, permanent=error.permanent)
            self.first_attempt.set()
            self._owner.node_failed(self, error)
            return
        pipe.opened(connection)
        self.pipe, self.state = pipe, NodeState.CONNECTED
        self._connects += 1
        self._delay.ready(self._timers.now_s())
        self.first_attempt.set()
        self._owner.node_ready(self)
        if pipe.is_lost:  # before this task came to run
            self._owner.pipe_lost(pipe)

    def lost(self, pipe: PublishPipe) -> None:
        """The connection is gone; the next attempt is scheduled."""
        if pipe is not self.pipe:
            return
        self.pipe = None
        self._disconnects += 1
        if self.state is NodeState.STOPPED:
            return
        if pipe.has_answered:
            self._delay.proven()
        self._wait(pipe.error, permanent=False)

    def _wait(self, error: NsqClientError | None, *, permanent: bool) -> None:
        self._log_failure(error, permanent=permanent)
        self.state, self.last_error = NodeState.DISCONNECTED, error
        self._failed_at_s = self._timers.now_s()
        chance = random.random()  # noqa: S311 - it spreads clients, it protects nothing
        self._schedule(self._delay.after_failure(self._failed_at_s, chance, permanent=permanent))

    def _log_failure(self, error: NsqClientError | None, *, permanent: bool) -> None:
        # A cause that stays the same is said once.
        if self.state is not NodeState.CONNECTING or str(error) != str(self.last_error):
            level = logging.ERROR if permanent else logging.WARNING
            logger.log(level, "NSQD(%s): not connected, will try again reason=%s", self.address, error)

    def _schedule(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_attempt_s = self._timers.now_s() + delay_s
        self._timer = self._timers.call_later(delay_s, self._attempt)

    async def close(self) -> None:
        """Send what was written and close; an attempt that runs is given up."""
        self.state = NodeState.STOPPED
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.first_attempt.set()
        if self.pipe is not None:
            await self.pipe.connection.close()

    def abort(self) -> None:
        if self.pipe is not None:
            self.pipe.connection.abort(ClientClosedError("producer"))
