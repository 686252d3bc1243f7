"""What the metrics are made of: a snapshot, and what `/stats` has no place for."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.nsqd.stats.timings import Timings
from nsqlake.nsqd.stats.values import Stats
from nsqlake.nsqd.transactions.figures import NO_TRANSACTIONS, Figures

if TYPE_CHECKING:
    from nsqlake.nsqd.live_topic import LiveTopic
    from nsqlake.nsqd.tcp_protocol import TcpConnection

__all__ = ["ConnectionKind", "LogTotals", "Observation", "count_connections", "sum_logs"]

ConnectionKind = tuple[str, bool]  # consumer, producer, idle or http; through TLS or not


@dataclass(frozen=True, slots=True)
class LogTotals:
    """Of all topics that are there now; `lost_messages` as far as the offsets around them tell."""

    memory_bytes: int
    lost_messages: int
    torn_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A daemon at one moment, for Prometheus."""

    stats: Stats
    timings: Timings
    gc_pauses: Histogram
    logs: LogTotals
    connections: dict[ConnectionKind, int]
    memory_limit_bytes: int
    accepted: dict[str, int]  # connections since the start, by listener
    input_bytes: int = 0
    task_failures: int = 0
    transactions: Figures = NO_TRANSACTIONS


def sum_logs(topics: "Iterable[LiveTopic]") -> LogTotals:
    memory_bytes = lost_messages = torn_blocks = 0
    for topic in topics:
        if topic.log is not None:
            memory_bytes += topic.log.memory_bytes
            lost_messages += topic.log.damaged_messages + topic.recovered.lost_messages
            torn_blocks += topic.recovered.torn_blocks
    return LogTotals(memory_bytes, lost_messages, torn_blocks)


def count_connections(
    connections: "Iterable[TcpConnection]", http: dict[bool, int] | None = None
) -> dict[ConnectionKind, int]:
    """Every kind, those that nobody is of too. Who subscribed is a consumer, even if it also publishes."""
    found: Counter[ConnectionKind] = Counter()
    for connection in connections:
        session = connection.session
        kind = "consumer" if session.subscription else "producer" if session.publish_counts else "idle"
        found[kind, session.is_tls] += 1
    for is_tls, count in (http or {}).items():
        found["http", is_tls] += count
    kinds = ("consumer", "producer", "idle", "http")
    return {(kind, is_tls): found[kind, is_tls] for kind in kinds for is_tls in (False, True)}
