"""One picture of the cluster out of the answers of its members; nothing here asks or waits.

nsqlookupds share no data, so that only the union of their answers is complete; an nsqd knows only its own
share of a topic, so that its figures are added up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from nsqlake.cluster.lookupd_answers import Node, Producer
from nsqlake.cluster.nsqd_answers import ChannelStats, TopicStats

P = TypeVar("P", bound=Producer)

_CHANNEL_SUMS = (
    "depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "message_count",
    "zone_local_msg_count",
    "region_local_msg_count",
    "global_msg_count",
    "requeue_count",
    "timeout_count",
    "client_count",
)
_TOPIC_SUMS = ("depth", "backend_depth", "message_count", "message_bytes")


@dataclass
class MergedNode:
    """An nsqd as the nsqlookupds describe it; the first one to name it is believed."""

    node: Node
    remote_addresses: list[str] = field(default_factory=list)  # as each nsqlookupd sees it


def merge_names(lists: Iterable[Iterable[str]]) -> list[str]:
    """The union of topic or channel names, sorted."""
    return sorted({name for names in lists for name in names})


def merge_producers(lists: Iterable[Iterable[P]]) -> list[P]:
    """Each nsqd once, by `broadcast_address:tcp_port`; those that have no address are left out."""
    merged: dict[str, P] = {}
    for producers in lists:
        for producer in producers:
            if producer.is_reachable:
                merged.setdefault(producer.tcp_address, producer)
    return list(merged.values())


def merge_nodes(answers: Iterable[tuple[str, Iterable[Node]]]) -> list[MergedNode]:
    """From the nodes that each nsqlookupd, named by its address, knows; sorted by host name."""
    merged: dict[str, MergedNode] = {}
    for lookupd_address, nodes in answers:
        for node in nodes:
            entry = merged.setdefault(node.tcp_address, MergedNode(node))
            entry.remote_addresses.append(f"{lookupd_address}/{node.remote_address}")
    return sorted(merged.values(), key=lambda entry: (entry.node.hostname, entry.node.tcp_address))


def merge_channels(parts: Sequence[ChannelStats]) -> ChannelStats:
    """The sum over nodes of one channel; latencies cannot be added up and stay empty."""
    merged = ChannelStats(channel_name=parts[0].channel_name if parts else "")
    _add_up(merged, parts, _CHANNEL_SUMS)
    merged.clients = [client for part in parts for client in part.clients]
    merged.paused = any(part.paused for part in parts)
    return merged


def merge_topics(parts: Sequence[TopicStats]) -> TopicStats:
    """The sum over nodes of one topic, its channels sorted by name."""
    merged = TopicStats(topic_name=parts[0].topic_name if parts else "")
    _add_up(merged, parts, _TOPIC_SUMS)
    merged.paused = any(part.paused for part in parts)
    channels: dict[str, list[ChannelStats]] = {}
    for part in parts:
        for channel in part.channels:
            channels.setdefault(channel.channel_name, []).append(channel)
    merged.channels = [merge_channels(channels[name]) for name in sorted(channels)]
    return merged


def _add_up(total: object, parts: Sequence[object], names: tuple[str, ...]) -> None:
    for name in names:
        setattr(total, name, sum(getattr(part, name) for part in parts))
