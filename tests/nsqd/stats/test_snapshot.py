"""The figures of a running nsqd, taken while real clients use it."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.stats.snapshot import Query
from nsqlake.nsqd.stats.values import Latency, Percentile
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.integration.support import eventually, find_channel, pause
from tests.nsqd.stats.conftest import Connect
from tests.nsqd.stats.support import channel_of, node_of, taken, topic_of

MS = 1_000_000
SECOND_NS = 1_000_000_000


@pytest.fixture
def fresh() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


# What there is and what is null -----------------------------------------------------------------------


def test_a_daemon_without_topics_has_an_empty_list_and_no_producers(fresh: NsqdFixture) -> None:
    stats = taken(fresh)

    assert (stats.topics, stats.producers, stats.health, stats.version) == ([], None, "OK", "1.3.0")
    assert stats.memory is not UNSET
    assert stats.draining is False


def test_an_unknown_topic_is_null(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    connect(nsqd).pub(topic, b"x")

    stats = taken(nsqd, topic="nope")

    assert (stats.topics, stats.producers) == (None, None)


def test_an_unknown_channel_of_a_known_topic_is_an_empty_list(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(nsqd)
    client.pub(topic, b"x")

    stats = taken(nsqd, topic=topic, channel="nope")

    assert stats.topics == []
    assert stats.producers


def test_a_channel_alone_keeps_the_topics_that_have_it(fresh: NsqdFixture, connect: Connect) -> None:
    for topic, channel in (("b", "x"), ("a", "x"), ("c", "y")):
        connect(fresh).sub(topic, channel)
    connect(fresh).sub("a", "y")

    stats = taken(fresh, channel="x")

    assert stats.topics is not None
    found = [
        (topic.topic_name, [channel.channel_name for channel in topic.channels]) for topic in stats.topics
    ]
    assert found == [("a", ["x"]), ("b", ["x"])]


def test_topics_and_channels_are_sorted_by_name(fresh: NsqdFixture, connect: Connect) -> None:
    for topic, channel in (("b", "z"), ("a", "x"), ("b", "y")):
        connect(fresh).sub(topic, channel)

    stats = taken(fresh)

    assert stats.topics is not None
    found = [
        (topic.topic_name, [channel.channel_name for channel in topic.channels]) for topic in stats.topics
    ]
    assert found == [("a", ["x"]), ("b", ["y", "z"])]


def test_without_clients_there_are_none_but_they_are_counted(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(nsqd)
    client.sub(topic, "c")
    client.pub(topic, b"x")

    stats = taken(nsqd, topic=topic, include_clients=False)

    assert stats.topics is not None
    channel = stats.topics[0].channels[0]
    assert (channel.clients, channel.client_count, stats.producers) == (None, 1, None)


def test_memory_can_be_left_out(nsqd: NsqdFixture) -> None:
    assert taken(nsqd, include_memory=False).memory is UNSET


def test_a_draining_daemon_says_so(fresh: NsqdFixture) -> None:
    fresh.call(lambda daemon: daemon.broker.start_drain())

    assert taken(fresh).draining is True


def test_a_daemon_that_is_not_well_says_why(fresh: NsqdFixture) -> None:
    def break_something(daemon: Daemon) -> None:
        daemon.broker.failure = "TOPIC(x): no"

    fresh.call(break_something)

    assert taken(fresh).health == "NOK - TOPIC(x): no"


# Figures ----------------------------------------------------------------------------------------------


def test_publishes_are_counted_and_wait_in_the_topic(connect: Connect) -> None:
    with running_nsqd(mem_queue_size=2) as nsqd:
        connect(nsqd).pub("t", *([b"12345"] * 10))

        topic = topic_of(nsqd, "t")

    assert (topic.depth, topic.backend_depth) == (10, 8)
    assert (topic.message_count, topic.message_bytes, topic.channels) == (10, 50, [])
    assert topic.e2e_processing_latency == Latency(0, None)


def test_a_channel_counts_what_is_out_deferred_and_requeued(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client, producer = connect(nsqd), connect(nsqd)
    client.sub(topic, "c", 1)
    producer.pub(topic, b"first")
    client.req(client.message(), 60_000)
    producer.pub(topic, b"second", b"third")
    client.message()

    channel = channel_of(nsqd, topic, "c")

    assert (channel.depth, channel.in_flight_count, channel.deferred_count) == (1, 1, 1)
    assert (channel.message_count, channel.requeue_count, channel.timeout_count) == (3, 1, 0)
    assert (channel.client_count, channel.paused, channel.dead_count) == (1, False, 0)


def test_pauses_are_shown(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    connect(nsqd).sub(topic, "c")
    pause(nsqd, topic)
    pause(nsqd, topic, "c")

    found = topic_of(nsqd, topic)

    assert found.paused is True
    assert found.channels[0].paused is True


def test_deliveries_are_counted_by_locality(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    plain, local = connect(nsqd), connect(nsqd)
    local.identify()
    plain.sub(topic, "global", 1)
    local.sub(topic, "zone", 1)
    connect(nsqd).pub(topic, b"x")
    eventually(lambda: topic_of(nsqd, topic).channels[1].in_flight_count == 1)

    everywhere, zone = topic_of(nsqd, topic).channels

    assert (everywhere.zone_local_msg_count, everywhere.global_msg_count) == (0, 1)
    assert (zone.zone_local_msg_count, zone.global_msg_count) == (1, 0)


def test_without_a_memory_queue_deliveries_have_no_locality(connect: Connect) -> None:
    with running_nsqd(mem_queue_size=0) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 2)
        connect(nsqd).pub("t", b"x")
        client.message()

        encoded = msgspec.json.encode(channel_of(nsqd, "t", "c"))

    assert b"_msg_count" not in encoded


def test_sampling_leaves_nothing_behind(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    client = connect(nsqd)
    client.identify(sample_rate=1)
    client.sub(topic, "c", 2500)
    connect(nsqd).mpub(topic, [b"x"] * 2000)

    eventually(lambda: channel_of(nsqd, topic, "c").depth == 0)

    channel = channel_of(nsqd, topic, "c")
    assert channel.message_count == 2000
    assert 5 <= channel.in_flight_count <= 120


# The log ----------------------------------------------------------------------------------------------


def test_the_log_says_where_it_begins_and_ends(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    connect(nsqd).pub(topic, b"x", b"y")

    log = topic_of(nsqd, topic).log

    assert log.next == log.first + 2
    assert (log.segments, log.damaged_blocks) == (1, 0)
    assert log.bytes > 100


def test_an_ephemeral_topic_has_no_files(nsqd: NsqdFixture, connect: Connect) -> None:
    connect(nsqd).pub("t#ephemeral", b"x")

    log = topic_of(nsqd, "t#ephemeral").log

    assert (log.next - log.first, log.bytes, log.segments, log.unsynced_messages) == (1, 0, 0, 0)


def test_what_a_loss_of_power_would_take_is_counted(connect: Connect) -> None:
    with running_nsqd(sync_timeout_ns=3600 * SECOND_NS, sync_every=1_000_000) as nsqd:
        connect(nsqd).pub("t", b"x", b"y", b"z")
        before = topic_of(nsqd, "t").log.unsynced_messages

        nsqd.call(lambda daemon: daemon.broker.topics["t"].request_sync())
        eventually(lambda: topic_of(nsqd, "t").log.unsynced_messages == 0)

    assert before == 3


def test_a_log_is_synced_after_so_many_messages_written_and_not_read(connect: Connect) -> None:
    with running_nsqd(sync_timeout_ns=3600 * SECOND_NS, sync_every=3) as nsqd:
        producer, consumer = connect(nsqd), connect(nsqd)
        producer.pub("t", b"x", b"y")
        consumer.sub("t", "c", 10)
        consumer.fin(*consumer.messages(2))
        eventually(lambda: topic_of(nsqd, "t").channels[0].depth == 0)
        before = topic_of(nsqd, "t").log.unsynced_messages
        producer.pub("t", b"z")

        eventually(lambda: topic_of(nsqd, "t").log.unsynced_messages == 0)

    assert before == 2


def test_syncs_are_timed(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    connect(nsqd).pub(topic, b"x")
    before = nsqd.call(lambda daemon: daemon.broker.timings.sync.count)

    nsqd.call(lambda daemon: daemon.broker.topics[topic].request_sync())

    eventually(lambda: nsqd.call(lambda daemon: daemon.broker.timings.sync.count) > before)


def damage(path: Path, body: bytes) -> None:
    content = path.read_bytes()
    position = content.index(body)
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), b"XX", position)


def test_damage_found_at_the_start_is_counted(connect: Connect, tmp_path: Path) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        connect(nsqd).pub("t", b"first-body", b"second-body", b"third-body")
    (segment,) = tmp_path.glob("topics/*/log/*.log")
    for index in tmp_path.glob("topics/*/log/*.index"):
        index.unlink()  # so that the start looks at every block
    damage(segment, b"second-body")

    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        log = topic_of(nsqd, "t").log

    assert log.damaged_blocks == 1


# Latency ----------------------------------------------------------------------------------------------


def test_percentiles_are_those_of_the_configuration(connect: Connect) -> None:
    with running_nsqd(e2e_processing_latency_percentiles=(1.0, 0.5)) as nsqd:
        client = connect(nsqd)
        client.pub("alone", b"x")
        client.sub("t", "c")

        stats = taken(nsqd)

    assert stats.topics is not None
    alone, topic = stats.topics
    assert alone.e2e_processing_latency == Latency(0, None)
    none_yet = Latency(0, [Percentile(1, 0), Percentile(0.5, 0)])
    assert topic.e2e_processing_latency == topic.channels[0].e2e_processing_latency == none_yet


def test_a_topic_has_the_latencies_of_all_its_channels(connect: Connect) -> None:
    with running_nsqd(e2e_processing_latency_percentiles=(1.0,)) as nsqd:
        connect(nsqd).sub("t", "c")
        connect(nsqd).sub("t", "d")
        connect(nsqd).pub("t", b"x", b"y")

        def record(daemon: Daemon) -> None:
            for name, age_ns in (("c", SECOND_NS), ("d", 60 * SECOND_NS)):
                recorder = find_channel(daemon, "t", name).latency
                assert recorder is not None
                recorder.record(
                    daemon.broker.topics["t"].core.log.next - 2, 2, daemon.broker.now_ns() + age_ns
                )

        nsqd.call(record)
        topic = topic_of(nsqd, "t", channel="c")

    (channel,) = topic.channels
    assert (channel.e2e_processing_latency.count, topic.e2e_processing_latency.count) == (2, 4)
    assert topic.e2e_processing_latency.percentiles is not None
    assert topic.e2e_processing_latency.percentiles[0].value == pytest.approx(60 * SECOND_NS, rel=0.02)


# Many -------------------------------------------------------------------------------------------------


def test_a_topic_that_goes_meanwhile_is_left_out(fresh: NsqdFixture, connect: Connect) -> None:
    connect(fresh).pub("t", b"x")

    def take(daemon: Daemon) -> list[str]:
        daemon.broker.topics["t"].core.is_closed = True
        topics = node_of(daemon).take(Query()).topics or []
        daemon.broker.topics["t"].core.is_closed = False
        return [topic.topic_name for topic in topics]

    assert fresh.call(take) == []


def test_commands_are_answered_while_many_consumers_are_listed(fresh: NsqdFixture, connect: Connect) -> None:
    for number in range(20):
        connect(fresh).sub("t", "c" if number else "d")

    channels = topic_of(fresh, "t").channels

    assert [len(channel.clients or []) for channel in channels] == [19, 1]
    client = connect(fresh)
    client.send(commands.pub("t", b"x"))
    client.expect_ok()
