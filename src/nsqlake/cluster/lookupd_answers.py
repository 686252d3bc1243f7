"""What nsqlookupd answers."""

import msgspec

from nsqlake.cluster.decoding import Answer, Listed
from nsqlake.runtime.addresses import MAX_PORT, join_host_port


class Producer(Answer):
    """An nsqd as it announces itself."""

    remote_address: str = ""
    hostname: str = ""
    broadcast_address: str = ""
    tcp_port: int = 0
    http_port: int = 0
    version: str = ""
    topology_zone: str = ""
    topology_region: str = ""

    @property
    def host(self) -> str:
        """Ancient servers know no `broadcast_address`."""
        return self.broadcast_address or self.hostname

    @property
    def tcp_address(self) -> str:
        return join_host_port(self.host, self.tcp_port)

    @property
    def http_address(self) -> str:
        return join_host_port(self.host, self.http_port)

    @property
    def is_reachable(self) -> bool:
        """Whether it has an address at all; what announces itself may be misconfigured or hostile."""
        is_name = self.host.isprintable() and not set(self.host) & set(" /@?#[]")
        return bool(self.host) and is_name and 0 < self.tcp_port <= MAX_PORT


class Node(Producer):
    """An nsqd with its topics; `tombstones` says of each whether it is hidden."""

    tombstones: Listed[bool] = msgspec.field(default_factory=list)
    topics: Listed[str] = msgspec.field(default_factory=list)

    @property
    def tombstoned_topics(self) -> list[tuple[str, bool]]:
        """Each topic with its tombstone; a list that is too short means no more of them."""
        missing = len(self.topics) - len(self.tombstones)
        return list(zip(self.topics, self.tombstones + [False] * missing, strict=False))


class LookupAnswer(Answer):
    """Who has a topic. `producers` must be there, or it is the answer to another question."""

    producers: Listed[Producer]
    channels: Listed[str] = msgspec.field(default_factory=list)


class TopicsAnswer(Answer):
    topics: Listed[str]


class ChannelsAnswer(Answer):
    channels: Listed[str]


class NodesAnswer(Answer):
    producers: Listed[Node]


class LookupdInfo(Answer):
    version: str = ""
