import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from typing import Any

import pytest

from nsqlake.apps.nsq_to_file.errors import ArchiveError
from nsqlake.apps.nsq_to_file.topic_logger import TopicLogger
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.time_lapse import advance
from nsqlake.testing.timers import ManualTimers

LIMIT_S = 10.0


class Line:
    """A message that knows what the store had done when it was finished."""

    def __init__(self, given: "Given", body: bytes, allowed_s: float = 900.0) -> None:
        self._given, self.body = given, body
        self.received_at_s = given.timers.now_s()
        self.hard_deadline_s = self.received_at_s + allowed_s

    def finish(self) -> bool:
        self._given.done.append(f"finish {self.body.decode()}")
        return True


class StoreInMemory:
    """`Archive` without a disk: writes down what it was asked, and stands still or fails on demand."""

    def __init__(self, done: list[str]) -> None:
        self._done = done
        self.rotates_next = False
        self.may_sync = Event()
        self.may_sync.set()
        self.failing = ""

    def append(self, bodies: Sequence[bytes]) -> bool:
        self._do("write " + b" ".join(bodies).decode())
        rotates, self.rotates_next = self.rotates_next, False
        return rotates

    def tick(self) -> None:
        self._do("tick")

    def sync(self) -> None:
        assert self.may_sync.wait(LIMIT_S)
        self._do("sync")

    def close(self) -> None:
        self._do("close")

    def _do(self, what: str) -> None:
        if self.failing and what.startswith(self.failing):
            raise ArchiveError(self.failing, "/somewhere", "broken")
        self._done.append(what)


class Given:
    """A logger at work, whose time the test moves."""

    def __init__(self, *, max_in_flight: int = 100, sync_interval_s: float = 30.0) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.done: list[str] = []
        self.store = StoreInMemory(self.done)
        self.is_starved = False
        self.archived: list[tuple[int, int]] = []
        self.logger = TopicLogger(
            self.store,
            label="orders/nsq_to_file",
            max_in_flight=max_in_flight,
            sync_interval_s=sync_interval_s,
            is_starved=lambda: self.is_starved,
            on_archived=lambda count, size_bytes: self.archived.append((count, size_bytes)),
            timers=self.timers,
        )
        self.running = asyncio.create_task(self.logger.run())

    def deliver(self, *bodies: bytes, allowed_s: float = 900.0) -> None:
        for body in bodies:
            self.logger.deliver(Line(self, body, allowed_s))

    async def until(self, *done: str) -> None:
        """Exactly this has been done."""
        deadline = time.monotonic() + LIMIT_S
        while len(self.done) < len(done) and time.monotonic() < deadline and not self.running.done():
            await asyncio.sleep(0)
        assert self.done == list(done)

    async def end(self) -> None:
        self.logger.end()
        await self.running


def logged(**options: Any) -> Callable[[Callable[[Given], Awaitable[None]]], Callable[[], None]]:
    """Run the test with a logger, which is ended behind it."""

    def decorate(test: Callable[[Given], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            given = Given(**options)
            try:
                await test(given)
            finally:
                given.running.cancel()

        def run_test() -> None:
            asyncio.run(run())

        run_test.__doc__ = test.__doc__
        return run_test

    return decorate


@logged()
async def test_messages_are_kept_until_the_tick_and_finished_behind_the_sync(given: Given) -> None:
    given.deliver(b"a", b"b")
    await given.until("write a b")

    await advance(given.clock, 30)

    await given.until("write a b", "tick", "sync", "finish b", "finish a")
    assert given.archived == [(2, 2)]


@logged(max_in_flight=2)
async def test_as_many_as_may_be_in_flight_are_synced_at_once(given: Given) -> None:
    given.deliver(b"a")
    await given.until("write a")
    given.deliver(b"b")

    await given.until("write a", "write b", "sync", "finish b", "finish a")


@logged()
async def test_a_new_file_is_synced_at_once(given: Given) -> None:
    given.store.rotates_next = True
    given.deliver(b"a")

    await given.until("write a", "sync", "finish a")


@logged()
async def test_a_starved_connection_gets_its_messages_finished(given: Given) -> None:
    given.is_starved = True
    given.deliver(b"a")

    await given.until("write a", "sync", "finish a")


@logged()
async def test_nothing_is_finished_while_the_sync_lasts_and_what_comes_meanwhile_waits(given: Given) -> None:
    given.store.may_sync.clear()
    given.store.rotates_next = True
    given.deliver(b"a")
    await given.until("write a")

    given.deliver(b"b")
    given.store.may_sync.set()

    await given.until("write a", "sync", "finish a", "write b")


@logged()
async def test_reopening_syncs_and_closes(given: Given) -> None:
    given.deliver(b"a")
    await given.until("write a")

    given.logger.reopen()

    await given.until("write a", "sync", "finish a", "close")


@logged()
async def test_without_messages_nothing_is_synced(given: Given) -> None:
    given.logger.reopen()
    await given.until("close")

    await given.end()

    await given.until("close", "close")


@logged()
async def test_at_the_end_all_is_finished_and_closed(given: Given) -> None:
    given.deliver(b"a")
    await given.until("write a")
    given.deliver(b"b")

    await given.end()

    await given.until("write a", "write b", "sync", "finish b", "finish a", "close")


@logged()
async def test_while_the_consumer_stops_nothing_is_kept(given: Given) -> None:
    given.deliver(b"a")
    await given.until("write a")

    given.logger.hurry()
    await given.until("write a", "sync", "finish a")
    given.deliver(b"b")

    await given.until("write a", "sync", "finish a", "write b", "sync", "finish b")


@logged(sync_interval_s=3600.0)
async def test_an_hour_between_syncs_does_not_outlast_the_time_that_nsqd_allows(given: Given) -> None:
    given.deliver(b"a", allowed_s=900.0)
    await given.until("write a")
    await advance(given.clock, 449)
    await given.until("write a")

    await advance(given.clock, 2)

    await given.until("write a", "sync", "finish a")


@logged(sync_interval_s=600.0)
async def test_the_time_that_nsqd_allows_counts_from_the_oldest_unfinished_message(given: Given) -> None:
    given.deliver(b"a", allowed_s=900.0)
    await given.until("write a")
    await advance(given.clock, 400)
    given.deliver(b"b", allowed_s=900.0)
    await given.until("write a", "write b")

    await advance(given.clock, 51)

    await given.until("write a", "write b", "sync", "finish b", "finish a")


@logged()
async def test_every_tick_looks_whether_another_file_is_due(given: Given) -> None:
    await advance(given.clock, 30)
    await given.until("tick")

    await advance(given.clock, 30)

    await given.until("tick", "tick")


@pytest.mark.parametrize("failing", ["write", "sync", "tick", "close"])
def test_after_a_failure_nothing_is_finished(failing: str) -> None:
    async def run() -> list[str]:
        given = Given()
        given.store.failing = failing
        given.deliver(b"a")
        if failing != "write":
            await given.until("write a")
        await advance(given.clock, 30 if failing != "close" else 0)
        given.logger.end()
        with pytest.raises(ArchiveError):
            await given.running
        return given.done

    done = asyncio.run(run())

    assert [what for what in done if what.startswith("finish")] == (
        ["finish a"] if failing == "close" else []
    )
