"""What statsd is told, in which datagrams, and when."""

import asyncio
import logging
import socket
from collections.abc import Iterator

import pytest

from nsqlake.nsqd.stats.statsd import StatsdTarget, expand_prefix, lines, packets, push_forever
from nsqlake.nsqd.stats.values import Latency, Percentile, Stats
from tests.nsqd.stats.support import channel_stats, memory, node_stats, topic_stats

SECOND_NS = 1_000_000_000


def said(previous: Stats | None, current: Stats, **options: bool) -> list[str]:
    return [line.decode().removesuffix("\n") for line in lines(previous, current, **options)]


@pytest.mark.parametrize(
    ("prefix", "host", "expanded"),
    [
        ("nsq.%s", "127.0.0.1", "nsq.127_0_0_1_4151."),
        ("nsq.%s.", "::1", "nsq.[__1]_4151."),
        ("%s-%s", "h", "h_4151-h_4151."),
        ("plain", "h", "plain."),
        ("", "h", ""),
    ],
)
def test_the_prefix_names_the_host_and_ends_with_a_point(prefix: str, host: str, expanded: str) -> None:
    assert expand_prefix(prefix, host, 4151) == expanded


def test_every_figure_has_a_line_in_nsqs_order() -> None:
    latency = Latency(1, [Percentile(0.999, 9), Percentile(0.955, 8)])
    channel = channel_stats(
        "c",
        message_count=1,
        depth=2,
        backend_depth=3,
        in_flight_count=4,
        deferred_count=5,
        requeue_count=6,
        timeout_count=7,
        client_count=8,
        e2e_processing_latency=latency,
    )
    topic = topic_stats(
        "t.x",
        channel,
        message_count=9,
        message_bytes=10,
        depth=11,
        backend_depth=12,
        e2e_processing_latency=latency,
    )

    assert said(None, node_stats(topic)) == [
        "topic.t.x.message_count:9|c",
        "topic.t.x.message_bytes:10|c",
        "topic.t.x.depth:11|g",
        "topic.t.x.backend_depth:12|g",
        "topic.t.x.e2e_processing_latency_100:9|g",
        "topic.t.x.e2e_processing_latency_96:8|g",
        "topic.t.x.channel.c.message_count:1|c",
        "topic.t.x.channel.c.depth:2|g",
        "topic.t.x.channel.c.backend_depth:3|g",
        "topic.t.x.channel.c.in_flight_count:4|g",
        "topic.t.x.channel.c.deferred_count:5|g",
        "topic.t.x.channel.c.requeue_count:6|c",
        "topic.t.x.channel.c.timeout_count:7|c",
        "topic.t.x.channel.c.clients:8|g",
        "topic.t.x.channel.c.e2e_processing_latency_100:9|g",
        "topic.t.x.channel.c.e2e_processing_latency_96:8|g",
    ]


def test_memory_comes_last_and_its_runs_are_a_counter() -> None:
    found = said(
        node_stats(memory=memory(gc_total_runs=5)), node_stats(memory=memory(heap_objects=1, gc_total_runs=7))
    )

    assert found == [
        "mem.heap_objects:1|g",
        "mem.heap_idle_bytes:0|g",
        "mem.heap_in_use_bytes:0|g",
        "mem.heap_released_bytes:0|g",
        "mem.gc_pause_usec_100:0|g",
        "mem.gc_pause_usec_99:0|g",
        "mem.gc_pause_usec_95:0|g",
        "mem.next_gc_bytes:0|g",
        "mem.gc_runs:2|c",
    ]


def test_counters_say_what_came_since_the_last_push() -> None:
    now = node_stats(topic_stats("t", channel_stats(message_count=3, requeue_count=1), message_count=3))

    first, second = said(None, now), said(now, now)

    assert "topic.t.message_count:3|c" in first
    assert "topic.t.channel.c.requeue_count:1|c" in first
    assert "topic.t.message_count:0|c" in second
    assert "topic.t.channel.c.requeue_count:0|c" in second
    assert "topic.t.channel.c.message_count:0|c" in second


def test_a_topic_that_was_made_again_counts_from_the_beginning() -> None:
    before, now = node_stats(topic_stats(message_count=10)), node_stats(topic_stats(message_count=4))

    assert said(before, now)[0] == "topic.t.message_count:4|c"


def test_a_topic_or_channel_that_is_new_counts_whole() -> None:
    before = node_stats(topic_stats("a"), topic_stats("b"))
    now = node_stats(topic_stats("b", channel_stats(message_count=2)), topic_stats("c", message_count=5))

    found = said(before, now)

    assert "topic.b.channel.c.message_count:2|c" in found
    assert "topic.c.message_count:5|c" in found


def test_ephemeral_ones_can_be_left_out() -> None:
    stats = node_stats(
        topic_stats("gone#ephemeral", channel_stats("c")),
        topic_stats("t", channel_stats("c#ephemeral"), channel_stats("kept")),
    )

    with_them, without = said(None, stats), said(None, stats, exclude_ephemeral=True)

    assert "topic.gone#ephemeral.channel.c.depth:0|g" in with_them
    assert "topic.t.channel.c#ephemeral.depth:0|g" in with_them
    assert not any("#ephemeral" in line for line in without)
    assert "topic.t.channel.kept.depth:0|g" in without


def test_the_prefix_stands_before_every_line() -> None:
    first = next(lines(None, node_stats(topic_stats()), prefix="nsq.h."))

    assert first == b"nsq.h.topic.t.message_count:0|c\n"


def test_datagrams_are_full_but_never_split_a_line() -> None:
    assert list(packets([b"aaa\n", b"bb\n", b"c\n", b"dddd\n"], 7)) == [b"aaa\nbb\n", b"c\ndddd\n"]


def test_a_line_too_long_for_a_datagram_goes_alone() -> None:
    assert list(packets([b"a\n", b"bbbbbbbbb\n", b"c\n"], 4)) == [b"a\n", b"bbbbbbbbb\n", b"c\n"]
    assert list(packets([], 4)) == []


# Sending ----------------------------------------------------------------------------------------------


class Sleeps:
    """Time that passes at once, until it has been slept so often."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        if len(self.slept) == self.limit:
            raise asyncio.CancelledError
        self.slept.append(round(seconds, 6))
        for _ in range(3):  # turns of the loop, in which the network speaks
            await asyncio.sleep(0)


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        yield receiver


def push(address: str, snapshots: list[Stats], sleeps: Sleeps, packet_bytes: int = 508) -> None:
    target = StatsdTarget(
        address=address, prefix="nsq.", interval_ns=11 * SECOND_NS, packet_bytes=packet_bytes
    )
    remaining = iter(snapshots)

    async def take() -> Stats:
        return next(remaining)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(push_forever(target, take, sleep=sleeps))


def test_the_second_push_has_the_change_since_the_first(receiver: socket.socket) -> None:
    address = f"127.0.0.1:{receiver.getsockname()[1]}"
    stats = node_stats(topic_stats(message_count=3))

    push(address, [stats, stats], Sleeps(4))

    assert receiver.recv(1000).startswith(b"nsq.topic.t.message_count:3|c\n")
    assert receiver.recv(1000).startswith(b"nsq.topic.t.message_count:0|c\n")


def test_datagrams_are_spread_evenly_and_pushes_keep_the_interval(receiver: socket.socket) -> None:
    address = f"127.0.0.1:{receiver.getsockname()[1]}"
    sleeps = Sleeps(6)
    stats = node_stats(topic_stats())

    push(address, [stats, stats], sleeps, packet_bytes=1)

    # One interval before the first push, ten seconds for its four lines, the quiet second.
    assert sleeps.slept == [11.0, 2.5, 2.5, 2.5, 2.5, 1.0]


def test_a_statsd_that_is_not_there_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    stats = node_stats(topic_stats())

    with caplog.at_level(logging.INFO):
        push(address, [stats] * 3, Sleeps(6), packet_bytes=10_000)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith(f"STATSD({address}): push failed, will be tried again: ")


@pytest.mark.parametrize("address", ["nowhere.invalid:8125", "127.0.0.1:no-such-service", "127.0.0.1"])
def test_an_address_that_cannot_be_is_logged_once(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        push(address, [node_stats(topic_stats())] * 3, Sleeps(3))

    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith(f"STATSD({address}): push failed")


def test_it_says_when_it_pushes_again(caplog: pytest.LogCaptureFixture, receiver: socket.socket) -> None:
    port = receiver.getsockname()[1]
    receiver.close()
    stats = node_stats(topic_stats())
    opened: list[socket.socket] = []

    class Opening(Sleeps):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            if len(self.slept) == 2:
                again = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                again.bind(("127.0.0.1", port))
                opened.append(again)

    with caplog.at_level(logging.INFO):
        push(f"127.0.0.1:{port}", [stats] * 3, Opening(5), packet_bytes=10_000)

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    opened[0].close()
