"""What `/stats` says, as plain values: the fields in NSQ's order, left out or null where NSQ does so.

Three things are ours and come last, where NSQ's tools do not look: `log` of a topic, `dead_count` of a
channel that has dead letters, and `draining`. No value refers to itself, so the garbage collector need not
know of them: thousands are made at a time.
"""

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "ChannelStats",
    "ClientStats",
    "Latency",
    "LogStats",
    "Memory",
    "Percentile",
    "PubCount",
    "Stats",
    "TopicStats",
    "encode_stats",
]

_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


class Percentile(msgspec.Struct, gc=False):
    """`value` of all latencies' share `quantile` are shorter, in ns."""

    quantile: float
    value: int


class Latency(msgspec.Struct, gc=False):
    """From publish to finish; `percentiles` is None when none are tracked."""

    count: int = 0
    percentiles: list[Percentile] | None = None


class PubCount(msgspec.Struct, gc=False):
    topic: str
    count: int


class ClientStats(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One TCP connection, consumer or producer or both."""

    client_id: str
    hostname: str
    version: str
    remote_address: str
    state: int
    ready_count: int
    in_flight_count: int
    message_count: int
    finish_count: int
    requeue_count: int
    connect_ts: int
    sample_rate: int
    deflate: bool
    snappy: bool
    user_agent: str
    authed: bool = False
    auth_identity: str = ""
    auth_identity_url: str = ""
    topology_zone: str
    topology_region: str
    pub_counts: list[PubCount] | UnsetType = UNSET
    tls: bool
    tls_cipher_suite: str
    tls_version: str
    tls_negotiated_protocol: str
    tls_negotiated_protocol_is_mutual: bool


class ChannelStats(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    channel_name: str
    depth: int
    backend_depth: int
    in_flight_count: int
    deferred_count: int
    message_count: int
    zone_local_msg_count: int = 0
    region_local_msg_count: int = 0
    global_msg_count: int = 0
    requeue_count: int
    timeout_count: int
    client_count: int
    clients: list[ClientStats] | None
    paused: bool
    e2e_processing_latency: Latency
    dead_count: int = 0


class LogStats(msgspec.Struct, gc=False):
    """The log of a topic. What a loss of power would take is `unsynced_messages`."""

    first: int
    next: int
    bytes: int
    segments: int
    damaged_blocks: int
    unsynced_messages: int


class TopicStats(msgspec.Struct, gc=False):
    topic_name: str
    channels: list[ChannelStats]
    depth: int
    backend_depth: int
    message_count: int
    message_bytes: int
    paused: bool
    e2e_processing_latency: Latency
    log: LogStats


class Memory(msgspec.Struct, gc=False):
    """In the words of Go's runtime, as near as Python's comes."""

    heap_objects: int
    heap_idle_bytes: int
    heap_in_use_bytes: int
    heap_released_bytes: int
    gc_pause_usec_100: int
    gc_pause_usec_99: int
    gc_pause_usec_95: int
    next_gc_bytes: int
    gc_total_runs: int


class Stats(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The daemon at one moment; `start_time` in seconds since 1970."""

    version: str
    health: str
    start_time: int
    topics: list[TopicStats] | None
    memory: Memory | UnsetType = UNSET
    producers: list[ClientStats] | None
    draining: bool = False


def encode_stats(stats: Stats) -> bytes:
    """Compact JSON as Go writes it. There is hardly a float in it, so it need not be searched for them."""
    encoded = msgspec.json.encode(stats)
    for raw, escaped in _ESCAPES:
        encoded = encoded.replace(raw, escaped)
    return encoded
