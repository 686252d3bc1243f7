"""The bits against plain sets, over random histories."""

import random
from collections import defaultdict

import pytest

from nsqlake.nsqlookupd.peers import Peer
from nsqlake.nsqlookupd.registration_db import Registration, RegistrationDb
from tests.nsqlookupd.support import NOW_NS, TOMBSTONE_NS, add_peer, clear_traces, new_db

TOPICS = ("a", "b", "c#ephemeral")
CHANNELS = ("x", "y#ephemeral")


class Model:
    """Keys to sets of peers, as the specification tells it."""

    def __init__(self) -> None:
        self.keys: dict[Registration, set[Peer]] = {}
        self.tombstones: dict[tuple[str, Peer], int] = {}

    def register(self, peer: Peer, topic: str, channel: str) -> None:
        if channel:
            self.keys.setdefault(Registration("channel", topic, channel), set()).add(peer)
        self.keys.setdefault(Registration("topic", topic), set()).add(peer)

    def unregister(self, peer: Peer, topic: str, channel: str) -> None:
        if channel:
            self._leave(peer, Registration("channel", topic, channel), channel)
            return
        for key in [key for key in self.keys if key.category == "channel" and key.key == topic]:
            self.keys[key].discard(peer)
        self._leave(peer, Registration("topic", topic), topic)
        self.tombstones.pop((topic, peer), None)

    def _leave(self, peer: Peer, key: Registration, name: str) -> None:
        self.keys.get(key, set()).discard(peer)
        if name.endswith("#ephemeral") and not self.keys.get(key):
            self.keys.pop(key, None)

    def remove(self, peer: Peer) -> None:
        for peers in self.keys.values():
            peers.discard(peer)
        self.tombstones = {key: at for key, at in self.tombstones.items() if key[1] is not peer}

    def delete_topic(self, topic: str) -> None:
        self.keys = {key: peers for key, peers in self.keys.items() if key.key != topic}
        self.tombstones = {key: at for key, at in self.tombstones.items() if key[0] != topic}

    def tombstone(self, topic: str, host: str, now_ns: int) -> None:
        for peer in self.keys.get(Registration("topic", topic), ()):
            if peer.node.broadcast_address == host:
                self.tombstones[topic, peer] = now_ns


def step(rng: random.Random, db: RegistrationDb, model: Model, peers: list[Peer], now_ns: int) -> None:
    action = rng.choice(
        ["add", "register", "register", "register", "unregister", "gone", "clear", "topic", "tomb"]
    )
    topic, channel = rng.choice(TOPICS), rng.choice((*CHANNELS, ""))
    peer = rng.choice(peers) if peers else None
    if action == "add" or peer is None:
        peers.append(add_peer(db, f"h{rng.randrange(3)}", str(rng.random()), now_ns))
    elif action == "register":
        db.register(peer, topic, channel)
        model.register(peer, topic, channel)
    elif action == "unregister":
        db.unregister(peer, topic, channel)
        model.unregister(peer, topic, channel)
    elif action == "gone":
        peers.remove(peer)
        db.remove_peer(peer)
        model.remove(peer)
    elif action == "clear":
        clear_traces(db)
    elif action == "topic":
        db.delete_topic(topic)
        model.delete_topic(topic)
    else:
        db.tombstone(topic, f"{peer.node.broadcast_address}:4151", now_ns)
        model.tombstone(topic, peer.node.broadcast_address, now_ns)


def compare(db: RegistrationDb, model: Model, peers: list[Peer], now_ns: int) -> None:
    held = {key: set(holders.peers) for key, holders in db.registrations() if key.category != "client"}
    assert {key: peers for key, peers in held.items() if peers} == {k: p for k, p in model.keys.items() if p}
    assert db.key_count == len(model.keys)
    counts: dict[Peer, int] = defaultdict(int)
    for members in model.keys.values():
        for peer in members:
            counts[peer] += 1
    assert {peer: peer.registration_count for peer in peers} == {peer: counts[peer] for peer in peers}
    for topic in TOPICS:
        visible = {
            peer
            for peer in model.keys.get(Registration("topic", topic), ())
            if now_ns - model.tombstones.get((topic, peer), -TOMBSTONE_NS) >= TOMBSTONE_NS
        }
        assert set(db.producers(topic, now_ns)) == visible
        assert db.has_topic(topic) == (Registration("topic", topic) in model.keys)


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_end_alike(seed: int) -> None:
    rng, db, model = random.Random(seed), new_db(), Model()
    peers: list[Peer] = []
    now_ns = NOW_NS
    for _ in range(200):
        now_ns += rng.randrange(TOMBSTONE_NS // 10)
        step(rng, db, model, peers, now_ns)
        for peer in peers:
            db.ping(peer, now_ns)
        compare(db, model, peers, now_ns)
