"""The clients of this project by a clock that the test moves."""

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from nsqlake.client.blocking.consumer import BlockingConsumer
from nsqlake.client.blocking.producer import BlockingProducer
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message
from nsqlake.client.producer.producer import Producer
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd


@pytest.fixture
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd(clock=ManualClock()) as fixture:
        yield fixture


class Attempts:
    """A handler that fails until the third attempt, and notes when it was called."""

    def __init__(self, nsqd: NsqdFixture) -> None:
        self._nsqd = nsqd
        self.made: list[tuple[int, float]] = []

    def handle(self, message: Message) -> None:
        self.made.append((message.attempts, self._nsqd.manual_clock.elapsed_ns / 1e9))
        if message.attempts < 3:
            raise ConnectionError("no mail today")

    async def handle_async(self, message: Message) -> None:
        await asyncio.sleep(0)
        self.handle(message)


@pytest.mark.parametrize("is_async", [True, False])
def test_retries_come_at_their_times_in_one_move(nsqd: NsqdFixture, is_async: bool) -> None:
    """90 s after the first attempt, 180 after the second; the backoff in between is shorter."""
    attempts = Attempts(nsqd)
    handler = attempts.handle_async if is_async else attempts.handle

    async def scenario() -> None:
        arguments = {"nsqd_tcp_addresses": nsqd.tcp_address, "timers": nsqd.timers}
        async with Consumer("orders", "mail", handler, **arguments):
            nsqd.publish("orders", b"x")
            await nsqd.advance(1_000)
            await nsqd.wait_channel("orders", "mail", finished=1, requeued=2)

    asyncio.run(scenario())
    assert attempts.made == [(1, 0), (2, 90), (3, 270)]


def test_a_blocking_consumer_follows_the_clock_too(nsqd: NsqdFixture) -> None:
    attempts = Attempts(nsqd)
    arguments = {"nsqd_tcp_addresses": nsqd.tcp_address, "timers": nsqd.timers}
    with BlockingConsumer("orders", "mail", attempts.handle, **arguments):
        nsqd.publish("orders", b"x")
        nsqd.blocking.advance(1_000)
        nsqd.blocking.wait_empty("orders", "mail")

    assert attempts.made == [(1, 0), (2, 90), (3, 270)]


def test_a_handler_in_a_thread_may_take_a_moment(nsqd: NsqdFixture) -> None:
    def handle(message: Message) -> None:
        threading.Event().wait(0.01)

    arguments = {"nsqd_tcp_addresses": nsqd.tcp_address, "timers": nsqd.timers}
    with BlockingConsumer("orders", "mail", handle, **arguments):
        nsqd.publish("orders", b"x")
        nsqd.blocking.settle()
        counts = nsqd.channel("orders", "mail")

    assert counts is not None
    assert (counts.in_flight, counts.finished) == (0, 1)


def test_a_consumer_outlives_an_hour_of_silence(nsqd: NsqdFixture) -> None:
    async def scenario() -> tuple[bool, int]:
        async with Consumer(
            "orders", "mail", lambda _: None, nsqd_tcp_addresses=nsqd.tcp_address, timers=nsqd.timers
        ) as consumer:
            await nsqd.wait_channel("orders", "mail", consumers=1)
            await nsqd.advance(3_600)
            return consumer.is_healthy(), consumer.stats().disconnects

    assert asyncio.run(scenario()) == (True, 0)


def test_a_message_that_nobody_answers_times_out_for_both_sides(nsqd: NsqdFixture) -> None:
    async def scenario() -> tuple[bool, int]:
        async with Consumer(
            "orders", "mail", nsqd_tcp_addresses=nsqd.tcp_address, timers=nsqd.timers
        ) as consumer:
            nsqd.publish("orders", b"x")
            held = await consumer.get()
            await nsqd.advance(61)  # the client allows for a second
            again = await consumer.get()
            again.finish()
            await nsqd.wait_empty("orders", "mail")
            return held.is_expired, again.attempts

    assert asyncio.run(scenario()) == (True, 2)


def test_what_producers_publish_can_be_read(nsqd: NsqdFixture) -> None:
    async def scenario() -> None:
        async with Producer(nsqd.tcp_address, timers=nsqd.timers) as producer:
            await producer.publish("orders", b"one")
            await producer.deferred_publish("orders", 60, b"two")

    asyncio.run(scenario())
    with BlockingProducer(nsqd.tcp_address, timers=nsqd.timers) as producer:
        producer.publish("orders", b"three")

    assert nsqd.bodies("orders") == [b"one", b"two", b"three"]


def test_a_consumer_that_lost_its_nsqd_connects_again_when_its_time_has_come(
    caplog: pytest.LogCaptureFixture, tmp_path: object
) -> None:
    caplog.set_level(logging.CRITICAL)
    clock = ManualClock()

    async def scenario() -> None:
        with running_nsqd(clock=clock, data_path=str(tmp_path)) as nsqd:
            address, timers = nsqd.tcp_address, nsqd.timers
            consumer = Consumer("orders", "mail", lambda _: None, nsqd_tcp_addresses=address, timers=timers)
            await consumer.start()
            await nsqd.wait_channel("orders", "mail", consumers=1)
        with running_nsqd(clock=clock, data_path=str(tmp_path), tcp_address=address) as nsqd:
            await nsqd.advance(120)
            await nsqd.wait_channel("orders", "mail", consumers=1)
            await consumer.stop()

    asyncio.run(scenario())
