"""Publishing past the loop: when it is done, when it is not, and what is said about each publish."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nsqlake.client.blocking import BlockingProducer, direct_path
from nsqlake.client.blocking.loop_thread import shared
from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import PublishError, PublishRejectedError, PublishUnknownError
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.stats import Counters
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME
from tests.client.blocking.scripted_thread import ScriptedThread, scripted
from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.fakes.scripted_nsqd import Answer, error, message, response

LIMIT_S = 10.0
LOOP, DIRECT = 0, 1  # the connections, in the order in which they are made


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd(max_body_size=50_000_000) as nsqd:
        yield nsqd


@pytest.fixture(autouse=True)
def _whatever_time_things_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_path, "PROVEN_FOR_S", 60.0)
    monkeypatch.setattr(direct_path, "CROWDED_FOR_S", 0.0)


@contextmanager
def publishing(*answers: Answer, **options: object) -> Iterator[tuple[ScriptedThread, BlockingProducer]]:
    """An nsqd that answers publishes so, in turn, and a producer that has published 0 through the loop."""
    with (
        scripted({"PUB": [OK_FRAME, *answers]}) as nsqd,
        BlockingProducer(nsqd.address, **options) as producer,
    ):
        producer.publish("orders", b"0")
        yield nsqd, producer


@contextmanager
def when_published(nsqd: ScriptedThread, act: Callable[[], object]) -> Iterator[None]:
    """Another thread acts when a publish has come past the loop."""

    def wait() -> None:
        nsqd.wait_published(1, DIRECT)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join(LIMIT_S)


def test_a_thread_that_publishes_alone_gets_a_connection_without_heartbeats() -> None:
    with publishing(OK_FRAME) as (nsqd, producer):
        producer.publish("orders", b"1")
        producer.publish("orders", b"2")

        assert nsqd.published() == [[b"0"], [b"1", b"2"]]
        identify = nsqd.nsqd.connections[DIRECT].commands[0]
        assert identify.fields["heartbeat_interval"] == -1


def test_all_kinds_of_publishes_arrive(nsqd: NsqdFixture) -> None:
    with BlockingProducer(nsqd.tcp_address) as producer:
        for _ in range(3):
            producer.publish("kinds", b"one")
            producer.multi_publish("kinds", [b"two", b"three"])
            producer.deferred_publish("kinds", "1ms", b"four")

    assert sorted(nsqd.bodies("kinds")) == sorted([b"one", b"two", b"three", b"four"] * 3)


def test_a_publish_larger_than_the_buffers_of_the_socket_arrives(nsqd: NsqdFixture) -> None:
    bodies = [bytes([number]) * 1_000_000 for number in range(1, 21)]
    with BlockingProducer(nsqd.tcp_address) as producer:
        producer.publish("large", b"first")
        producer.multi_publish("large", bodies)
        assert producer.stats().nodes[0].connects == 1

    assert nsqd.bodies("large") == [b"first", *bodies]


def test_secrets_are_used_here_too() -> None:
    with (
        scripted(identify={"auth_required": True}) as nsqd,
        BlockingProducer(nsqd.address, auth_secret="secret") as producer,
    ):
        producer.publish("orders", b"0")
        producer.publish("orders", b"1")
        assert [str(command) for command in nsqd.nsqd.connections[DIRECT].commands] == [
            "IDENTIFY",
            "AUTH",
            "PUB",
        ]


def test_unix_sockets_can_be_used_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("s") / "nsqd")
    with scripted(host=path) as nsqd, BlockingProducer(nsqd.address) as producer:
        producer.publish("orders", b"0")
        producer.publish("orders", b"1")
        assert nsqd.published() == [[b"0"], [b"1"]]


# What is said about a publish ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error("E_BAD_MESSAGE too large"), PublishRejectedError),
        (error("E_PUB_FAILED disk full"), PublishRejectedError),
        (response(b"CLOSE_WAIT"), PublishUnknownError),
        (response(b""), PublishUnknownError),
        (message(b"body"), PublishUnknownError),
        (b"\x00\x00\x00\x06\x00\x00\x00\x09OK", PublishUnknownError),
        (b"\xff\xff\xff\xf0\x00\x00\x00\x00OK", PublishUnknownError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", PublishUnknownError),
    ],
)
def test_an_answer_other_than_ok_raises_and_ends_the_connection(
    answer: bytes, expected: type[PublishError]
) -> None:
    with publishing(answer, OK_FRAME) as (nsqd, producer):
        with pytest.raises(expected) as raised:
            producer.publish("orders", b"1")
        assert (raised.value.topic, raised.value.address) == ("orders", nsqd.address)
        nsqd.call(nsqd.nsqd.connections[DIRECT].wait_ended)

        producer.publish("orders", b"2")
        assert nsqd.published() == [[b"0", b"2"], [b"1"]]
        assert producer.stats().failed == producer.flush() == 1
        assert producer.flush() == 0


@pytest.mark.parametrize("answer", [OK_FRAME + OK_FRAME, OK_FRAME + b"\x00", HEARTBEAT_FRAME + OK_FRAME])
def test_after_more_than_an_ok_the_connection_is_not_used_again(answer: bytes) -> None:
    with publishing(answer, OK_FRAME) as (nsqd, producer):
        producer.publish("orders", b"1")
        producer.publish("orders", b"2")

        assert nsqd.published() == [[b"0", b"2"], [b"1"]]
        assert producer.stats().commands == 3


@pytest.mark.parametrize("begun", [b"", OK_FRAME[:9]])
def test_a_connection_that_is_lost_before_the_answer_makes_the_publish_unknown(begun: bytes) -> None:
    with publishing(None, OK_FRAME) as (nsqd, producer):

        async def break_off() -> None:
            nsqd.nsqd.connections[DIRECT].send_raw(begun)
            nsqd.nsqd.connections[DIRECT].close()

        with (
            when_published(nsqd, lambda: nsqd.call(break_off)),
            pytest.raises(PublishUnknownError, match="closed by nsqd"),
        ):
            producer.publish("orders", b"1")
        producer.publish("orders", b"2")
        assert nsqd.published() == [[b"0", b"2"], [b"1"]]


def test_a_late_answer_is_not_taken_for_that_of_the_next_publish() -> None:
    with publishing(None, error("E_PUB_FAILED disk full")) as (nsqd, producer):
        with pytest.raises(PublishUnknownError, match=r"no answer within 0.02 s"):
            producer.publish("orders", b"1", timeout=0.02)
        nsqd.send(OK_FRAME, number=DIRECT)
        with pytest.raises(PublishRejectedError):
            producer.publish("orders", b"2")


def test_an_interrupt_discards_the_connection() -> None:
    with publishing(None, error("E_PUB_FAILED disk full"), OK_FRAME) as (nsqd, producer):
        main = threading.main_thread().ident or 0
        with (
            when_published(nsqd, lambda: signal.pthread_kill(main, signal.SIGINT)),
            pytest.raises(KeyboardInterrupt),
        ):
            producer.publish("orders", b"1")
        nsqd.call(nsqd.nsqd.connections[DIRECT].wait_ended)
        with pytest.raises(PublishRejectedError):
            producer.publish("orders", b"2")


@pytest.mark.slow
def test_an_nsqd_that_is_killed_has_what_was_reported_as_stored(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = str(tmp_path_factory.mktemp("killed"))
    with NsqdProcess(folder) as nsqd, BlockingProducer(nsqd.tcp_address, publish_timeout=2) as producer:
        stored: list[bytes] = []

        def publish() -> None:
            while True:
                producer.publish("killed", b"%d" % len(stored))
                stored.append(b"%d" % len(stored))
                if len(stored) == 200:
                    threading.Thread(target=nsqd.kill).start()

        with pytest.raises(PublishError):
            publish()

    with running_nsqd(data_path=f"{folder}/data") as again:
        found = again.bodies("killed")
    assert len(stored) >= 200
    assert found in (stored, [*stored, b"%d" % len(stored)])


# When it is not done ------------------------------------------------------------------------------------


def test_a_connection_that_nsqd_has_closed_is_not_used() -> None:
    with publishing(OK_FRAME) as (nsqd, producer):
        producer.publish("orders", b"1")
        connection = nsqd.nsqd.connections[DIRECT]

        async def close() -> None:
            connection.close()
            await connection.writer.wait_closed()

        nsqd.call(close)
        for number in range(2, 5):
            producer.publish("orders", b"%d" % number)

        assert nsqd.published() == [[b"0", b"2"], [b"1"], [b"3", b"4"]]
        assert producer.stats().commands == 5


def test_a_connection_that_was_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with publishing(OK_FRAME) as (nsqd, producer):
        producer.publish("orders", b"1")
        monkeypatch.setattr(direct_path, "IDLE_LIMIT_S", 0.0)
        producer.publish("orders", b"2")
        assert nsqd.published() == [[b"0", b"2"], [b"1"]]


def test_who_publishes_now_and_then_gets_no_second_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_path, "PROVEN_FOR_S", 0.0)
    with publishing(OK_FRAME) as (nsqd, producer):
        producer.publish("orders", b"1")
        assert nsqd.published() == [[b"0", b"1"]]


def test_two_threads_at_a_time_are_left_to_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_path, "CROWDED_FOR_S", 60.0)
    with publishing(None, OK_FRAME) as (nsqd, producer):
        other = threading.Thread(target=producer.publish, args=("orders", b"other thread"))
        other.start()
        nsqd.wait_published(1, DIRECT)
        producer.publish("orders", b"1")
        nsqd.send(OK_FRAME, number=DIRECT)
        other.join(LIMIT_S)

        producer.publish("orders", b"2")
        assert nsqd.published() == [[b"0", b"1", b"2"], [b"other thread"]]


@pytest.mark.parametrize("refusal", [error("E_BAD_BODY no"), b"", b"junk and more junk"])
def test_an_nsqd_that_refuses_the_second_connection_is_not_asked_again_soon(refusal: bytes) -> None:
    answers: dict[str, Answer | list[Answer]] = {"IDENTIFY": [None, refusal, None]}
    with scripted(answers) as nsqd, BlockingProducer(nsqd.address, dial_timeout=0.05) as producer:
        for number in range(5):
            producer.publish("orders", b"%d" % number)
        assert nsqd.published() == [[b"0", b"1", b"2", b"3", b"4"], []]


def test_what_nsqd_is_slow_to_take_goes_through_the_loop() -> None:
    answers: dict[str, Answer | list[Answer]] = {"MPUB": OK_FRAME}
    with scripted(answers) as nsqd, BlockingProducer(nsqd.address, write_timeout=0.1) as producer:
        producer.publish("orders", b"0")
        producer.publish("orders", b"1")

        async def be_stuck() -> None:
            nsqd.nsqd.connections[DIRECT].pause_reading()

        nsqd.call(be_stuck)
        producer.multi_publish("orders", [b"x" * 1_000_000] * 20)
        assert [connection.count("MPUB") for connection in nsqd.nsqd.connections] == [1, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"hooks": ProducerHooks(on_published=lambda *_: None)},
        {"retries": 1},
        {"snappy": True},
        {"tls_v1": True},
    ],
)
def test_what_only_the_loop_can_do_is_left_to_it(options: dict[str, object]) -> None:
    with publishing(OK_FRAME, **options, tls_required=False) as (nsqd, producer):
        producer.publish("orders", b"1")
        assert nsqd.published() == [[b"0", b"1"]]


def test_several_nsqds_are_left_to_the_loop() -> None:
    with scripted() as one, scripted() as two, BlockingProducer([one.address, two.address]) as producer:
        for _ in range(10):
            producer.publish("orders", b"x")
        assert len(one.published() + two.published()) == 2


# Order, threads and the end -----------------------------------------------------------------------------


def test_a_publish_does_not_overtake_one_that_is_unanswered() -> None:
    with publishing(None, OK_FRAME) as (nsqd, producer):
        future = producer.publish_nowait("orders", b"1")
        thread = threading.Thread(target=producer.publish, args=("orders", b"2"))
        thread.start()
        nsqd.wait_published(3)
        nsqd.send(OK_FRAME)
        thread.join(LIMIT_S)
        assert future.done()
        assert nsqd.published() == [[b"0", b"1", b"2"]]


def test_a_publish_does_not_overtake_one_that_nobody_waits_for_any_more() -> None:
    with publishing(None, OK_FRAME) as (nsqd, producer):
        future = producer.publish_nowait("orders", b"1", timeout=0.02)
        assert isinstance(future.exception(LIMIT_S), PublishUnknownError)
        thread = threading.Thread(target=producer.publish, args=("orders", b"2"))
        thread.start()
        nsqd.wait_published(3)
        nsqd.send(OK_FRAME)
        thread.join(LIMIT_S)
        assert nsqd.published() == [[b"0", b"1", b"2"]]


def test_a_publish_does_not_overtake_one_that_the_loop_has_not_come_to() -> None:
    loop_goes_on = threading.Event()
    with publishing(None, OK_FRAME) as (nsqd, producer):
        other = threading.Thread(target=producer.publish, args=("orders", b"other thread"))
        other.start()
        nsqd.wait_published(1, DIRECT)
        shared().post(loop_goes_on.wait, LIMIT_S)
        with interrupted_soon(), pytest.raises(KeyboardInterrupt):
            producer.publish("orders", b"interrupted")
        nsqd.send(OK_FRAME, number=DIRECT)
        other.join(LIMIT_S)

        threading.Timer(0.02, loop_goes_on.set).start()
        producer.publish("orders", b"next")
        assert nsqd.published() == [[b"0", b"interrupted", b"next"], [b"other thread"]]


@contextmanager
def interrupted_soon() -> Iterator[None]:
    main = threading.main_thread().ident or 0
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    yield
    timer.join(LIMIT_S)


def test_a_thread_that_changes_between_the_ways_keeps_its_order(nsqd: NsqdFixture) -> None:
    bodies = [b"%d" % number for number in range(1000)]
    with BlockingProducer(nsqd.tcp_address) as producer:
        for number, body in enumerate(bodies):
            if number % 7 in (3, 4):
                producer.publish_nowait("ways", body)
            else:
                producer.publish("ways", body)
        stats = producer.stats()

    assert nsqd.bodies("ways") == bodies
    assert (stats.commands, sum(count for _, count in stats.latency_s)) == (1000, 1000)


def test_threads_that_come_and_go_lose_nothing_and_get_no_more_connections(nsqd: NsqdFixture) -> None:
    names, each = range(8), 100
    with BlockingProducer(nsqd.tcp_address) as producer:

        def work(name: int) -> None:
            for number in range(each):
                producer.publish("crowd", b"%d-%d" % (name, number))

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        work(len(names))
        for thread in threads:
            thread.join()
        assert producer.stats().commands == (len(names) + 1) * each

    found = nsqd.bodies("crowd")
    for name in range(len(names) + 1):
        ours = [body for body in found if body.startswith(b"%d-" % name)]
        assert ours == [b"%d-%d" % (name, number) for number in range(each)]


def test_the_end_of_the_producer_lets_a_publish_end() -> None:
    with publishing(None) as (nsqd, producer):
        outcomes: list[object] = []

        def work() -> None:
            producer.publish("orders", b"1")
            outcomes.append("stored")

        thread = threading.Thread(target=work)
        thread.start()
        nsqd.wait_published(1, DIRECT)
        threading.Timer(0.02, lambda: nsqd.send(OK_FRAME, number=DIRECT)).start()

        producer.close()

        thread.join(LIMIT_S)
        assert outcomes == ["stored"]
        nsqd.call(nsqd.nsqd.connections[DIRECT].wait_ended)


def test_the_end_of_the_producer_does_not_wait_for_ever() -> None:
    with publishing(None) as (nsqd, producer):
        outcomes: list[object] = []

        def work() -> None:
            with pytest.raises(PublishUnknownError) as raised:
                producer.publish("orders", b"1")
            outcomes.append(raised.type)

        thread = threading.Thread(target=work)
        thread.start()
        nsqd.wait_published(1, DIRECT)

        producer.close(timeout=0.02)

        thread.join(LIMIT_S)
        assert outcomes == [PublishUnknownError]


def test_a_flush_waits_for_a_publish_past_the_loop() -> None:
    with publishing(None) as (nsqd, producer):
        refused: list[PublishError] = []

        def work() -> None:
            try:
                producer.publish("orders", b"1")
            except PublishError as failure:
                refused.append(failure)

        thread = threading.Thread(target=work)
        thread.start()
        nsqd.wait_published(1, DIRECT)
        answer = error("E_PUB_FAILED disk full")
        threading.Timer(0.02, lambda: nsqd.send(answer, number=DIRECT)).start()

        assert producer.flush() == 1
        thread.join(LIMIT_S)
        assert len(refused) == 1


def test_a_publish_that_comes_after_the_end_leaves_no_connection() -> None:
    with scripted() as nsqd:
        path = direct_path.DirectPath(nsqd.address, ClientConfig(), shared(), Counters())
        path.close(0.0)
        path.proven()
        assert path.publish("orders", b"PUB orders\n\0\0\0\1x", 1, LIMIT_S) is None
        nsqd.call(nsqd.nsqd.connections[0].wait_ended)


def test_a_signal_handler_may_publish_flush_and_close_amid_a_publish() -> None:
    with publishing(None, OK_FRAME) as (nsqd, producer):

        def handle(*_: object) -> None:
            producer.publish("orders", b"from the handler")
            producer.flush()
            producer.close()

        before = signal.signal(signal.SIGUSR1, handle)
        try:
            main = threading.main_thread().ident or 0
            with (
                when_published(nsqd, lambda: signal.pthread_kill(main, signal.SIGUSR1)),
                pytest.raises(PublishUnknownError),
            ):
                producer.publish("orders", b"1")
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert nsqd.published() == [[b"0", b"from the handler"], [b"1"]]


def test_what_nobody_holds_any_more_is_closed() -> None:
    with scripted() as nsqd:
        producer = BlockingProducer(nsqd.address)
        producer.publish("orders", b"0")
        producer.publish("orders", b"1")
        del producer
        wait_for(lambda: all(connection.has_ended for connection in nsqd.nsqd.connections))
        assert len(nsqd.nsqd.connections) == 2
