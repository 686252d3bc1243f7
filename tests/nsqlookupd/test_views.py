"""Answers as bytes: right after every change, and made again only then."""

import asyncio
import json

from nsqlake.nsqlookupd.views import Views
from tests.nsqlookupd.support import INACTIVE_NS, NOW_NS, TOMBSTONE_NS, add_peer, new_db


def nodes(views: Views, now_ns: int = NOW_NS) -> dict[str, list[str]]:
    found = json.loads(asyncio.run(views.nodes(now_ns)))["producers"]
    return {node["broadcast_address"]: node["topics"] for node in found}


def test_topics_are_encoded_once_until_they_change() -> None:
    db = new_db()
    views = Views(db)
    assert views.topics() == b'{"topics":[]}'
    db.create("b")

    first = views.topics()
    assert views.topics() is first
    db.create("a")

    assert views.topics() == b'{"topics":["a","b"]}'


def test_nodes_follow_every_change_of_their_topics() -> None:
    db = new_db()
    views = Views(db)
    a, b = add_peer(db, "a"), add_peer(db, "b")
    assert nodes(views) == {"a": [], "b": []}
    db.register(a, "t")
    db.register(b, "t")
    db.register(b, "s", "c")
    assert nodes(views) == {"a": ["t"], "b": ["s", "t"]}
    db.unregister(b, "t")
    assert nodes(views) == {"a": ["t"], "b": ["s"]}
    db.delete_topic("t")
    assert nodes(views) == {"a": [], "b": ["s"]}
    db.remove_peer(b)

    assert nodes(views) == {"a": []}


def test_nodes_that_did_not_change_are_not_made_again() -> None:
    db = new_db()
    views = Views(db)
    a, b = add_peer(db, "a"), add_peer(db, "b")
    db.register(a, "t")
    nodes(views)
    before = views._nodes[a]

    db.register(b, "t")
    nodes(views)

    assert views._nodes[a] is before


def test_silent_nodes_are_left_out_and_come_back() -> None:
    db = new_db()
    views = Views(db)
    db.register(add_peer(db), "t")

    assert nodes(views, NOW_NS + INACTIVE_NS + 1) == {}
    assert nodes(views) == {"h1": ["t"]}


def test_a_tombstone_is_shown_until_its_time_is_over() -> None:
    db = new_db()
    views = Views(db)
    db.register(add_peer(db), "t")

    def tombstones(now_ns: int) -> list[bool]:
        found: list[bool] = json.loads(asyncio.run(views.nodes(now_ns)))["producers"][0]["tombstones"]
        return found

    assert tombstones(NOW_NS) == [False]
    db.tombstone("t", "h1:4151", NOW_NS)
    assert tombstones(NOW_NS) == [True]
    assert tombstones(NOW_NS + TOMBSTONE_NS) == [False]


def test_a_change_while_nodes_are_made_is_not_missed_for_good() -> None:
    db = new_db()
    views = Views(db)
    peer = add_peer(db)
    for number in range(5):
        db.register(peer, f"t{number}")
    topics: list[str] = []

    for step, _ in enumerate(views._encode_nodes({peer: topics}, NOW_NS)):
        if step == 2:
            db.register(peer, "a-late-one")

    assert nodes(views) == {"h1": ["a-late-one", "t0", "t1", "t2", "t3", "t4"]}


def test_peers_are_not_kept_by_what_was_encoded() -> None:
    db = new_db()
    views = Views(db)
    peer = add_peer(db)
    db.register(peer, "t")
    views.lookup("t", NOW_NS)
    nodes(views)

    db.remove_peer(peer)
    del peer

    assert (len(views._producers), len(views._nodes)) == (0, 0)
