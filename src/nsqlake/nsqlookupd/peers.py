"""The connected nsqds, and sets of them as the bits of an integer."""

from nsqlake.wire.lookup_commands import NodeDescription

__all__ = ["Peer", "PeerSlots"]

MAX_REMEMBERED_SETS = 4_096


class Peer:
    """One connection of an nsqd. `revision` changes whenever its topics do."""

    __slots__ = (
        "__weakref__", "bit", "id", "last_update_ns", "node", "registration_count", "revision", "slot",
    )  # fmt: skip

    def __init__(self, peer_id: str, node: NodeDescription, slot: int, now_ns: int) -> None:
        self.id, self.node, self.slot, self.bit = peer_id, node, slot, 1 << slot
        self.last_update_ns = now_ns
        self.registration_count = 0
        self.revision = 0

    @property
    def http_node(self) -> str:
        """As a tombstone names it: without brackets, even for IPv6."""
        return f"{self.node.broadcast_address}:{self.node.http_port}"

    @property
    def order(self) -> tuple[str, int, str]:
        return self.node.broadcast_address, self.node.tcp_port, self.id


class PeerSlots:
    """Gives every peer a slot. The slot of one that goes is used again only after `release`."""

    def __init__(self) -> None:
        self.live = 0
        self.gone = 0  # whoever holds their bits has to clear them
        self._peers: dict[int, Peer] = {}  # by bit
        self._free: list[int] = []
        self._count = 0
        self._sets: dict[int, tuple[Peer, ...]] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def add(self, peer_id: str, node: NodeDescription, now_ns: int) -> Peer:
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._count = self._count, self._count + 1
        peer = Peer(peer_id, node, slot, now_ns)
        self._peers[peer.bit] = peer
        self.live |= peer.bit
        return peer

    def remove(self, peer: Peer) -> None:
        del self._peers[peer.bit]
        self.live ^= peer.bit
        self.gone |= peer.bit
        self._sets.clear()  # the next peer in this slot is another one

    def release(self, cleared: int) -> None:
        """Nobody holds these bits any more."""
        self.gone &= ~cleared
        self._free += [slot for slot in range(self._count) if cleared >> slot & 1]

    def among(self, bits: int) -> tuple[Peer, ...]:
        """The live ones, in order. Most topics have the same peers, so that few sets have to be made."""
        bits &= self.live
        peers = self._sets.get(bits)
        if peers is None:
            if len(self._sets) >= MAX_REMEMBERED_SETS:
                self._sets.clear()
            peers = self._sets[bits] = tuple(sorted(self._split(bits), key=lambda peer: peer.order))
        return peers

    def _split(self, bits: int) -> list[Peer]:
        found = []
        while bits:
            lowest = bits & -bits
            found.append(self._peers[lowest])
            bits ^= lowest
        return found
