"""SUB: its parameters, its limits, and channels that come and go."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.loop_turns import next_turn, wait_until
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures, find_channel, has_channel, has_topic


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"SUB\n", "E_INVALID SUB insufficient number of parameters"),
        (b"SUB t\n", "E_INVALID SUB insufficient number of parameters"),
        (b"SUB t  c\n", 'E_BAD_CHANNEL SUB channel name "" is not valid'),
        (b"SUB t c!\n", 'E_BAD_CHANNEL SUB channel name "c!" is not valid'),
        (b"SUB  c\n", 'E_BAD_TOPIC SUB topic name "" is not valid'),
        (b'SUB t"x c\n', 'E_BAD_TOPIC SUB topic name "t\\"x" is not valid'),
        (b"SUB t\xff c\n", 'E_BAD_TOPIC SUB topic name "t\\xff" is not valid'),
        (b"SUB #ephemeral c\n", 'E_BAD_TOPIC SUB topic name "#ephemeral" is not valid'),
        (b"SUB t\rx c\n", 'E_BAD_TOPIC SUB topic name "t\\rx" is not valid'),
        (b"SUB " + b"a" * 65 + b" c\n", f'E_BAD_TOPIC SUB topic name "{"a" * 64}" is not valid'),
    ],
)
def test_wrong_parameters_are_refused(client: TcpClient, line: bytes, text: str) -> None:
    client.send(line)

    client.expect_fatal(text)


def test_ephemeral_suffix_counts_for_the_length_of_a_name(nsqd: NsqdFixture, connect: Connect) -> None:
    longest, too_long = "a" * 54 + "#ephemeral", "a" * 55 + "#ephemeral"
    one, other = connect(nsqd), connect(nsqd)

    one.sub(longest, "channel")
    other.send(f"SUB {too_long} channel\n".encode())

    other.expect_fatal(f'E_BAD_TOPIC SUB topic name "{too_long[:64]}" is not valid')


def test_extra_parameters_are_ignored(client: TcpClient, topic: str) -> None:
    client.send(f"SUB {topic} channel extra\n".encode())

    client.expect_ok()


def test_sub_needs_heartbeats(client: TcpClient, topic: str) -> None:
    client.identify_raw(b'{"heartbeat_interval":-1}')
    client.expect_ok()

    client.send(commands.sub(topic, "channel"))

    client.expect_fatal("E_INVALID cannot SUB with heartbeats disabled")


def test_second_sub_is_refused(client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel")

    client.send(commands.sub(topic, "channel"))

    client.expect_fatal("E_INVALID cannot SUB in current state")


def test_consumers_beyond_the_limit_are_refused(connect: Connect) -> None:
    with running_nsqd(max_channel_consumers=2) as nsqd:
        connect(nsqd).sub("mc", "c")
        connect(nsqd).sub("mc", "c")
        third = connect(nsqd)

        third.send(commands.sub("mc", "c"))

        third.expect_fatal("E_SUB_FAILED SUB failed consumers for mc:c exceeds limit of 2")


def test_place_of_a_consumer_that_left_is_free_again(connect: Connect) -> None:
    with running_nsqd(max_channel_consumers=1) as nsqd:
        first = connect(nsqd)
        first.sub("mc", "c")

        first.close()
        eventually(lambda: figures(nsqd, "mc", "c").consumers == 0)

        connect(nsqd).sub("mc", "c")


def test_topics_beyond_the_limit_are_refused(connect: Connect) -> None:
    with running_nsqd(max_topics=1) as nsqd:
        connect(nsqd).sub("one", "c")
        client = connect(nsqd)

        client.send(commands.sub("two", "c"))

        client.expect_fatal("E_BAD_TOPIC SUB failed too many topics, --max-topics is 1")


def test_client_that_is_dropped_before_its_sub_is_done_leaves_no_consumer(connect: Connect) -> None:
    async def drop_when_the_channel_is_being_made(daemon: Daemon) -> None:
        await wait_until(lambda: "t" in daemon.broker.topics and "c" in daemon.broker.topics["t"].channels)
        for connection in list(daemon.connections):
            connection.drop()
        await wait_until(
            lambda: find_channel(daemon, "t", "c").created is None and not len(daemon.connections)
        )
        await next_turn()

    with running_nsqd() as nsqd, ThreadPoolExecutor(1) as pool:
        client = connect(nsqd)
        dropped = pool.submit(nsqd.call, drop_when_the_channel_is_being_made)

        client.send(commands.sub("t", "c"))
        dropped.result()

        client.expect_end()
        assert figures(nsqd, "t", "c").consumers == 0


def test_ephemeral_channel_goes_with_its_last_consumer(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    one, other = connect(nsqd), connect(nsqd)
    one.sub(topic, "c#ephemeral")
    other.sub(topic, "c#ephemeral")

    one.close()
    eventually(lambda: figures(nsqd, topic, "c#ephemeral").consumers == 1)
    other.close()

    eventually(lambda: not has_channel(nsqd, topic, "c#ephemeral"))
    assert has_topic(nsqd, topic)


def test_ephemeral_topic_goes_with_its_last_channel(nsqd: NsqdFixture, client: TcpClient) -> None:
    client.sub("t#ephemeral", "c#ephemeral")

    client.close()

    eventually(lambda: not has_topic(nsqd, "t#ephemeral"))


def test_ephemeral_topic_can_be_had_again_at_once(nsqd: NsqdFixture, connect: Connect) -> None:
    for number in range(50):
        client = connect(nsqd)
        client.sub("again#ephemeral", "c#ephemeral", 1)
        client.send(commands.pub("again#ephemeral", b"%d" % number))

        assert {client.frame() is None, client.frame() is None} == {False}
        client.close()
