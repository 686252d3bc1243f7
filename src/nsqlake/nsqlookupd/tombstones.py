"""Producers of a topic that are hidden from its consumers for a while."""

from collections.abc import Iterator

from nsqlake.nsqlookupd.peers import Peer

__all__ = ["Tombstones"]

NONE: dict[int, int] = {}


class Tombstones:
    """Since when, by topic and slot of the peer. They stay when their time is over, until the entry goes."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def mark(self, topic: str, peer: Peer, now_ns: int) -> None:
        self._topics.setdefault(topic, {})[peer.slot] = now_ns

    def of_topic(self, topic: str) -> dict[int, int]:
        """By slot."""
        return self._topics.get(topic, NONE)

    def has_any(self, peer: Peer) -> bool:
        return any(peer.slot in slots for slots in self._topics.values())

    def lift(self, topic: str, slot: int) -> None:
        slots = self._topics.get(topic)
        if slots is not None and slots.pop(slot, None) is not None and not slots:
            del self._topics[topic]

    def forget_topic(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def clear(self, gone: int) -> Iterator[None]:
        """Lift those of peers that are gone."""
        for topic, slots in list(self._topics.items()):
            for slot in [slot for slot in slots if gone >> slot & 1]:
                self.lift(topic, slot)
            yield
