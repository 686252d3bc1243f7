"""Archives one topic: messages come in, go to a file, and are finished when they are on disk."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, TypeVarTuple

from nsqlake.runtime.timers import Timer, Timers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger = logging.getLogger(__name__)


class Arrival(Protocol):
    """A message, as far as an archive needs it."""

    @property
    def body(self) -> bytes: ...

    @property
    def received_at_s(self) -> float: ...

    @property
    def hard_deadline_s(self) -> float:
        """From then on it is delivered again, however often it is touched."""

    def finish(self) -> bool: ...


class Store(Protocol):
    """What `Archive` is: blocking, for one caller at a time."""

    def append(self, bodies: Sequence[bytes]) -> bool: ...
    def tick(self) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class TopicLogger:
    """`run` does all the work, one step at a time; the other methods only tell it what has come up.

    A message is finished only after a sync that began when it was written. When the store fails `run` raises
    its error, and what is not finished by then never will be.
    """

    def __init__(
        self,
        store: Store,
        *,
        label: str,
        max_in_flight: int,
        sync_interval_s: float,
        is_starved: Callable[[], bool],
        on_archived: Callable[[int, int], object],
        timers: Timers,
    ) -> None:
        self.label = label
        self._store, self._timers = store, timers
        self._max_in_flight, self._sync_interval_s = max_in_flight, sync_interval_s
        self._is_starved, self._on_archived = is_starved, on_archived
        self._arrived: list[Arrival] = []
        self._kept: list[Arrival] = []  # written, not yet finished
        self._wake = asyncio.Event()
        self._tick_timer: Timer | None = None
        self._limit_timer: Timer | None = None
        self._is_tick_due = self._is_sync_due = self._is_reopen_due = False
        self._is_stopping = self._is_drained = False

    def deliver(self, message: Arrival) -> None:
        self._arrived.append(message)
        self._wake.set()

    def reopen(self) -> None:
        """Finish the file; the next message or tick begins another."""
        self._is_reopen_due = True
        self._wake.set()

    def hurry(self) -> None:
        """From now on nothing is kept unfinished for long: whoever stops the consumer waits for it."""
        self._is_stopping = True
        self._wake.set()

    def end(self) -> None:
        """No more messages will come."""
        self._is_drained = True
        self._wake.set()

    async def run(self) -> None:
        """Until `end` is called and everything is on disk."""
        self._set_tick()
        try:
            while not self._is_drained or self._arrived:
                await self._wake.wait()
                self._wake.clear()
                await self._take_turn()
            await self._sync()
            await _in_thread(self._store.close)
        finally:
            self._cancel(self._tick_timer)
            self._cancel(self._limit_timer)

    async def _take_turn(self) -> None:
        arrived, self._arrived = self._arrived, []
        has_rotated = await self._write(arrived) if arrived else False
        if self._is_tick_due:
            self._is_tick_due = False
            await _in_thread(self._store.tick)
            await self._sync()
        elif has_rotated or self._is_full():
            await self._sync()
        if self._is_reopen_due:
            self._is_reopen_due = False
            await self._sync()
            await _in_thread(self._store.close)

    async def _write(self, messages: list[Arrival]) -> bool:
        has_rotated = await _in_thread(self._store.append, [message.body for message in messages])
        if not self._kept:
            self._limit_waiting(messages[0])
        self._kept += messages
        return has_rotated

    def _limit_waiting(self, message: Arrival) -> None:
        """However long the sync interval is, half of the time that nsqd allows at most must be enough."""
        allowed_s = message.hard_deadline_s - message.received_at_s
        delay_s = message.received_at_s + allowed_s / 2 - self._timers.now_s()
        self._limit_timer = self._timers.call_later(max(0.0, delay_s), self._request_sync)

    def _request_sync(self) -> None:
        self._is_sync_due = True
        self._wake.set()

    def _is_full(self) -> bool:
        """Whether no more will come, or not enough, before some are finished."""
        if self._is_stopping or self._is_sync_due:
            return True
        return len(self._kept) >= self._max_in_flight or self._is_starved()

    async def _sync(self) -> None:
        self._is_sync_due = False
        self._cancel(self._limit_timer)
        if not self._kept:
            return
        logger.info("[%s] syncing %d records to disk", self.label, len(self._kept))
        await _in_thread(self._store.sync)
        kept, self._kept = self._kept, []
        for message in reversed(kept):  # NSQ: newest first
            message.finish()
        self._on_archived(len(kept), sum(len(message.body) for message in kept))

    def _set_tick(self) -> None:
        self._tick_timer = self._timers.call_later(self._sync_interval_s, self._tick)

    def _cancel(self, timer: Timer | None) -> None:
        if timer is not None:
            timer.cancel()

    def _tick(self) -> None:
        self._is_tick_due = True
        self._wake.set()
        self._set_tick()


async def _in_thread(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """So that heartbeats and other topics go on while the disk is slow."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)
