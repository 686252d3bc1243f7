"""Consuming without a loop: until a signal, one by one, and stopped from everywhere."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from nsqlake.client.blocking import BlockingConsumer, BlockingProducer
from nsqlake.client.errors import ClientClosedError
from nsqlake.client.message import Message
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd

LIMIT_S = 10.0


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_handles_messages_in_threads_until_a_signal(nsqd: NsqdFixture, number: int) -> None:
    before = signal.getsignal(number)
    topic = f"run{number}"
    bodies: list[bytes] = []

    def handle(message: Message) -> None:
        assert threading.current_thread() is not threading.main_thread()
        bodies.append(message.body)
        if len(bodies) == 3:
            send(number)

    nsqd.create_channel(topic, "archive")
    nsqd.publish(topic, b"1", b"2", b"3")
    BlockingConsumer(topic, "archive", handle, nsqd_tcp_addresses=nsqd.tcp_address).run()

    counts = nsqd.channel(topic, "archive")
    assert counts is not None
    assert (sorted(bodies), counts.depth, counts.in_flight) == ([b"1", b"2", b"3"], 0, 0)
    assert signal.getsignal(number) == before


def test_a_second_signal_waits_for_nothing(nsqd: NsqdFixture) -> None:
    may_end = threading.Event()

    def handle(_: Message) -> None:
        send(signal.SIGTERM)
        while not consumer.stats().is_stopping:
            pass
        send(signal.SIGTERM)
        may_end.wait(LIMIT_S)

    nsqd.publish("stuck", b"body")
    consumer = BlockingConsumer("stuck", "archive", handle, nsqd_tcp_addresses=nsqd.tcp_address)
    consumer.run()

    assert not may_end.is_set()
    may_end.set()


def test_run_in_another_thread_ends_when_asked(nsqd: NsqdFixture) -> None:
    handled = threading.Event()
    nsqd.publish("thread", b"body")
    consumer = BlockingConsumer(
        "thread", "archive", lambda _: handled.set(), nsqd_tcp_addresses=nsqd.tcp_address
    )

    thread = threading.Thread(target=consumer.run)
    thread.start()
    assert handled.wait(LIMIT_S)
    consumer.request_stop()

    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_handler_may_stop_its_consumer(nsqd: NsqdFixture) -> None:
    nsqd.publish("stopped", b"body")

    def handle(_: Message) -> None:
        consumer.stop()

    consumer = BlockingConsumer("stopped", "archive", handle, nsqd_tcp_addresses=nsqd.tcp_address)
    consumer.run()

    counts = nsqd.channel("stopped", "archive")
    assert counts is not None
    assert (counts.depth, counts.in_flight) == (0, 0)


def test_a_handler_may_publish(nsqd: NsqdFixture) -> None:
    nsqd.publish("from", b"body")
    with BlockingProducer(nsqd.tcp_address) as producer:

        def handle(message: Message) -> None:
            producer.publish("to", message.body.upper())
            consumer.request_stop()

        consumer = BlockingConsumer("from", "archive", handle, nsqd_tcp_addresses=nsqd.tcp_address)
        consumer.run()

    assert nsqd.bodies("to") == [b"BODY"]


def test_messages_can_be_taken_one_by_one(nsqd: NsqdFixture) -> None:
    nsqd.publish("pulled", b"1", b"2")
    with BlockingConsumer("pulled", "archive", nsqd_tcp_addresses=nsqd.tcp_address) as consumer:
        first = consumer.get(LIMIT_S)
        assert (first.body, first.finish(), first.finish()) == (b"1", True, False)
        second = consumer.get(LIMIT_S)
        second.finish()
        with pytest.raises(TimeoutError):
            consumer.get(0.01)
        assert consumer.is_healthy()
        assert consumer.stats().finished == 2

    with pytest.raises(ClientClosedError):
        consumer.get()


def test_iteration_ends_when_the_consumer_stops(nsqd: NsqdFixture) -> None:
    nsqd.publish("iterated", b"1", b"2", b"3")
    consumer = BlockingConsumer("iterated", "archive", nsqd_tcp_addresses=nsqd.tcp_address, max_in_flight=3)
    bodies = []

    with consumer:
        for message in consumer:
            bodies.append(message.body)
            message.finish()
            if len(bodies) == 3:
                consumer.request_stop()

    assert bodies == [b"1", b"2", b"3"]


def test_an_interrupt_ends_a_wait_for_a_message(nsqd: NsqdFixture) -> None:
    nsqd.create_channel("quiet", "archive")
    with BlockingConsumer("quiet", "archive", nsqd_tcp_addresses=nsqd.tcp_address) as consumer:
        timer = threading.Timer(0.05, send, (signal.SIGINT,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.get()
        timer.join()

        nsqd.publish("quiet", b"body")
        message = consumer.get(LIMIT_S)
        assert message.finish()


def test_it_can_be_paused(nsqd: NsqdFixture) -> None:
    with BlockingConsumer("paused", "archive", nsqd_tcp_addresses=nsqd.tcp_address) as consumer:
        consumer.pause()
        assert not consumer.is_starved()
        consumer.resume()
        consumer.set_max_in_flight(7)
        assert consumer.stats().max_in_flight == 7
