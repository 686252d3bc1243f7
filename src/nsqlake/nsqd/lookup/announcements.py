"""Every nsqlookupd this node announces its topics and channels to."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nsqlake import NSQ_VERSION
from nsqlake.nsqd.lookup.channel_discovery import ChannelDiscovery
from nsqlake.nsqd.lookup.lookup_peer import LookupPeer, LookupTiming
from nsqlake.nsqd.lookup.lookup_tls import LookupTls
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.addresses import host_name
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.wire.lookup_commands import PING, NodeDescription, register, unregister

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker

__all__ = ["Announcements", "announce", "describe_node"]

logger = logging.getLogger(__name__)

Topics = Callable[[], Iterable[tuple[str, Sequence[str]]]]  # each with its channels, as they are now

DEFAULT_TIMING = LookupTiming()


class Announcements:
    """The set of nsqlookupds, each with a task of its own; a slow one holds up no other."""

    def __init__(
        self,
        node: NodeDescription,
        topics: Topics,
        tasks: TaskSupervisor,
        discovery: ChannelDiscovery,
        *,
        max_reply_bytes: int,
        timing: LookupTiming = DEFAULT_TIMING,
        tls: LookupTls | None = None,
    ) -> None:
        self.addresses: tuple[str, ...] = ()  # as given
        self._node, self._topics, self._tasks, self._discovery = node, topics, tasks, discovery
        self._max_reply_bytes, self._timing, self._tls = max_reply_bytes, timing, tls
        self._peers: dict[str, LookupPeer] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._has_left = self._is_closed = False

    @property
    def connected(self) -> list[str]:
        """The addresses of those that know this node now."""
        return [peer.address for peer in self._peers.values() if peer.is_connected]

    def set_addresses(self, addresses: Iterable[str]) -> None:
        """Connect to those that are new, leave those that are gone."""
        self.addresses = tuple(addresses)
        wanted = set() if self._is_closed else set(self.addresses)
        for address in self._peers.keys() - wanted:
            del self._peers[address]
            self._running.pop(address).cancel()
            logger.info("LOOKUPD(%s): removed", address)
        for address in dict.fromkeys(self.addresses):
            if address in wanted and address not in self._peers:
                self._add(address)

    def _add(self, address: str) -> None:
        peer = LookupPeer(
            address,
            self._node,
            self._registrations,
            max_reply_bytes=self._max_reply_bytes,
            timing=self._timing,
            tls=self._tls,
        )
        self._peers[address] = peer
        self._running[address] = self._tasks.spawn(peer.run(), str(peer))

    def created(self, topic: str, channel: str = "") -> None:
        self._send(register(topic, channel))

    def deleted(self, topic: str, channel: str = "") -> None:
        self._send(unregister(topic, channel))

    def ping(self) -> None:
        """Besides the regular ones: for a test whose time passes faster."""
        for peer in self._peers.values():
            if peer.is_connected:
                peer.send(PING)

    async def find_channels(self, topic: str) -> list[str]:
        """The durable channels of `topic` that any nsqlookupd knows whose HTTP API is known."""
        known = {peer.http_address for peer in self._peers.values() if peer.http_address}
        return await self._discovery.find(known, topic) if known else []

    def leave(self) -> None:
        """Take everything off the lists, for good; the connections stay, so that the node can be seen."""
        for topic, channels in self._topics():
            for channel in channels:
                self.deleted(topic, channel)
            self.deleted(topic)
        self._has_left = True

    async def close(self) -> None:
        """Disconnect without a word; nsqlookupd takes that for what it is."""
        self._is_closed = True
        running, self._running = self._running, {}
        self._peers.clear()
        for task in running.values():
            task.cancel()
        await self._discovery.close()

    def _send(self, command: bytes) -> None:
        if not self._has_left:
            for peer in self._peers.values():
                peer.send(command)

    def _registrations(self) -> list[bytes]:
        """One for every channel, and one for every topic that has none."""
        topics = () if self._has_left else self._topics()
        return [register(topic, channel) for topic, channels in topics for channel in channels or ("",)]


def _open_channels(broker: "Broker") -> Iterable[tuple[str, Sequence[str]]]:
    """Neither what is being deleted nor what may yet fail to be created."""
    for topic in broker.topics.values():
        if not topic.core.is_closed:
            yield topic.name, [name for name, channel in topic.channels.items() if channel.created is None]


def describe_node(options: NsqdOptions, *, tcp_port: int, http_port: int) -> NodeDescription:
    """The ports are those of the listeners, not positive when there is none."""
    return NodeDescription(
        broadcast_address=options.broadcast_address,
        hostname=host_name(),
        http_port=options.broadcast_http_port or max(http_port, 0),
        tcp_port=options.broadcast_tcp_port or max(tcp_port, 0),
        topology_region=options.topology_region,
        topology_zone=options.topology_zone,
        version=NSQ_VERSION,
    )


def announce(
    broker: "Broker",
    options: NsqdOptions,
    tasks: TaskSupervisor,
    *,
    tcp_port: int,
    http_port: int,
    tls: LookupTls | None = None,
) -> Announcements:
    """Begin to announce what `broker` has to `--lookupd-tcp-address`; a broker that drains leaves."""
    announcements = Announcements(
        describe_node(options, tcp_port=tcp_port, http_port=http_port),
        lambda: _open_channels(broker),
        tasks,
        ChannelDiscovery(
            connect_timeout_ns=options.http_client_connect_timeout_ns,
            request_timeout_ns=options.http_client_request_timeout_ns,
            tls=tls,
        ),
        max_reply_bytes=options.max_body_size,
        tls=tls,
    )
    broker.announcer = announcements
    broker.on_drain.append(announcements.leave)
    announcements.set_addresses(options.lookupd_tcp_addresses)
    return announcements
