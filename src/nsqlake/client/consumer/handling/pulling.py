"""Messages for who asks for them: `get` and `async for` instead of a handler."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from nsqlake.client.consumer.handling.jobs import MessageJobs
from nsqlake.client.errors import ClientClosedError
from nsqlake.client.message import Message
from nsqlake.runtime.timers import Timers, deadline


class PullIntake:
    """A queue of messages; whoever takes one owes its answer."""

    def __init__(
        self, jobs: MessageJobs, timers: Timers, name: str, in_flight: Callable[[], Iterable[Message]]
    ) -> None:
        self._jobs, self._timers, self._name = jobs, timers, name
        self._in_flight = in_flight
        self._queue: deque[Message] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        """Messages that somebody took and has not answered."""
        return sum(message.holder is not None for message in self._in_flight())

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        """Whether `task` itself owes an answer, and so cannot wait for all answers."""
        return any(message.holder is task for message in self._in_flight())

    def add(self, messages: list[Message]) -> None:
        self._queue.extend(messages)
        self._wake(len(messages))

    def take_unstarted(self) -> list[Message]:
        messages = list(self._queue)
        self._queue.clear()
        return messages

    def cancel(self) -> None:
        """Those who took messages are not ours to cancel."""

    async def wait_idle(self) -> None:
        """What was taken is waited for with its connection."""

    def close(self) -> None:
        self._is_closed = True
        self._wake(len(self._waiting))

    async def get(self, timeout_s: float | None = None) -> Message:
        """TimeoutError when none came in time, ClientClosedError when none will come."""
        message = self._take()
        if message is not None:
            return message
        if timeout_s is None:
            return await self._wait()
        async with deadline(self._timers, timeout_s):
            return await self._wait()

    async def _wait(self) -> Message:
        while not self._is_closed:
            await self._wait_turn()
            message = self._take()
            if message is not None:
                return message
        raise ClientClosedError(self._name)

    async def _wait_turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake(1)  # ours was the turn that somebody else waits for
            raise

    def _take(self) -> Message | None:
        now_s = self._timers.now_s()
        while self._queue:
            message = self._jobs.admit(self._queue.popleft(), now_s)
            if message is not None:
                message.has_auto_response = False
                message.holder = asyncio.current_task()
                return message
        return None

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1
