"""Figures as a test needs them: everything 0 unless it says otherwise."""

from typing import Any

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.stats.node_stats import NodeStats
from nsqlake.nsqd.stats.snapshot import Query
from nsqlake.nsqd.stats.values import (
    ChannelStats,
    ClientStats,
    Latency,
    LogStats,
    Memory,
    Stats,
    TopicStats,
)
from nsqlake.runtime.clock import Clock
from nsqlake.testing.nsqd import NsqdFixture

START_S = 1_700_000_000


def client_stats(**fields: Any) -> ClientStats:
    known = {
        "client_id": "id",
        "hostname": "host",
        "version": "V2",
        "remote_address": "10.0.0.7:52110",
        "state": 0,
        "ready_count": 0,
        "in_flight_count": 0,
        "message_count": 0,
        "finish_count": 0,
        "requeue_count": 0,
        "connect_ts": START_S,
        "sample_rate": 0,
        "deflate": False,
        "snappy": False,
        "user_agent": "agent/1",
        "topology_zone": "",
        "topology_region": "",
        "tls": False,
        "tls_cipher_suite": "",
        "tls_version": "",
        "tls_negotiated_protocol": "",
        "tls_negotiated_protocol_is_mutual": False,
    }
    return ClientStats(**{**known, **fields})


def channel_stats(name: str = "c", **fields: Any) -> ChannelStats:
    known = {
        "depth": 0,
        "backend_depth": 0,
        "in_flight_count": 0,
        "deferred_count": 0,
        "message_count": 0,
        "requeue_count": 0,
        "timeout_count": 0,
        "client_count": 0,
        "clients": None,
        "paused": False,
        "e2e_processing_latency": Latency(),
    }
    return ChannelStats(channel_name=name, **{**known, **fields})


def topic_stats(name: str = "t", *channels: ChannelStats, **fields: Any) -> TopicStats:
    known = {
        "depth": 0,
        "backend_depth": 0,
        "message_count": 0,
        "message_bytes": 0,
        "paused": False,
        "e2e_processing_latency": Latency(),
        "log": LogStats(0, 0, 0, 0, 0, 0),
    }
    return TopicStats(topic_name=name, channels=list(channels), **{**known, **fields})


def node_stats(*topics: TopicStats, **fields: Any) -> Stats:
    known = {"version": "1.3.0", "health": "OK", "start_time": START_S, "producers": None}
    return Stats(**{"topics": list(topics), **known, **fields})


def memory(**fields: int) -> Memory:
    return Memory(**{**dict.fromkeys(Memory.__struct_fields__, 0), **fields})


# Of a running daemon ----------------------------------------------------------------------------------


def node_of(daemon: Daemon) -> NodeStats:
    return NodeStats(
        daemon.options, daemon.broker, daemon.connections, Clock(), daemon.tasks, budget=daemon._budget
    )


def taken(nsqd: NsqdFixture, **query: Any) -> Stats:
    """Both ways of taking them agree."""

    async def take(daemon: Daemon) -> tuple[Stats, Stats]:
        stats = node_of(daemon)
        return stats.take(Query(**query)), await stats.take_in_slices(Query(**query))

    at_once, in_slices = nsqd.call(take)
    at_once.memory = in_slices.memory
    assert at_once == in_slices
    return in_slices


def topic_of(nsqd: NsqdFixture, name: str, **query: Any) -> TopicStats:
    (found,) = taken(nsqd, topic=name, **query).topics or []
    return found


def channel_of(nsqd: NsqdFixture, topic: str, channel: str) -> ChannelStats:
    (found,) = topic_of(nsqd, topic, channel=channel).channels
    return found
