"""How messages flow from topics to channels to consumers, through pauses, emptying and deletion."""

import time

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import (
    MS,
    ChannelFigures,
    eventually,
    figures,
    find_channel,
    find_topic,
    has_channel,
    has_topic,
    pause,
)


def test_first_channel_gets_the_backlog_and_later_ones_what_follows(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    producer = connect(nsqd)
    producer.pub(topic, b"1", b"2", b"3")

    connect(nsqd).sub(topic, "a")
    connect(nsqd).sub(topic, "b")
    producer.pub(topic, b"4")

    assert figures(nsqd, topic, "a").depth == 4
    assert figures(nsqd, topic, "b").depth == 1


def test_consumer_that_dies_gives_its_messages_back_at_once(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    """NSQ lets them time out first."""
    dying, other = connect(nsqd), connect(nsqd)
    dying.sub(topic, "channel", 2)
    connect(nsqd).pub(topic, b"1", b"2")
    first = dying.messages(2)

    dying.close()
    other.sub(topic, "channel", 2)

    assert [(m.id, m.attempts) for m in other.messages(2)] == [(m.id, 2) for m in first]
    assert figures(nsqd, topic, "channel").timed_out == 0


def test_refused_consumer_gives_its_messages_back_at_once(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    refused, other = connect(nsqd), connect(nsqd)
    refused.sub(topic, "channel", 2)
    other.sub(topic, "channel")
    other.pub(topic, b"1")
    refused.message()

    refused.send(b"FOO\n")
    refused.expect_fatal("E_INVALID invalid command FOO")
    other.send(commands.rdy(1))

    assert other.message(0.5).attempts == 2


def test_nothing_is_sent_to_a_refused_consumer_that_stays(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    refused, producer = connect(nsqd), connect(nsqd)
    refused.sub(topic, "channel", 2500)

    refused.send(b"FOO\n")
    assert refused.error() == "E_INVALID invalid command FOO"
    producer.pub(topic, b"x")

    refused.expect_end()
    assert figures(nsqd, topic, "channel")[:2] == (1, 0)


def test_emptied_channel_forgets_everything_and_goes_on(
    nsqd: NsqdFixture, client: TcpClient, connect: Connect, topic: str
) -> None:
    client.pub(topic, b"1", b"2", b"3")
    client.send(commands.dpub(topic, 60_000, b"later"))
    client.expect_ok()
    client.sub(topic, "channel", 1)
    message = client.message()
    assert figures(nsqd, topic, "channel")[:3] == (2, 1, 1)

    nsqd.call(lambda daemon: daemon.broker.empty_channel(find_channel(daemon, topic, "channel")))

    assert figures(nsqd, topic, "channel") == ChannelFigures(consumers=1)
    client.fin(message)
    assert client.error() == f"E_FIN_FAILED FIN {message.id.decode()} failed ID not in flight"
    connect(nsqd).pub(topic, b"next")
    assert client.message().body == b"next"


def test_emptied_topic_leaves_its_channels_alone(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel")
    client.pub(topic, b"1", b"2")
    pause(nsqd, topic)
    client.pub(topic, b"3")

    nsqd.call(lambda daemon: daemon.broker.empty_topic(find_topic(daemon, topic)))

    assert nsqd.call(lambda daemon: find_topic(daemon, topic).core.depth) == 0
    assert figures(nsqd, topic, "channel").depth == 2
    pause(nsqd, topic, paused=False)
    assert figures(nsqd, topic, "channel").depth == 2


def test_consumers_of_a_deleted_channel_are_disconnected(
    nsqd: NsqdFixture, client: TcpClient, topic: str
) -> None:
    client.sub(topic, "channel", 1)

    nsqd.call(lambda daemon: daemon.broker.delete_channel(find_channel(daemon, topic, "channel")))

    client.expect_end()
    assert not has_channel(nsqd, topic, "channel")


def test_consumers_of_a_deleted_topic_are_disconnected_and_a_publish_makes_it_again(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    consumer, producer = connect(nsqd), connect(nsqd)
    consumer.sub(topic, "channel", 1)
    producer.pub(topic, b"old")

    nsqd.call(lambda daemon: daemon.broker.delete_topic(find_topic(daemon, topic)))
    producer.pub(topic, b"new")

    assert consumer.message().body == b"old"
    consumer.expect_end()
    assert nsqd.call(lambda daemon: find_topic(daemon, topic).core.depth) == 1


def test_publish_to_a_topic_that_is_being_deleted_fails_and_is_not_fatal(
    nsqd: NsqdFixture, client: TcpClient, topic: str
) -> None:
    client.pub(topic, b"x")

    def begin_deleting(daemon: Daemon) -> None:
        find_topic(daemon, topic).core.is_closed = True

    nsqd.call(begin_deleting)
    client.send(commands.pub(topic, b"x"), commands.mpub(topic, [b"x"]), commands.dpub(topic, 9, b"x"))

    for name in ("PUB", "MPUB", "DPUB"):
        assert client.error() == f"E_{name}_FAILED {name} failed exiting"
    client.send(commands.sub(topic, "channel"))
    client.expect_fatal("E_SUB_FAILED SUB failed exiting")


def test_durable_channel_keeps_an_ephemeral_topic(nsqd: NsqdFixture, client: TcpClient) -> None:
    client.sub("kept#ephemeral", "durable")
    client.close()
    eventually(lambda: figures(nsqd, "kept#ephemeral", "durable").consumers == 0)

    assert has_topic(nsqd, "kept#ephemeral")
    nsqd.call(lambda daemon: daemon.broker.delete_channel(find_channel(daemon, "kept#ephemeral", "durable")))
    assert not has_topic(nsqd, "kept#ephemeral")


@pytest.mark.parametrize("topic", ["t", "t#ephemeral"])
def test_ephemeral_channel_keeps_no_more_than_its_share(connect: Connect, topic: str) -> None:
    """NSQ keeps the oldest, we keep the newest."""
    with running_nsqd(mem_queue_size=2) as nsqd:
        consumer = connect(nsqd)
        consumer.sub(topic, "c#ephemeral")

        connect(nsqd).pub(topic, *(b"%d" % number for number in range(10)))

        eventually(lambda: figures(nsqd, topic, "c#ephemeral").depth == 2)
        count = nsqd.call(lambda daemon: find_channel(daemon, topic, "c#ephemeral").core.message_count)
        assert count == 10
        consumer.send(commands.rdy(5))
        assert [message.body for message in consumer.messages(2)] == [b"8", b"9"]


def test_what_is_not_in_memory_is_backend_depth(connect: Connect) -> None:
    with running_nsqd(mem_queue_size=2) as nsqd:
        connect(nsqd).pub("t", *(b"%d" % number for number in range(10)))

        core = nsqd.call(lambda daemon: find_topic(daemon, "t").core)

        assert (core.depth, core.backend_depth) == (10, 8)


def test_delays_outlive_a_full_memory(connect: Connect) -> None:
    """NSQ forgets the delay of what does not fit into memory."""
    with running_nsqd(mem_queue_size=2) as nsqd:
        client = connect(nsqd)
        client.send(*[commands.dpub("t", 60_000, b"later")] * 4)
        for _ in range(4):
            client.expect_ok()

        client.sub("t", "c", 10)

        client.expect_nothing_so_far()
        assert figures(nsqd, "t", "c")[:3] == (0, 0, 4)


def test_delay_runs_from_the_publish(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    """In NSQ it runs from the moment a channel gets the message."""
    producer, consumer = connect(nsqd), connect(nsqd)
    begin = time.monotonic()
    producer.send(commands.dpub(topic, 700, b"x"))
    producer.expect_ok()

    producer.expect_silence(0.5)
    consumer.sub(topic, "channel", 1)

    assert consumer.message().attempts == 1
    assert 0.7 <= time.monotonic() - begin < 1.15


def test_paused_topic_keeps_messages_from_its_channels(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    consumer, producer = connect(nsqd), connect(nsqd)
    producer.pub(topic, b"before")
    consumer.sub(topic, "channel")
    pause(nsqd, topic)

    producer.pub(topic, b"during")
    consumer.send(commands.rdy(5))

    assert consumer.message().body == b"before"
    consumer.expect_nothing_so_far()
    pause(nsqd, topic, paused=False)
    assert consumer.message().body == b"during"


def test_paused_channel_delivers_nothing_but_takes_fins(
    nsqd: NsqdFixture, client: TcpClient, connect: Connect, topic: str
) -> None:
    client.pub(topic, b"1", b"2")
    client.sub(topic, "channel", 1)
    message = client.message()

    pause(nsqd, topic, "channel")
    client.fin(message)
    connect(nsqd).pub(topic, b"3")
    client.expect_nothing_so_far()

    assert figures(nsqd, topic, "channel")[:2] == (2, 0)
    pause(nsqd, topic, "channel", paused=False)
    assert client.message().body == b"2"


def test_pausing_a_channel_sends_what_was_held_back(
    nsqd: NsqdFixture, client: TcpClient, connect: Connect, topic: str
) -> None:
    client.identify(output_buffer_timeout=-1)
    client.sub(topic, "channel", 5)
    connect(nsqd).pub(topic, b"held back")
    eventually(lambda: figures(nsqd, topic, "channel").in_flight == 1)

    pause(nsqd, topic, "channel")

    assert client.message(2.0).body == b"held back"


def test_message_times_out_while_its_channel_is_paused(connect: Connect) -> None:
    with running_nsqd(msg_timeout_ns=100 * MS) as nsqd:
        client = connect(nsqd)
        client.pub("t", b"x")
        client.sub("t", "c", 1)
        client.message()
        pause(nsqd, "t", "c")

        eventually(lambda: figures(nsqd, "t", "c").timed_out == 1)

        client.expect_nothing_so_far()
        assert figures(nsqd, "t", "c")[:2] == (1, 0)
        pause(nsqd, "t", "c", paused=False)
        assert client.message().attempts == 2


def test_timed_out_message_goes_to_another_consumer_too(connect: Connect) -> None:
    with running_nsqd(msg_timeout_ns=100 * MS) as nsqd:
        holder, other = connect(nsqd), connect(nsqd)
        holder.pub("t", b"x")
        holder.sub("t", "c", 1)
        first = holder.message()
        holder.send(commands.rdy(0))
        other.sub("t", "c", 1)

        second = other.message()

        assert (second.id, second.attempts) == (first.id, 2)
        holder.fin(first)
        assert holder.error().endswith("failed client does not own message")


def test_fin_and_timeout_at_the_same_moment_have_one_winner(connect: Connect) -> None:
    """Every message is finished once, whoever wins, and none is lost."""
    with running_nsqd(msg_timeout_ns=20 * MS) as nsqd:
        client = connect(nsqd)
        client.mpub("t", [b"%d" % number for number in range(300)])
        client.sub("t", "c", 50)
        finished: set[bytes] = set()
        held = []

        while len(finished) < 300:
            try:
                frame = client.frame(0.02)
            except TimeoutError:
                frame = None
            if frame is not None and frame.type == 2:
                held.append(frame.payload[10:26])
            if len(held) >= 40 or frame is None:
                client.send(*(commands.fin(each) for each in held))
                finished.update(held)
                held.clear()

        eventually(lambda: finish_or_drain(nsqd, client))
        assert figures(nsqd, "t", "c")[:3] == (0, 0, 0)


def finish_or_drain(nsqd: NsqdFixture, client: TcpClient) -> bool:
    try:
        frame = client.frame(0.05)
    except TimeoutError:
        return figures(nsqd, "t", "c")[:3] == (0, 0, 0)
    assert frame is not None
    if frame.type == 2:
        client.send(commands.fin(frame.payload[10:26]))
    return False
