"""What nsqd answers."""

import msgspec

from nsqlake.cluster.decoding import Answer, Listed
from nsqlake.cluster.lookupd_answers import Producer


class NsqdInfo(Producer):
    """The node about itself, in the same words in which nsqlookupd passes them on."""

    start_time: int = 0


class Percentile(msgspec.Struct, kw_only=True):
    """The share `quantile` of all latencies is below `value` ns."""

    quantile: float = 0.0
    value: float = 0.0


class Latency(Answer):
    count: int = 0
    percentiles: Listed[Percentile] = msgspec.field(default_factory=list)


class ClientStats(msgspec.Struct, kw_only=True):
    """One connection to a channel."""

    remote_address: str = ""
    version: str = ""
    client_id: str = ""
    hostname: str = ""
    user_agent: str = ""
    connect_ts: int = 0
    in_flight_count: int = 0
    ready_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    message_count: int = 0
    sample_rate: int = 0
    deflate: bool = False
    snappy: bool = False
    authed: bool = False
    auth_identity: str = ""
    auth_identity_url: str = ""
    topology_zone: str = ""
    topology_region: str = ""
    tls: bool = False
    tls_cipher_suite: str = ""
    tls_version: str = ""
    tls_negotiated_protocol: str = ""
    tls_negotiated_protocol_is_mutual: bool = False


class ChannelStats(Answer):
    """One channel of a node, or the sum over several nodes."""

    channel_name: str = ""
    depth: int = 0
    backend_depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    message_count: int = 0
    zone_local_msg_count: int = 0
    region_local_msg_count: int = 0
    global_msg_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    client_count: int = 0
    clients: Listed[ClientStats] = msgspec.field(default_factory=list)
    paused: bool = False
    e2e_processing_latency: Latency = msgspec.field(default_factory=Latency)

    @property
    def memory_depth(self) -> int:
        return self.depth - self.backend_depth


class TopicStats(Answer):
    """One topic of a node, or the sum over several nodes."""

    topic_name: str = ""
    channels: Listed[ChannelStats] = msgspec.field(default_factory=list)
    depth: int = 0
    backend_depth: int = 0
    message_count: int = 0
    message_bytes: int = 0
    paused: bool = False
    e2e_processing_latency: Latency = msgspec.field(default_factory=Latency)

    @property
    def memory_depth(self) -> int:
        return self.depth - self.backend_depth


class NsqdStats(Answer):
    """`topics` must be there, or it is the answer to another question."""

    topics: Listed[TopicStats]
    version: str = ""
    health: str = ""
    start_time: int = 0

    def topic(self, name: str) -> TopicStats | None:
        return next((topic for topic in self.topics if topic.topic_name == name), None)

    def channel(self, topic_name: str, name: str) -> ChannelStats | None:
        topic = self.topic(topic_name)
        channels = topic.channels if topic else []
        return next((channel for channel in channels if channel.channel_name == name), None)
