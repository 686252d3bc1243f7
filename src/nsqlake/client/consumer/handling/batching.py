"""Batches: so many messages, or what has come in so much time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from nsqlake.client.message import Message
from nsqlake.runtime.timers import Timer, Timers


class BatchRunner(Protocol):
    """The intake behind, whose jobs are batches."""

    @property
    def queued(self) -> int: ...

    @property
    def running(self) -> int: ...

    def is_inside(self, task: asyncio.Task[Any]) -> bool: ...

    def add(self, jobs: list[list[Message]]) -> None: ...

    def take_unstarted(self) -> list[Message]: ...

    def cancel(self) -> None: ...

    async def wait_idle(self) -> None: ...

    def close(self) -> None: ...


class BatchIntake:
    """Gathers messages into batches for `runner`.

    A batch is complete with `size` messages, `timeout_s` after its first one, or when nsqd will send no more
    until something is answered: `is_starved`.
    """

    def __init__(
        self,
        runner: BatchRunner,
        timers: Timers,
        *,
        size: int,
        timeout_s: float,
        is_starved: Callable[[], bool],
    ) -> None:
        self._runner, self._timers = runner, timers
        self._size, self._timeout_s, self._is_starved = size, timeout_s, is_starved
        self._gathered: list[Message] = []
        self._timer: Timer | None = None

    @property
    def queued(self) -> int:
        return len(self._gathered) + self._runner.queued

    @property
    def running(self) -> int:
        return self._runner.running

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        return self._runner.is_inside(task)

    def add(self, messages: list[Message]) -> None:
        self._gathered += messages
        whole = len(self._gathered) - len(self._gathered) % self._size
        if whole:
            self._hand_over(whole)
        if self._gathered and self._is_starved():
            self.flush()
        if self._gathered and self._timer is None:
            self._timer = self._timers.call_later(self._timeout_s, self._time_out)

    def flush(self) -> None:
        """Make a batch of what there is."""
        self._hand_over(len(self._gathered))

    def take_unstarted(self) -> list[Message]:
        gathered, self._gathered = self._gathered, []
        self._stop_timer()
        return gathered + self._runner.take_unstarted()

    def cancel(self) -> None:
        self._runner.cancel()

    async def wait_idle(self) -> None:
        await self._runner.wait_idle()

    def close(self) -> None:
        self._stop_timer()
        self._runner.close()

    def _time_out(self) -> None:
        self._timer = None
        if self._gathered:
            self.flush()

    def _hand_over(self, count: int) -> None:
        self._stop_timer()
        messages, self._gathered = self._gathered[:count], self._gathered[count:]
        batches = [messages[start : start + self._size] for start in range(0, count, self._size)]
        self._runner.add(batches)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
