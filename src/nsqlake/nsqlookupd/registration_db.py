"""Which topics and channels there are, and which nsqd has them.

A registration is a key, such as a topic, with the peers that registered it. There may be as many of those
pairs as topics times channels times peers, so they are kept as bits: every peer has a slot, and a key's value
is an integer with the bits of its peers. A peer that goes is in no answer any more at once; its bits are
cleared later, step by step, and only then its slot is used again.

A name may be there without any peer, and a topic's channels may outlive it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from nsqlake.nsqlookupd.errors import RegistrationLimitError
from nsqlake.nsqlookupd.peers import Peer, PeerSlots
from nsqlake.nsqlookupd.tombstones import Tombstones
from nsqlake.wire.lookup_commands import NodeDescription
from nsqlake.wire.names import is_ephemeral

__all__ = ["Holders", "Registration", "RegistrationDb"]

NO_LIMIT = 1 << 62


class Registration(NamedTuple):
    """A key: category `client`, `topic` or `channel`."""

    category: str
    key: str = ""
    subkey: str = ""


class Holders(NamedTuple):
    """The peers of a registration, in order, and by slot since when those of them that are tombstoned are."""

    peers: tuple[Peer, ...]
    tombstones: dict[int, int]


class RegistrationDb:
    """Limits of 0 are none. Nothing expires by itself: what is too old is left out when somebody asks."""

    def __init__(
        self, *, inactive_ns: int, tombstone_ns: int, max_registrations: int = 0, max_per_peer: int = 0
    ) -> None:
        self.inactive_ns, self.tombstone_ns = inactive_ns, tombstone_ns
        self.max_registrations = max_registrations or NO_LIMIT
        self.max_per_peer = max_per_peer or NO_LIMIT
        self.key_count = 0  # topics and channels
        self._topics: dict[str, int] = {}
        self._channels: dict[str, dict[str, int]] = {}
        self._peers = PeerSlots()
        self._tombstones = Tombstones()
        self._sorted_topics: list[str] | None = None

    # Peers ----------------------------------------------------------------------------------------------

    def add_peer(self, peer_id: str, node: NodeDescription, now_ns: int) -> Peer:
        return self._peers.add(peer_id, node, now_ns)

    def remove_peer(self, peer: Peer) -> None:
        """Its names stay, ephemeral ones too."""
        self._peers.remove(peer)

    @property
    def has_traces(self) -> bool:
        """Whether there is something for `clear_traces` to do."""
        return self._peers.gone != 0

    def clear_traces(self) -> Iterator[None]:
        """Clear what removed peers left behind, a little with every step."""
        gone = self._peers.gone
        for topic in list(self._topics):
            if self._topics.get(topic, 0) & gone:
                self._topics[topic] &= ~gone
            yield
        for topic in list(self._channels):
            channels = self._channels.get(topic, {})
            for name, bits in channels.items():
                if bits & gone:
                    channels[name] = bits & ~gone
            yield
        yield from self._tombstones.clear(gone)
        self._peers.release(gone)

    # What peers say -------------------------------------------------------------------------------------

    def ping(self, peer: Peer, now_ns: int) -> None:
        peer.last_update_ns = now_ns

    def register(self, peer: Peer, topic: str, channel: str = "") -> list[Registration]:
        """What is new; RegistrationLimitError when it would be too much."""
        bit = peer.bit
        topic_bits = self._topics.get(topic)
        channel_bits = self._channels.get(topic, {}).get(channel) if channel else bit
        is_in_topic = topic_bits is not None and topic_bits & bit != 0
        if is_in_topic and channel_bits is not None and channel_bits & bit:
            return []
        self._check_room((topic_bits is None) + (channel_bits is None), peer)
        added = []
        if channel and not (channel_bits or 0) & bit:
            self._add_channel(topic, channel, bit)
            added.append(Registration("channel", topic, channel))
        if not is_in_topic:
            self._add_topic(topic, bit)
            peer.revision += 1
            added.append(Registration("topic", topic))
        peer.registration_count += len(added)
        return added

    def unregister(self, peer: Peer, topic: str, channel: str = "") -> list[Registration]:
        """What the peer was taken out of. An ephemeral name goes with its last peer."""
        live = self._peers.live
        if channel:
            removed = self._leave_channels(peer, topic, [channel])
            if is_ephemeral(channel) and not self._channels.get(topic, {}).get(channel, 0) & live:
                self._drop_channel(topic, channel)
            return removed
        removed = self._leave_channels(peer, topic, list(self._channels.get(topic, ())))
        bits = self._topics.get(topic, 0)
        if bits & peer.bit:
            bits = self._topics[topic] = bits ^ peer.bit
            self._tombstones.lift(topic, peer.slot)
            peer.registration_count -= 1
            peer.revision += 1
            removed.append(Registration("topic", topic))
        if is_ephemeral(topic) and not bits & live:
            self._drop_topic(topic)
        return removed

    # What administrators do -----------------------------------------------------------------------------

    def create(self, topic: str, channel: str = "") -> None:
        """A name without a peer. RegistrationLimitError when it would be one too many."""
        is_new_channel = bool(channel) and channel not in self._channels.get(topic, ())
        self._check_room((topic not in self._topics) + is_new_channel)
        if channel:
            self._add_channel(topic, channel, 0)
        self._add_topic(topic, 0)

    def delete_topic(self, topic: str) -> None:
        """And its channels; peers stay connected, and bring it back when they register it again."""
        for channel in list(self._channels.get(topic, ())):
            self.delete_channel(topic, channel)
        for peer in self._peers.among(self._topics.get(topic, 0)):
            peer.registration_count -= 1
            peer.revision += 1
        self._drop_topic(topic)

    def delete_channel(self, topic: str, channel: str) -> bool:
        """Whether it was there."""
        bits = self._channels.get(topic, {}).get(channel)
        if bits is None:
            return False
        for peer in self._peers.among(bits):
            peer.registration_count -= 1
        self._drop_channel(topic, channel)
        return True

    def tombstone(self, topic: str, http_node: str, now_ns: int) -> list[Peer]:
        """Hide the topic's peers with this `broadcast_address:http_port` for a while; those it concerns."""
        peers = self._peers.among(self._topics.get(topic, 0))
        found = [peer for peer in peers if peer.http_node == http_node]
        for peer in found:
            self._tombstones.mark(topic, peer, now_ns)
            peer.revision += 1
        return found

    # Questions ------------------------------------------------------------------------------------------

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    @property
    def tombstone_count(self) -> int:
        """Those whose time is over too."""
        return len(self._tombstones)

    def peers(self) -> tuple[Peer, ...]:
        """All, in order."""
        return self._peers.among(self._peers.live)

    def has_topic(self, topic: str) -> bool:
        return topic in self._topics

    def topics(self) -> list[str]:
        """In order; the same list, never changed, until a topic comes or goes."""
        if self._sorted_topics is None:
            self._sorted_topics = sorted(self._topics)
        return self._sorted_topics

    def channels(self, topic: str) -> list[str]:
        """In order."""
        return sorted(self._channels.get(topic, ()))

    def is_active(self, peer: Peer, now_ns: int) -> bool:
        return now_ns - peer.last_update_ns <= self.inactive_ns

    def is_tombstoned(self, topic: str, peer: Peer, now_ns: int) -> bool:
        """Whether its tombstone for the topic still counts."""
        since_ns = self._tombstones.of_topic(topic).get(peer.slot)
        return since_ns is not None and now_ns - since_ns < self.tombstone_ns

    def has_tombstones(self, peer: Peer) -> bool:
        return self._tombstones.has_any(peer)

    def producers(self, topic: str, now_ns: int) -> list[Peer]:
        """The peers to send consumers to: heard of lately, and not tombstoned."""
        oldest_ns = now_ns - self.inactive_ns
        peers = self._peers.among(self._topics.get(topic, 0))
        active = [peer for peer in peers if peer.last_update_ns >= oldest_ns]
        if self._tombstones.of_topic(topic):
            return [peer for peer in active if not self.is_tombstoned(topic, peer, now_ns)]
        return active

    def collect_topics(self, wanted: dict[Peer, list[str]]) -> Iterator[None]:
        """Add to the list of each peer in `wanted` its topics, in order, a little with every step."""
        bits = sum(peer.bit for peer in wanted)
        for topic in self.topics():
            for peer in self._peers.among(self._topics.get(topic, 0) & bits):
                if peer in wanted:  # its slot may be another's by now
                    wanted[peer].append(topic)
            yield

    def registrations(self, topic: str | None = None) -> Iterator[tuple[Registration, Holders]]:
        """Of one topic, or all, in order; what changes between two steps is seen or not."""
        among = self._peers.among
        for name in sorted(self._channels) if topic is None else [topic]:
            for channel in self.channels(name):
                bits = self._channels.get(name, {}).get(channel, 0)
                yield Registration("channel", name, channel), Holders(among(bits), {})
        yield Registration("client"), Holders(self.peers(), {})
        for name in self.topics() if topic is None else [topic]:
            peers = among(self._topics.get(name, 0))
            yield Registration("topic", name), Holders(peers, self._tombstones.of_topic(name))

    # Keys -----------------------------------------------------------------------------------------------

    def _check_room(self, new_keys: int, peer: Peer | None = None) -> None:
        if self.key_count + new_keys > self.max_registrations:
            raise RegistrationLimitError(self.max_registrations, "in all")
        # A channel that comes with its topic may be one too many, which does no harm.
        if peer is not None and peer.registration_count >= self.max_per_peer:
            raise RegistrationLimitError(self.max_per_peer, "of one peer")

    def _add_topic(self, topic: str, bit: int) -> None:
        bits = self._topics.get(topic)
        if bits is None:
            bits = 0
            self.key_count += 1
            self._sorted_topics = None
        self._topics[topic] = bits | bit

    def _add_channel(self, topic: str, channel: str, bit: int) -> None:
        channels = self._channels.setdefault(topic, {})
        self.key_count += channel not in channels
        channels[channel] = channels.get(channel, 0) | bit

    def _drop_topic(self, topic: str) -> None:
        if self._topics.pop(topic, None) is not None:
            self.key_count -= 1
            self._sorted_topics = None
        self._tombstones.forget_topic(topic)

    def _drop_channel(self, topic: str, channel: str) -> None:
        channels = self._channels.get(topic, {})
        if channels.pop(channel, None) is not None:
            self.key_count -= 1
            if not channels:
                del self._channels[topic]

    def _leave_channels(self, peer: Peer, topic: str, names: list[str]) -> list[Registration]:
        removed = []
        channels = self._channels.get(topic, {})
        for name in names:
            bits = channels.get(name, 0)
            if bits & peer.bit:
                channels[name] = bits ^ peer.bit
                removed.append(Registration("channel", topic, name))
        peer.registration_count -= len(removed)
        return removed
