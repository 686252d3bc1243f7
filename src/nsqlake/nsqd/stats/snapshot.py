"""Taking the figures of a daemon, at once or in slices between which the event loop does other things.

The figures of one topic are always taken together; in slices, those of another may be a moment younger, and
the details of a channel's clients are taken after its figures.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from nsqlake import NSQ_VERSION
from nsqlake.nsqd.stats.clients import describe_client
from nsqlake.nsqd.stats.latency import summarise
from nsqlake.nsqd.stats.memory import MemoryProbe
from nsqlake.nsqd.stats.values import ChannelStats, ClientStats, Latency, LogStats, Stats, TopicStats
from nsqlake.runtime.pace import run_in_slices
from nsqlake.topiclog.memory_log import MemoryLog

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker
    from nsqlake.nsqd.core.subscription import Subscription
    from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
    from nsqlake.nsqd.tcp_protocol import TcpConnection

__all__ = ["Node", "Query", "take_snapshot", "take_snapshot_in_slices"]

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What of it is wanted; "" is any topic, any channel."""

    topic: str = ""
    channel: str = ""
    include_clients: bool = True
    include_memory: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What beside its topics and connections the figures need of a daemon."""

    start_ns: int
    memory: MemoryProbe
    percentiles: tuple[float, ...] = ()
    counts_localities: bool = True  # without memory queues NSQ counts no deliveries by locality
    is_draining: bool = False


def take_snapshot(
    broker: "Broker", connections: "Collection[TcpConnection]", query: Query, node: Node, now_ns: int
) -> Stats:
    stats = _frame(broker, query, node)
    for _ in _fill(stats, broker, connections, query, node, now_ns):
        pass
    return stats


async def take_snapshot_in_slices(
    broker: "Broker", connections: "Collection[TcpConnection]", query: Query, node: Node, now_ns: int
) -> Stats:
    stats = _frame(broker, query, node)
    await run_in_slices(_fill(stats, broker, connections, query, node, now_ns))
    return stats


def _frame(broker: "Broker", query: Query, node: Node) -> Stats:
    health = broker.health
    return Stats(
        version=NSQ_VERSION,
        health=f"NOK - {health}" if health else "OK",
        start_time=node.start_ns // _SECOND_NS,
        topics=None,
        memory=node.memory.take() if query.include_memory else UNSET,
        producers=None,
        draining=node.is_draining,
    )


def _fill(
    stats: Stats,
    broker: "Broker",
    connections: "Collection[TcpConnection]",
    query: Query,
    node: Node,
    now_ns: int,
) -> Iterator[None]:
    """Yields where others may come in."""
    if query.topic:
        wanted = broker.topics.get(query.topic)
        if wanted is None:
            return
        topics = [wanted]
    else:
        topics = [broker.topics[name] for name in sorted(broker.topics)]
    stats.topics = []
    for topic in topics:
        if topic.core.is_closed or (query.channel and query.channel not in topic.channels):
            continue
        yield from _fill_topic(stats.topics, topic, query, node, now_ns)
        yield
    if query.include_clients:
        producers: list[ClientStats] = []
        for connection in [each for each in connections if each.session.publish_counts]:
            producers.append(describe_client(connection, query.topic))
            yield
        stats.producers = producers or None


def _fill_topic(
    found: list[TopicStats], topic: "LiveTopic", query: Query, node: Node, now_ns: int
) -> Iterator[None]:
    names = [query.channel] if query.channel else sorted(topic.channels)
    live = [topic.channels[name] for name in names]
    core = topic.core
    channels = [_describe_channel(channel, node, now_ns) for channel in live]
    found.append(
        TopicStats(
            topic_name=topic.name,
            channels=channels,
            depth=core.depth,
            backend_depth=core.backend_depth,
            message_count=core.message_count,
            message_bytes=core.message_bytes,
            paused=core.is_paused,
            e2e_processing_latency=_latency(list(topic.channels.values()), node, now_ns),
            log=_describe_log(topic),
        )
    )
    if query.include_clients:
        consumers = [channel.core.subscriptions for channel in live]
        for stats, subscriptions in zip(channels, consumers, strict=True):
            stats.clients = []
            for subscription in subscriptions:
                stats.clients.append(describe_client(_connection(subscription), query.topic))
                yield


def _connection(subscription: "Subscription") -> "TcpConnection":
    return cast("TcpConnection", subscription.key)  # nobody else receives messages


def _describe_channel(channel: "LiveChannel", node: Node, now_ns: int) -> ChannelStats:
    core = channel.core
    zone, region, anywhere = core.local_counts if node.counts_localities else (0, 0, 0)
    return ChannelStats(
        channel_name=core.name,
        depth=core.depth,
        backend_depth=core.backend_depth,
        in_flight_count=core.ledger.out.count,
        deferred_count=len(core.ledger.deferred),
        message_count=core.message_count,
        zone_local_msg_count=zone,
        region_local_msg_count=region,
        global_msg_count=anywhere,
        requeue_count=core.requeue_count,
        timeout_count=core.timeout_count,
        client_count=len(core.subscriptions),
        clients=None,
        paused=core.is_paused,
        e2e_processing_latency=_latency([channel], node, now_ns),
        dead_count=core.dead_count,
    )


def _latency(channels: "list[LiveChannel]", node: Node, now_ns: int) -> Latency:
    """Of all these channels together; without one there are no percentiles, as in NSQ."""
    windows = [channel.latency.window for channel in channels if channel.latency is not None]
    return summarise(windows, node.percentiles, now_ns) if windows else Latency()


def _describe_log(topic: "LiveTopic") -> LogStats:
    log = topic.log if topic.log is not None else cast("MemoryLog", topic.core.log)
    return LogStats(
        first=log.first,
        next=log.next,
        bytes=log.nbytes,
        segments=log.segment_count,
        damaged_blocks=log.damaged_blocks + sum(damage.blocks for damage in topic.recovered.damage),
        unsynced_messages=log.count(log.synced, log.next),
    )
