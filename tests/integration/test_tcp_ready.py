"""RDY and CLS: how much a consumer is sent, and when that leaves the daemon."""

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from nsqlake.wire import commands
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures


def test_rdy_before_sub_is_refused(client: TcpClient) -> None:
    client.send(commands.rdy(1))

    client.expect_fatal("E_INVALID cannot RDY in current state")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"RDY 2501\n", "RDY count 2501 out of range 0-2500"),
        (b"RDY -1\n", "RDY could not parse count -1"),
        (b"RDY abc\n", "RDY could not parse count abc"),
        (b"RDY +1\n", "RDY could not parse count +1"),
        (b"RDY 1.0\n", "RDY could not parse count 1.0"),
        (b"RDY 1_0\n", "RDY could not parse count 1_0"),
        ("RDY ١\n".encode(), "RDY could not parse count ١"),
        (b"RDY 9223372036854775808\n", "RDY count -9223372036854775808 out of range 0-2500"),
    ],
)
def test_wrong_count_is_refused(client: TcpClient, topic: str, line: bytes, text: str) -> None:
    client.sub(topic, "channel")

    client.send(line)

    client.expect_fatal(f"E_INVALID {text}")


@pytest.mark.parametrize(
    ("line", "ready"),
    [(b"RDY \n", 0), (b"RDY\n", 1), (b"RDY 2500\n", 2500), (b"RDY 18446744073709551617\n", 1)],
)
def test_count_is_read_as_nsq_reads_it(
    nsqd: NsqdFixture, client: TcpClient, topic: str, line: bytes, ready: int
) -> None:
    client.sub(topic, "channel")

    client.send(line)
    client.expect_nothing_so_far()

    (subscription,) = nsqd.call(
        lambda daemon: daemon.broker.topics[topic].channels["channel"].core.subscriptions
    )
    assert subscription.ready == ready


def test_nothing_is_sent_before_the_first_rdy(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.pub(topic, b"x")

    client.sub(topic, "channel")

    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel").depth == 1


def test_rdy_is_a_ceiling_and_not_a_countdown(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.pub(topic, *(b"%d" % number for number in range(6)))
    client.sub(topic, "channel", 2)

    first, _ = client.messages(2)
    client.fin(first)

    client.message()
    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel")[:2] == (3, 2)


def test_lowered_rdy_stops_delivery(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.pub(topic, b"1", b"2", b"3")
    client.sub(topic, "channel", 2)
    first, _ = client.messages(2)

    client.send(commands.rdy(1), commands.fin(first.id))

    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel")[:2] == (1, 1)


def test_rdy_zero_stops_delivery(client: TcpClient, nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    client.sub(topic, "channel", 5)
    client.send(commands.rdy(0))
    client.expect_nothing_so_far()

    connect(nsqd).pub(topic, b"x")

    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel").depth == 1


def test_rdy_after_cls_is_not_even_parsed(client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel", 1)
    client.send(commands.cls())
    client.expect_close_wait()

    client.send(b"RDY abc\n")

    client.expect_nothing_so_far()


@pytest.mark.parametrize("command", [commands.cls(), commands.sub("t", "c"), commands.identify({})])
def test_after_cls_a_consumer_can_begin_nothing_new(client: TcpClient, topic: str, command: bytes) -> None:
    client.sub(topic, "channel")
    client.send(commands.cls())
    client.expect_close_wait()

    client.send(command)

    name = command.split()[0].decode()
    client.expect_fatal(f"E_INVALID cannot {name} in current state")


def test_cls_before_sub_is_refused(client: TcpClient) -> None:
    client.send(commands.cls())

    client.expect_fatal("E_INVALID cannot CLS in current state")


def test_after_cls_a_client_can_publish_and_finish(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.pub(topic, b"1", b"2", b"3")
    client.sub(topic, "channel", 2)
    first, second = client.messages(2)

    client.send(commands.cls())
    client.expect_close_wait()
    client.fin(first)
    client.touch(second)
    client.req(second)
    client.pub(topic, b"4")

    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel")[:2] == (3, 0)


def test_with_no_timed_flush_a_message_waits_for_the_next_answer(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    consumer = connect(nsqd)
    consumer.identify(output_buffer_timeout=-1)
    consumer.sub(topic, "channel", 2)
    connect(nsqd).pub(topic, b"held back")
    eventually(lambda: figures(nsqd, topic, "channel").in_flight == 1)

    consumer.expect_silence(0.1)
    consumer.send(commands.pub("other", b"x"))

    assert consumer.message().body == b"held back"
    consumer.expect_ok()


def test_with_no_timed_flush_a_full_buffer_is_sent(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    consumer = connect(nsqd)
    consumer.identify(output_buffer_timeout=-1, output_buffer_size=64)
    consumer.sub(topic, "channel", 2)

    connect(nsqd).pub(topic, b"x" * 64)

    assert consumer.message().body == b"x" * 64


@pytest.mark.parametrize("rdy", [0, 1])
def test_with_no_timed_flush_a_consumer_that_is_not_ready_has_what_it_was_sent(
    nsqd: NsqdFixture, connect: Connect, topic: str, rdy: int
) -> None:
    consumer = connect(nsqd)
    consumer.identify(output_buffer_timeout=-1)
    consumer.sub(topic, "channel", 2)
    connect(nsqd).pub(topic, b"held back")
    eventually(lambda: figures(nsqd, topic, "channel").in_flight == 1)

    consumer.send(commands.rdy(rdy))

    assert consumer.message().body == b"held back"


def test_rdy_that_is_reached_sends_at_once(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    consumer = connect(nsqd)
    consumer.identify(output_buffer_timeout=30_000)
    consumer.sub(topic, "channel", 1)

    connect(nsqd).pub(topic, b"x")

    assert consumer.message(1.0).body == b"x"


def test_sampling_drops_the_rest_for_the_whole_channel(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    consumer = connect(nsqd)
    consumer.identify(sample_rate=1)
    consumer.sub(topic, "channel", 2500)

    connect(nsqd).mpub(topic, [b"x"] * 2000)
    eventually(lambda: figures(nsqd, topic, "channel").depth == 0)

    assert 10 <= figures(nsqd, topic, "channel").in_flight <= 90  # 40 are expected, by six sigma


def test_consumers_share_what_is_published(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    consumers = [connect(nsqd), connect(nsqd)]
    for consumer in consumers:
        consumer.sub(topic, "channel", 100)

    connect(nsqd).mpub(topic, [b"x"] * 50)

    for consumer in consumers:
        assert len(consumer.messages(25)) == 25
