"""Magic, command lines, and how a connection ends."""

from collections.abc import Iterator

import pytest

from nsqlake.nsqd.option_choices import AckAfter
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import eventually


def test_another_protocol_is_refused(nsqd: NsqdFixture, connect: Connect) -> None:
    client = connect(nsqd, magic=b"  V1")

    client.expect_fatal("E_BAD_PROTOCOL")


def test_magic_may_come_byte_by_byte(nsqd: NsqdFixture, connect: Connect) -> None:
    client = connect(nsqd, magic=b"")

    for position in range(4):
        client.send(commands.MAGIC_V2[position : position + 1])

    client.expect_nothing_so_far()


def test_nothing_is_said_to_a_client_with_half_a_magic(nsqd: NsqdFixture, connect: Connect) -> None:
    client = connect(nsqd, magic=b"  V")

    client.expect_silence(0.1)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"FOO\n", "FOO"),
        (b"FOO bar\n", "FOO"),
        (b"\n", ""),
        (b"\r\n", ""),
        (b"nop\n", "nop"),
        (b" NOP\n", ""),
        (b"NOP\r\r\n", "NOP\\x0d"),
        (b"\xff\x00\n", "\\xff\\x00"),
        (b"A" * 16_383 + b"\n", "A" * 64),
    ],
)
def test_unknown_command_is_refused(client: TcpClient, line: bytes, shown: str) -> None:
    client.send(line)

    client.expect_fatal(f"E_INVALID invalid command {shown}")


@pytest.mark.parametrize("line", [b"NOP\n", b"NOP\r\n", b"NOP with parameters\n"])
def test_nop_is_not_answered(client: TcpClient, line: bytes) -> None:
    client.send(line)

    client.expect_nothing_so_far()


def test_line_of_more_than_16_kib_ends_the_connection_without_a_frame(client: TcpClient) -> None:
    client.send(b"A" * 16_384 + b"\n")

    client.expect_end()


def test_line_without_an_end_ends_the_connection_without_a_frame(client: TcpClient) -> None:
    client.send(b"A" * 16_385)

    client.expect_end()


def test_end_of_input_within_a_line_ends_the_connection_without_a_frame(client: TcpClient) -> None:
    client.send(b"PUB half-a-l")
    client.finish_sending()

    client.expect_end()


def test_a_refused_client_that_closes_gets_one_error_only(client: TcpClient, topic: str) -> None:
    client.send(b"PUB %b\n" % topic.encode(), b"\x00\x00\x00\x00")
    client.finish_sending()

    client.expect_fatal("E_BAD_MESSAGE PUB invalid message body size 0")


def test_refused_client_that_closes_is_forgotten_at_once(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        client.send(b"FOO\n")
        client.expect_fatal("E_INVALID invalid command FOO")

        client.close()

        eventually(lambda: nsqd.call(lambda daemon: not daemon.connections), limit_s=0.5)


def test_refused_client_that_does_not_close_is_cut_off(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)

        client.send(b"FOO\n")

        client.expect_fatal("E_INVALID invalid command FOO")
        eventually(lambda: nsqd.call(lambda daemon: not daemon.connections), limit_s=3)


@pytest.fixture(scope="module", params=[AckAfter.WRITE, AckAfter.SYNC])
def any_ack(request: pytest.FixtureRequest) -> Iterator[NsqdFixture]:
    """An nsqd whose publishes are answered at once, and one where they wait for the disk."""
    with running_nsqd(ack_after=request.param) as nsqd:
        yield nsqd


def test_commands_before_a_half_close_are_answered(
    any_ack: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(any_ack)

    client.send(commands.pub(topic, b"one"), commands.pub(topic, b"two"))
    client.finish_sending()

    client.expect_ok()
    client.expect_ok()
    client.expect_end()


def test_commands_behind_a_fatal_error_are_ignored(
    any_ack: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(any_ack)

    client.send(commands.pub(topic, b"one"), b"FOO\n", commands.pub(topic, b"two"))

    client.expect_ok()
    client.expect_fatal("E_INVALID invalid command FOO")
    assert any_ack.call(lambda daemon: daemon.broker.topics[topic].core.depth) == 1


def test_answers_come_in_the_order_of_their_commands(
    any_ack: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(any_ack)
    client.sub(topic, "channel")
    unknown = b"0123456789abcdef"

    client.send(commands.pub(topic, b"x"), commands.fin(unknown), commands.pub(topic, b"y"), commands.cls())

    client.expect_ok()
    assert client.error() == "E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"
    client.expect_ok()
    client.expect_close_wait()


def test_commands_that_wait_come_in_order_with_those_that_do_not(
    any_ack: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(any_ack)

    client.send(
        commands.pub(topic, b"x"),
        commands.identify({"feature_negotiation": True}),
        commands.mpub(topic, [b"y"]),
        commands.sub(topic, "channel"),
        commands.pub(topic, b"z"),
        commands.identify({}),
    )

    client.expect_ok()
    assert client.response().startswith(b'{"max_rdy_count":')
    for _ in range(3):
        client.expect_ok()
    client.expect_fatal("E_INVALID cannot IDENTIFY in current state")
