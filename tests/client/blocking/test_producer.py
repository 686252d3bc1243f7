"""Publishing from threads: one, many, interrupted, and in places where it cannot work."""

import asyncio
import concurrent.futures
import gc
import signal
import threading
from collections.abc import Iterator

import pytest

from nsqlake.client.blocking import BlockingProducer, CalledInEventLoopError
from nsqlake.client.blocking.errors import CallTimeoutError
from nsqlake.client.errors import (
    ClientClosedError,
    ConnectError,
    InvalidArgumentError,
    PublishNotSentError,
    PublishRejectedError,
    PublishUnknownError,
)
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.client.blocking.scripted_thread import SILENT, scripted
from tests.fakes.nsqd_process import wait_for
from tests.fakes.scripted_nsqd import OK_FRAME, error

THREADS, EACH = 10, 50


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd(max_msg_size=1000) as nsqd:
        yield nsqd


def test_publishing_returns_when_nsqd_has_it(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:
        producer.publish("plain", b"one")
        assert nsqd.bodies("plain") == [b"one"]
        producer.multi_publish("plain", [b"two", b"three"])
        producer.deferred_publish("plain", "1ms", b"four")

    assert nsqd.bodies("plain") == [b"one", b"two", b"three", b"four"]


def test_a_publish_that_fails_raises(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:
        with pytest.raises(PublishRejectedError, match="E_BAD_MESSAGE"):
            producer.publish("failing", b"x" * 2000)
        producer.publish("failing", b"good")

    assert nsqd.bodies("failing") == [b"good"]


def test_many_threads_share_one_connection(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:

        def work(name: int) -> None:
            for number in range(EACH):
                producer.publish("threads", b"%d-%d" % (name, number))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert producer.stats().nodes[0].connects == 1
    found = nsqd.bodies("threads")
    for name in range(THREADS):
        ours = [body for body in found if body.startswith(b"%d-" % name)]
        assert ours == [b"%d-%d" % (name, number) for number in range(EACH)]


def test_publishing_without_waiting_keeps_the_order(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:
        futures = [producer.publish_nowait("later", b"%d" % number) for number in range(1000)]

        assert producer.flush() == 0
        assert all(future.done() and future.result() is None for future in futures)

    assert nsqd.bodies("later") == [b"%d" % number for number in range(1000)]


def test_the_futures_are_those_of_concurrent_futures() -> None:
    called: list[object] = []
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address) as producer:
        good, bad, unseen = (producer.publish_nowait("orders", body) for body in (b"1", b"2", b"3"))
        good.add_done_callback(called.append)
        assert not good.cancel()
        with pytest.raises(TimeoutError):
            good.result(0)
        nsqd.wait_published(3)

        nsqd.send(OK_FRAME, error("E_PUB_FAILED disk full"), OK_FRAME)

        done, pending = concurrent.futures.wait([good, bad, unseen], timeout=10)
        assert (len(done), len(pending)) == (3, 0)
        assert isinstance(bad.exception(), PublishRejectedError)
        assert called == [good]
        assert set(concurrent.futures.as_completed([good, bad, unseen], timeout=0)) == {good, bad, unseen}
        assert producer.flush() == 1


def test_a_thread_that_waits_for_a_future_is_woken_by_the_answer() -> None:
    results: list[object] = []
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address) as producer:
        future = producer.publish_nowait("orders", b"body")
        thread = threading.Thread(target=lambda: results.append(future.result(20)))
        thread.start()
        nsqd.wait_published(1)
        wait_for(lambda: bool(future._condition._waiters))  # type: ignore[attr-defined]

        nsqd.send(OK_FRAME)

        thread.join(10)
        assert results == [None]


def test_a_thread_waits_for_room_when_too_much_is_unanswered() -> None:
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address, max_publish_in_flight=2) as producer:
        producer.publish_nowait("orders", b"1")
        producer.publish_nowait("orders", b"2")
        with pytest.raises(PublishNotSentError, match="queue full"):
            producer.publish_nowait("orders", b"3", block=False)
        with pytest.raises(PublishNotSentError, match="queue full"):
            producer.publish_nowait("orders", b"3", timeout=0.01)
        thread = threading.Thread(target=producer.publish_nowait, args=("orders", b"3"))
        thread.start()
        nsqd.wait_published(2)

        nsqd.send(OK_FRAME)

        thread.join(10)
        nsqd.wait_published(3)
        nsqd.send(OK_FRAME * 2)
        assert producer.flush() == 0


def test_no_answer_in_time_is_unknown() -> None:
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address) as producer:
        with pytest.raises(PublishUnknownError, match=r"no answer within 0.02 s"):
            producer.publish("orders", b"late", timeout=0.02)
        nsqd.send(OK_FRAME)


def test_an_interrupt_ends_the_wait_and_leaves_the_order_alone() -> None:
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address) as producer:

        def interrupt() -> None:
            nsqd.wait_published(1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            producer.publish("orders", b"interrupted")
        thread.join()

        bad, good = (producer.publish_nowait("orders", body) for body in (b"bad", b"good"))
        nsqd.wait_published(3)
        nsqd.send(OK_FRAME, error("E_PUB_FAILED"), OK_FRAME)
        assert good.result(10) is None
        assert isinstance(bad.exception(), PublishRejectedError)


def test_an_interrupt_ends_a_flush() -> None:
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address) as producer:
        producer.publish_nowait("orders", b"body")

        def interrupt() -> None:
            nsqd.wait_published(1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        thread.join()
        nsqd.send(OK_FRAME)


def test_a_flush_does_not_wait_for_ever() -> None:
    with scripted(SILENT) as nsqd, BlockingProducer(nsqd.address) as producer:
        producer.publish_nowait("orders", b"body")

        with pytest.raises(CallTimeoutError, match=r"flush was not done within 0.02 s"):
            producer.flush(timeout=0.02)

        nsqd.wait_published(1)
        nsqd.send(OK_FRAME)


def test_in_a_running_event_loop_it_raises_instead_of_stopping_the_loop(nsqd: NsqdFixture) -> None:
    async def script(producer: BlockingProducer) -> None:
        for call in (
            lambda: producer.publish("loop", b"x"),
            lambda: producer.multi_publish("loop", [b"x"]),
            lambda: producer.deferred_publish("loop", 1, b"x"),
            producer.flush,
            producer.ping,
            producer.stats,
        ):
            with pytest.raises(CalledInEventLoopError, match="asyncio"):
                call()
        await asyncio.wrap_future(producer.publish_nowait("loop", b"does not block"))

    with BlockingProducer(nsqd.tcp_address) as producer:
        asyncio.run(script(producer))

    assert nsqd.bodies("loop") == [b"does not block"]


def test_bad_arguments_are_refused_in_the_thread_that_made_them(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:
        for call in (
            lambda: producer.publish("bad topic!", b"x"),
            lambda: producer.publish("t", "text"),  # type: ignore[arg-type]
            lambda: producer.publish_nowait("t", b""),
            lambda: producer.multi_publish("t", b"bytes"),  # type: ignore[arg-type]
            lambda: producer.publish("t", b"x", timeout=-1),
        ):
            with pytest.raises(InvalidArgumentError):
                call()
    with pytest.raises(InvalidArgumentError):
        BlockingProducer([])
    with pytest.raises(InvalidArgumentError):
        BlockingProducer("localhost", snappy=True, deflate=True)


def test_a_closed_producer_takes_nothing(nsqd: NsqdFixture) -> None:
    producer = BlockingProducer(nsqd.tcp_address)
    producer.publish("closed", b"x")
    producer.close()
    producer.close()

    for call in (
        lambda: producer.publish("closed", b"x"),
        lambda: producer.publish_nowait("closed", b"x"),
        producer.flush,
        producer.ping,
        producer.stats,
    ):
        with pytest.raises(ClientClosedError):
            call()


def test_a_ping_tells_whether_nsqd_is_there(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:
        producer.ping()
        producer.ping(strict=True)
    with scripted() as other:
        address = other.address
    with BlockingProducer(address) as producer, pytest.raises(ConnectError):
        producer.ping(strict=True)


def test_what_nobody_holds_any_more_is_still_published_and_then_closed() -> None:
    with scripted() as nsqd:
        BlockingProducer(nsqd.address).publish_nowait("orders", b"body")
        gc.collect()

        connection = nsqd.wait_published(1)
        nsqd.call(connection.wait_ended)
