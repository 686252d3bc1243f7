"""The answers of the HTTP API as JSON.

Consumers ask all the time, so what many answers have in common is encoded once: a peer by itself, its topics
until they change. What is large is made in slices, so that pings and lookups go on meanwhile.
"""

import asyncio
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from nsqlake.nsqlookupd.peers import Peer
from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.runtime.http import encode_json
from nsqlake.runtime.pace import run_in_slices

__all__ = ["Views", "encode_producer"]


class Views:
    """What the database holds at `now_ns`, as bytes."""

    def __init__(self, db: RegistrationDb) -> None:
        self._db = db
        self._producers: WeakKeyDictionary[Peer, bytes] = WeakKeyDictionary()
        self._nodes: WeakKeyDictionary[Peer, tuple[int, bytes]] = WeakKeyDictionary()  # with the revision
        self._nodes_lock = asyncio.Lock()
        self._topics: tuple[list[str], bytes] = ([], b'{"topics":[]}')

    def topics(self) -> bytes:
        names = self._db.topics()
        if names is not self._topics[0]:
            self._topics = names, encode_json({"topics": names})
        return self._topics[1]

    def channels(self, topic: str) -> bytes:
        return encode_json({"channels": self._db.channels(topic)})

    def lookup(self, topic: str, now_ns: int) -> bytes:
        producers = b",".join(map(self._producer, self._db.producers(topic, now_ns)))
        return b'{"channels":%b,"producers":[%b]}' % (encode_json(self._db.channels(topic)), producers)

    async def nodes(self, now_ns: int) -> bytes:
        async with self._nodes_lock:  # whoever asks at the same time finds most of it made
            peers = [peer for peer in self._db.peers() if self._db.is_active(peer, now_ns)]
            changed: dict[Peer, list[str]] = {peer: [] for peer in peers if self._has_changed(peer)}
            await run_in_slices(self._encode_nodes(changed, now_ns))
            nodes = [self._nodes[peer][1] for peer in peers]
        return b'{"producers":[%b]}' % b",".join(nodes)

    def _has_changed(self, peer: Peer) -> bool:
        made = self._nodes.get(peer)
        # A tombstone's time runs out without a change.
        return made is None or made[0] != peer.revision or self._db.has_tombstones(peer)

    def _encode_nodes(self, changed: dict[Peer, list[str]], now_ns: int) -> Iterator[None]:
        revisions = {peer: peer.revision for peer in changed}
        if changed:
            yield from self._db.collect_topics(changed)
        for peer, topics in changed.items():
            tombstones = [self._db.is_tombstoned(topic, peer, now_ns) for topic in topics]
            start = self._producer(peer)[:-1]
            rest = encode_json({"tombstones": tombstones, "topics": topics})
            self._nodes[peer] = revisions[peer], b"%b,%b" % (start, rest[1:])
            yield

    def _producer(self, peer: Peer) -> bytes:
        encoded = self._producers.get(peer)
        if encoded is None:
            encoded = self._producers[peer] = encode_producer(peer)
        return encoded


def encode_producer(peer: Peer) -> bytes:
    node = peer.node
    return encode_json(
        {
            "remote_address": peer.id,
            "hostname": node.hostname,
            "broadcast_address": node.broadcast_address,
            "tcp_port": node.tcp_port,
            "http_port": node.http_port,
            "version": node.version,
            "topology_zone": node.topology_zone,
            "topology_region": node.topology_region,
        }
    )
