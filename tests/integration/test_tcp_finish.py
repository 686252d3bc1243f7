"""FIN, REQ and TOUCH: whose message it is, and what becomes of it."""

import time

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from nsqlake.wire.received_message import Message
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import MS, eventually, figures, find_channel

UNKNOWN = b"0123456789abcdef"


def receive_one(client: TcpClient, topic: str) -> Message:
    client.pub(topic, b"x")
    client.sub(topic, "channel", 1)
    return client.message()


@pytest.mark.parametrize("line", [b"FIN " + UNKNOWN, b"REQ " + UNKNOWN + b" 0", b"TOUCH " + UNKNOWN])
def test_command_about_a_message_before_sub_is_refused(client: TcpClient, line: bytes) -> None:
    client.send(line, b"\n")

    client.expect_fatal(f"E_INVALID cannot {line.split()[0].decode()} in current state")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"FIN\n", "FIN insufficient number of params"),
        (b"TOUCH\n", "TOUCH insufficient number of params"),
        (b"REQ\n", "REQ insufficient number of params"),
        (b"REQ " + UNKNOWN + b"\n", "REQ insufficient number of params"),
        (b"FIN abc\n", "invalid message ID"),
        (b"FIN \n", "invalid message ID"),
        (b"FIN 0123456789abcdef0\n", "invalid message ID"),
        (b"FIN 0123456789abcde\r\n", "invalid message ID"),
        (b"FIN 01234567 9abcdef\n", "invalid message ID"),
        (b"TOUCH abc\n", "invalid message ID"),
        (b"REQ abc 0\n", "invalid message ID"),
        (b"REQ " + UNKNOWN + b" -1\n", "REQ could not parse timeout -1"),
        (b"REQ " + UNKNOWN + b" x\n", "REQ could not parse timeout x"),
    ],
)
def test_wrong_parameters_are_refused(client: TcpClient, topic: str, line: bytes, text: str) -> None:
    client.sub(topic, "channel")

    client.send(line)

    client.expect_fatal(f"E_INVALID {text}")


@pytest.mark.parametrize(
    ("line", "name"),
    [(b"FIN %b\n", "FIN"), (b"FIN %b\r\n", "FIN"), (b"REQ %b 0\n", "REQ"), (b"TOUCH %b\n", "TOUCH")],
)
def test_unknown_message_is_an_error_that_is_not_fatal(
    client: TcpClient, topic: str, line: bytes, name: str
) -> None:
    client.sub(topic, "channel")

    client.send(line % UNKNOWN)

    assert client.error() == f"E_{name}_FAILED {name} 0123456789abcdef failed ID not in flight"
    client.expect_nothing_so_far()


@pytest.mark.parametrize(
    ("message_id", "shown"),
    [
        (b"\x00" * 16, "\\x00" * 16),
        (b"\xff" * 16, "\\xff" * 16),
        (b"0x23456789abcdef", "0x23456789abcdef"),
        (b"0123456789ABCDEF", "0123456789ABCDEF"),
        (b"ffffffffffffffff", "ffffffffffffffff"),
        (b"+123456789abcdef", "+123456789abcdef"),
        (b"0_23456789abcdef", "0_23456789abcdef"),
    ],
)
def test_an_id_may_be_any_16_bytes(client: TcpClient, topic: str, message_id: bytes, shown: str) -> None:
    client.sub(topic, "channel")

    client.send(b"FIN " + message_id + b"\n")

    assert client.error() == f"E_FIN_FAILED FIN {shown} failed ID not in flight"


@pytest.mark.parametrize(
    ("line", "name"), [(b"FIN %b\n", "FIN"), (b"REQ %b 0\n", "REQ"), (b"TOUCH %b\n", "TOUCH")]
)
def test_message_of_another_client_is_left_alone(
    nsqd: NsqdFixture, connect: Connect, topic: str, line: bytes, name: str
) -> None:
    owner, other = connect(nsqd), connect(nsqd)
    message = receive_one(owner, topic)
    other.sub(topic, "channel")

    other.send(line % message.id)

    failed = f"E_{name}_FAILED {name} {message.id.decode()} failed client does not own message"
    assert other.error() == failed
    owner.fin(message)
    owner.expect_nothing_so_far()


def test_second_fin_of_a_message_fails(client: TcpClient, topic: str) -> None:
    message = receive_one(client, topic)

    client.fin(message, message)

    assert client.error() == f"E_FIN_FAILED FIN {message.id.decode()} failed ID not in flight"
    client.expect_nothing_so_far()


def test_wrong_fin_within_a_run_spoils_no_other(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.mpub(topic, [b"%d" % number for number in range(10)])
    client.sub(topic, "channel", 10)
    ids = [message.id for message in client.messages(10)]

    client.send(*(commands.fin(each) for each in [*ids[:5], UNKNOWN, *ids[5:], ids[0]]))

    assert client.error() == "E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"
    assert client.error() == f"E_FIN_FAILED FIN {ids[0].decode()} failed ID not in flight"
    client.expect_nothing_so_far()
    assert figures(nsqd, topic, "channel").in_flight == 0


def test_fin_after_the_timeout_fails_and_the_message_comes_again(connect: Connect) -> None:
    with running_nsqd(msg_timeout_ns=100 * MS) as nsqd:
        client = connect(nsqd)
        message = receive_one(client, "t")
        again = client.message()
        client.fin(again)
        eventually(lambda: figures(nsqd, "t", "channel").in_flight == 0)

        client.fin(message)

        assert (again.id, again.attempts) == (message.id, 2)
        assert client.error() == f"E_FIN_FAILED FIN {message.id.decode()} failed ID not in flight"
        assert figures(nsqd, "t", "channel").timed_out == 1


def test_requeued_message_comes_again_at_once(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    message = receive_one(client, topic)

    client.req(message)

    again = client.message()
    assert (again.id, again.body, again.timestamp_ns) == (message.id, message.body, message.timestamp_ns)
    assert again.attempts == 2
    assert figures(nsqd, topic, "channel").requeued == 1


def test_requeued_message_waits_for_its_delay(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    message = receive_one(client, topic)
    begin = time.monotonic()

    client.req(message, 300)
    eventually(lambda: figures(nsqd, topic, "channel").requeued == 1)

    assert figures(nsqd, topic, "channel")[:3] == (0, 0, 1)
    assert client.message().attempts == 2
    assert time.monotonic() - begin >= 0.3


def test_delay_of_a_requeue_is_cut_to_the_longest_allowed(connect: Connect) -> None:
    with running_nsqd(max_req_timeout_ns=200 * MS) as nsqd:
        client = connect(nsqd)
        message = receive_one(client, "t")
        begin = time.monotonic()

        client.req(message, 99_999_999)

        assert client.message().attempts == 2
        assert 0.2 <= time.monotonic() - begin < 5


def test_attempts_wrap_at_16_bits(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    message = receive_one(client, topic)
    client.req(message)
    client.message()

    def age(daemon: Daemon) -> None:
        attempts = find_channel(daemon, topic, "channel").core.ledger.attempts
        attempts.update(dict.fromkeys(attempts, 65_534))

    nsqd.call(age)

    seen = []
    for _ in range(4):
        client.req(message)
        seen.append(client.message().attempts)

    assert seen == [65_535, 0, 1, 2]


def test_touched_message_stays_with_its_consumer_up_to_the_limit(connect: Connect) -> None:
    with running_nsqd(msg_timeout_ns=300 * MS, max_msg_timeout_ns=800 * MS) as nsqd:
        client = connect(nsqd)
        message = receive_one(client, "t")
        begin = time.monotonic()

        again = None
        while again is None:
            try:
                again = client.message(0.1)
            except TimeoutError:
                client.touch(message)

        assert again.attempts == 2
        assert 0.75 <= time.monotonic() - begin < 3
        assert figures(nsqd, "t", "channel").timed_out == 1


def test_touch_does_not_shorten_anything(connect: Connect) -> None:
    with running_nsqd(msg_timeout_ns=300 * MS, max_msg_timeout_ns=300 * MS) as nsqd:
        client = connect(nsqd)
        message = receive_one(client, "t")
        begin = time.monotonic()

        client.touch(message)

        client.message()
        assert time.monotonic() - begin >= 0.29
