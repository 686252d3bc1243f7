"""PUB, DPUB and MPUB: sizes, names, and what is stored when something is wrong."""

import struct
import time

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures, has_topic


def size_of(number: int) -> bytes:
    return struct.pack(">i", number)


def mpub_of(topic: str, declared: int, count: int, *records: bytes) -> bytes:
    return b"MPUB %b\n" % topic.encode() + struct.pack(">ii", declared, count) + b"".join(records)


def record(body: bytes) -> bytes:
    return size_of(len(body)) + body


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"PUB\n", "E_INVALID PUB insufficient number of parameters"),
        (b"MPUB\n", "E_INVALID MPUB insufficient number of parameters"),
        (b"DPUB\n", "E_INVALID DPUB insufficient number of parameters"),
        (b"DPUB t\n", "E_INVALID DPUB insufficient number of parameters"),
        (b"PUB t!\n", 'E_BAD_TOPIC PUB topic name "t!" is not valid'),
        (b"PUB \n", 'E_BAD_TOPIC PUB topic name "" is not valid'),
        (b"PUB ../t\n", 'E_BAD_TOPIC PUB topic name "../t" is not valid'),
        (b"MPUB t!\n", 'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "t!" is not valid'),
        (b"DPUB t! 1\n", 'E_BAD_TOPIC DPUB topic name "t!" is not valid'),
        (b"DPUB t x\n", "E_INVALID DPUB could not parse timeout x"),
        (b"DPUB t -1\n", "E_INVALID DPUB could not parse timeout -1"),
        (b"DPUB t 3600001\n", "E_INVALID DPUB timeout 3600001 out of range 0-3600000"),
    ],
)
def test_wrong_parameters_are_refused(client: TcpClient, line: bytes, text: str) -> None:
    client.send(line)

    client.expect_fatal(text)


@pytest.mark.parametrize("name", ["PUB", "DPUB"])
@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "invalid message body size 0"),
        (-1, "invalid message body size -1"),
        (1_048_577, "message too big 1048577 > 1048576"),
        (2**31 - 1, "message too big 2147483647 > 1048576"),
    ],
)
def test_message_size_out_of_range_is_refused(client: TcpClient, name: str, size: int, text: str) -> None:
    client.send(f"{name} t 0\n".encode(), size_of(size))

    client.expect_fatal(f"E_BAD_MESSAGE {name} {text}")


def test_largest_message_is_stored_and_delivered_whole(client: TcpClient, topic: str) -> None:
    body = bytes(range(256)) * 4096

    client.pub(topic, body)
    client.sub(topic, "channel", 1)

    assert client.message().body == body


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"PUB t\n", "PUB failed to read message body size"),
        (b"PUB t\n\x00\x00\x00", "PUB failed to read message body size"),
        (b"PUB t\n\x00\x00\x00\x05abcd", "PUB failed to read message body"),
        (b"DPUB t 1\n\x00\x00\x00\x05", "DPUB failed to read message body"),
    ],
)
def test_message_cut_short_is_refused(client: TcpClient, sent: bytes, text: str) -> None:
    client.send(sent)
    client.finish_sending()

    client.expect_fatal(f"E_BAD_MESSAGE {text}")


def test_two_publishes_in_one_segment_are_both_answered(client: TcpClient, topic: str) -> None:
    client.send(commands.pub(topic, b"one"), commands.pub(topic, b"two"))

    client.expect_ok()
    client.expect_ok()


def test_publish_byte_by_byte_is_one_message(client: TcpClient, topic: str) -> None:
    for byte in commands.pub(topic, b"slow"):
        client.send(bytes([byte]))
    client.expect_ok()

    client.sub(topic, "channel", 1)

    assert client.message().body == b"slow"


def test_publishes_of_all_kinds_keep_their_order(client: TcpClient, topic: str) -> None:
    client.send(
        commands.pub(topic, b"0"),
        commands.pub(topic, b"1"),
        commands.mpub(topic, [b"2", b"three"]),
        commands.pub("elsewhere", b"x"),
        commands.dpub(topic, 0, b"4"),
        commands.pub(topic, b"5"),
    )
    for _ in range(6):
        client.expect_ok()

    client.sub(topic, "channel", 10)

    assert [message.body for message in client.messages(6)] == [b"0", b"1", b"2", b"three", b"4", b"5"]


def test_longest_delay_is_accepted(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.send(commands.dpub(topic, 3_600_000, b"x"))
    client.expect_ok()

    client.sub(topic, "channel", 1)

    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel")[:3] == (0, 0, 1)


@pytest.mark.parametrize("delay", [b"", b"0", b"18446744073709551616"])
def test_no_delay_is_an_ordinary_publish(client: TcpClient, topic: str, delay: bytes) -> None:
    client.send(b"DPUB %b %b\n" % (topic.encode(), delay), record(b"x"))
    client.expect_ok()

    client.sub(topic, "channel", 1)

    assert client.message(1.0).body == b"x"


def test_delayed_message_of_a_new_channel_is_not_late(client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel", 1)
    begin = time.monotonic()

    client.send(commands.dpub(topic, 100, b"x"))
    client.expect_ok()

    client.message()
    assert 0.1 <= time.monotonic() - begin < 1.5


@pytest.mark.parametrize(
    ("declared", "count", "text"),
    [
        (0, 1, "invalid body size 0"),
        (-1, 1, "invalid body size -1"),
        (5_242_881, 1, "body too big 5242881 > 5242880"),
        (100, 0, "invalid message count 0"),
        (100, -1, "invalid message count -1"),
        (100, 1_048_576, "invalid message count 1048576"),
    ],
)
def test_mpub_out_of_range_is_refused(client: TcpClient, declared: int, count: int, text: str) -> None:
    client.send(mpub_of("t", declared, count))

    client.expect_fatal(f"E_BAD_BODY MPUB {text}")


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([record(b"")], "invalid message(0) body size 0"),
        ([record(b"good"), record(b"")], "invalid message(1) body size 0"),
        ([record(b"good"), size_of(-5)], "invalid message(1) body size -5"),
        ([record(b"good"), size_of(1_048_577)], "message too big 1048577 > 1048576"),
    ],
)
def test_wrong_message_in_an_mpub_stores_nothing(
    nsqd: NsqdFixture, client: TcpClient, topic: str, records: list[bytes], text: str
) -> None:
    client.send(mpub_of(topic, 4 + sum(map(len, records)), len(records), *records))

    client.expect_fatal(f"E_BAD_MESSAGE MPUB {text}")
    assert nsqd.call(lambda daemon: daemon.broker.topics[topic].core.depth) == 0


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"", "E_BAD_BODY MPUB failed to read body size"),
        (size_of(50), "E_BAD_BODY MPUB failed to read message count"),
        (size_of(50) + size_of(2), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
        (
            size_of(50) + size_of(2) + record(b"one"),
            "E_BAD_MESSAGE MPUB failed to read message(1) body size",
        ),
        (size_of(50) + size_of(2) + size_of(9) + b"one", "E_BAD_MESSAGE MPUB failed to read message body"),
    ],
)
def test_mpub_cut_short_is_refused(client: TcpClient, sent: bytes, text: str) -> None:
    client.send(b"MPUB t\n", sent)
    client.finish_sending()

    client.expect_fatal(text)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (1, "E_BAD_BODY MPUB failed to read message count"),
        (13, "E_BAD_MESSAGE MPUB failed to read message(1) body size"),
        (17, "E_BAD_MESSAGE MPUB failed to read message body"),
        (22, "E_BAD_BODY MPUB body size 22 does not match its messages"),
    ],
)
def test_mpub_whose_size_is_not_that_of_its_messages_is_refused(
    nsqd: NsqdFixture, client: TcpClient, topic: str, declared: int, text: str
) -> None:
    """NSQ looks at the messages only."""
    client.send(mpub_of(topic, declared, 2, record(b"one"), record(b"two")), b"NOP\n")

    client.expect_fatal(text)
    assert nsqd.call(lambda daemon: daemon.broker.topics[topic].core.depth) == 0


def test_line_of_an_mpub_makes_its_topic(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.send(b"MPUB %b\n" % topic.encode())

    eventually(lambda: has_topic(nsqd, topic))


@pytest.mark.parametrize("line", [b"PUB %b\n", b"DPUB %b 1\n"])
def test_line_of_a_pub_does_not_make_its_topic(
    nsqd: NsqdFixture, client: TcpClient, topic: str, line: bytes
) -> None:
    client.send(line % topic.encode())
    client.finish_sending()

    assert "failed to read message body size" in client.error()
    assert not has_topic(nsqd, topic)


def test_ids_are_16_hex_digits_that_increase(client: TcpClient, topic: str) -> None:
    client.mpub(topic, [b"x"] * 50)
    client.sub(topic, "channel", 50)

    ids = [message.id for message in client.messages(50)]

    assert ids == sorted(set(ids))
    assert all(message_id == b"%016x" % int(message_id, 16) for message_id in ids)


def test_channels_see_the_same_id_and_timestamp(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    consumers = [connect(nsqd), connect(nsqd)]
    for number, consumer in enumerate(consumers):
        consumer.sub(topic, f"c{number}", 1)
    before_ns = time.time_ns()

    connect(nsqd).pub(topic, b"x")

    one, other = (consumer.message() for consumer in consumers)
    assert one == other
    assert before_ns - 1_000_000_000 < one.timestamp_ns < time.time_ns() + 1_000_000_000


def test_too_many_topics_is_an_error_that_is_not_fatal(connect: Connect) -> None:
    with running_nsqd(max_topics=1) as nsqd:
        client = connect(nsqd)
        client.pub("one", b"x")

        client.send(commands.pub("two", b"x"), commands.mpub("two", [b"x"]), commands.dpub("two", 1, b"x"))

        for name in ("PUB", "MPUB", "DPUB"):
            assert client.error() == f"E_BAD_TOPIC {name} failed too many topics, --max-topics is 1"
        client.pub("one", b"x")
