"""All figures of one nsqd, asked for as the daemon and its HTTP API do."""

import asyncio
import gc
import json
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.stats.node_stats import NodeStats
from nsqlake.nsqd.stats.snapshot import Query
from nsqlake.nsqd.stats.values import encode_stats
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.integration.support import eventually
from tests.nsqd.stats.conftest import Connect
from tests.nsqd.stats.support import node_of
from tests.topiclog.support import framed

TOPICS = 2000


def test_text_and_json_say_the_same(nsqd: NsqdFixture, connect: Connect) -> None:
    client = connect(nsqd)
    client.identify(hostname="<host>")
    client.sub("t", "c")
    client.pub("t", b"x")

    async def ask(daemon: Daemon) -> tuple[str, bytes]:
        stats = node_of(daemon)
        taken = await stats.take_in_slices(Query())
        return await stats.text(taken), encode_stats(taken)

    text, encoded = nsqd.call(ask)

    found = json.loads(encoded)
    assert "[t              ] depth: 0     be-depth: 0     msgs: 1 " in text
    assert found["topics"][0]["message_count"] == 1
    assert found["producers"][0]["hostname"] == "<host>"
    assert abs(found["start_time"] - time.time()) < 60
    assert "uptime " in text


def test_metrics_are_those_of_the_daemon(nsqd: NsqdFixture, connect: Connect) -> None:
    connect(nsqd).pub("metrics", b"x")

    text = nsqd.call(lambda daemon: node_of(daemon).metrics()).decode()

    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert ("nsqd_topic_messages_total", {"topic": "metrics"}, 1.0) in [sample[:3] for sample in samples]
    assert ("nsqd_connections", {"kind": "producer", "tls": "no"}, 1.0) in [sample[:3] for sample in samples]


def test_info_has_the_ports_it_is_given(nsqd: NsqdFixture) -> None:
    info = nsqd.call(lambda daemon: node_of(daemon).info(tcp_port=daemon.tcp_listener.port, http_port=1))

    assert (info.tcp_port, info.http_port) == (nsqd.tcp_port, 1)


def test_the_daemons_own_measures_the_loop_and_listens_to_the_collector(nsqd: NsqdFixture) -> None:
    nsqd.call(lambda daemon: gc.collect())

    eventually(lambda: nsqd.call(lambda daemon: daemon.broker.timings.loop_lag.count) > 0)

    taken = nsqd.call(lambda daemon: daemon.stats.take(Query()))
    assert taken.memory.gc_pause_usec_100 > 0  # type: ignore[union-attr]


def test_statsd_gets_the_figures_once_it_is_configured(connect: Connect) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        with running_nsqd(
            statsd_address=f"127.0.0.1:{receiver.getsockname()[1]}",
            statsd_interval_ns=1_000_000_001,
            statsd_udp_packet_size=100_000,
            broadcast_address="10.0.0.1",
            broadcast_http_port=4151,
            statsd_mem_stats=False,
        ) as nsqd:
            connect(nsqd).pub("t", b"x", b"y", b"z")

            pushed = receiver.recv(65_536)

    assert pushed.startswith(b"nsq.10_0_0_1_4151.topic.t.message_count:3|c\n")
    assert b"mem." not in pushed


def test_the_announced_http_port_is_in_the_statsd_key() -> None:
    with running_nsqd(broadcast_http_port=9999, broadcast_address="h") as nsqd:
        target = nsqd.call(lambda daemon: node_of(daemon).statsd_target(4151))

    assert target.prefix == "nsq.h_9999."


@pytest.fixture(scope="module")
def crowded() -> "NsqdFixture":  # type: ignore[misc]
    """Many topics, ephemeral so that making them costs no time."""
    with running_nsqd() as nsqd:

        async def fill(daemon: Daemon) -> None:
            for number in range(TOPICS):
                topic = await daemon.broker.open_topic(f"topic{number}#ephemeral")
                await daemon.broker.open_channel(topic, "c#ephemeral")
                topic.core.publish(**framed([b"x", b"y"]), timestamp_ns=1)

        nsqd.call(fill)
        yield nsqd


def test_two_thousand_topics_are_told_within_a_tenth_of_a_second(crowded: NsqdFixture) -> None:
    async def ask(daemon: Daemon) -> float:
        stats = node_of(daemon)
        times = []
        for _ in range(5):
            begun = time.process_time()
            encoded = encode_stats(await stats.take_in_slices(Query()))
            times.append(time.process_time() - begun)
        assert encoded.count(b'"channel_name"') == TOPICS
        return min(times)

    assert crowded.call(ask) < 0.1


def test_the_loop_turns_while_the_figures_of_many_topics_are_taken(crowded: NsqdFixture) -> None:
    async def turns_while(stats: NodeStats) -> tuple[int, int]:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        await stats.take_in_slices(Query())
        in_snapshot, turns = turns, 0
        await stats.metrics()
        turning.cancel()
        return in_snapshot, turns

    in_snapshot, in_metrics = crowded.call(lambda daemon: turns_while(node_of(daemon)))

    assert in_snapshot >= 5
    assert in_metrics >= 15
