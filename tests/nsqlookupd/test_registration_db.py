"""The database by itself; section 5 of the specification is tested over sockets too."""

import pytest

from nsqlake.nsqlookupd.errors import RegistrationLimitError
from nsqlake.nsqlookupd.registration_db import Registration
from tests.nsqlookupd.support import (
    INACTIVE_NS,
    NOW_NS,
    TOMBSTONE_NS,
    add_peer,
    clear_traces,
    hosts,
    new_db,
)


def test_what_is_new_is_told_once() -> None:
    db = new_db()
    peer = add_peer(db)

    assert db.register(peer, "t", "c") == [Registration("channel", "t", "c"), Registration("topic", "t")]
    assert db.register(peer, "t", "c") == []
    assert db.register(peer, "t") == []
    assert db.register(peer, "t", "d") == [Registration("channel", "t", "d")]
    assert (db.topics(), db.channels("t"), db.key_count, peer.registration_count) == (["t"], ["c", "d"], 3, 3)


def test_every_peer_is_a_producer_of_its_own() -> None:
    db = new_db()
    for peer_id in ("1:1", "1:2"):
        db.register(add_peer(db, "same", peer_id), "t")

    assert [peer.id for peer in db.producers("t", NOW_NS)] == ["1:1", "1:2"]


def test_unregistering_a_channel_leaves_its_name_and_its_topic() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "t", "c")

    assert db.unregister(peer, "t", "c") == [Registration("channel", "t", "c")]
    assert db.unregister(peer, "t", "c") == []

    assert (db.channels("t"), hosts(db.producers("t", NOW_NS))) == (["c"], ["h1"])
    assert peer.registration_count == 1


def test_unregistering_a_topic_takes_the_peer_out_of_its_channels() -> None:
    db = new_db()
    a, b = add_peer(db, "a"), add_peer(db, "b")
    for peer in (a, b):
        db.register(peer, "t", "c")

    removed = db.unregister(a, "t")

    assert removed == [Registration("channel", "t", "c"), Registration("topic", "t")]
    assert hosts(db.producers("t", NOW_NS)) == ["b"]
    assert [hosts(holders.peers) for _, holders in db.registrations("t")] == [["b"], ["a", "b"], ["b"]]


def test_an_ephemeral_name_goes_with_its_last_peer() -> None:
    db = new_db()
    a, b = add_peer(db, "a"), add_peer(db, "b")
    for peer in (a, b):
        db.register(peer, "t#ephemeral", "c#ephemeral")

    db.unregister(a, "t#ephemeral", "c#ephemeral")
    assert db.channels("t#ephemeral") == ["c#ephemeral"]
    db.unregister(b, "t#ephemeral", "c#ephemeral")
    assert db.channels("t#ephemeral") == []
    db.unregister(a, "t#ephemeral")
    assert db.has_topic("t#ephemeral")
    db.unregister(b, "t#ephemeral")

    assert not db.has_topic("t#ephemeral")
    assert db.key_count == 0


def test_peers_that_are_gone_do_not_keep_an_ephemeral_name() -> None:
    db = new_db()
    gone, left = add_peer(db, "a"), add_peer(db, "b")
    db.register(gone, "t#ephemeral", "c#ephemeral")
    db.remove_peer(gone)

    db.unregister(left, "t#ephemeral", "c#ephemeral")
    db.unregister(left, "t#ephemeral")

    assert (db.topics(), db.channels("t#ephemeral")) == ([], [])


def test_a_peer_that_goes_leaves_its_names_but_is_no_producer() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "t#ephemeral", "c#ephemeral")

    db.remove_peer(peer)

    assert (db.topics(), db.channels("t#ephemeral")) == (["t#ephemeral"], ["c#ephemeral"])
    assert db.producers("t#ephemeral", NOW_NS) == []
    assert db.peers() == ()


def test_traces_of_peers_are_cleared_before_a_slot_has_another() -> None:
    db = new_db()
    gone = add_peer(db, "gone")
    db.register(gone, "t", "c")
    db.tombstone("t", "gone:4151", NOW_NS)
    db.remove_peer(gone)
    assert db.has_traces

    clear_traces(db)
    other = add_peer(db, "other")

    assert not db.has_traces
    assert other.slot == gone.slot
    assert db.producers("t", NOW_NS) == []
    assert not db.has_tombstones(other)
    assert [hosts(holders.peers) for _, holders in db.registrations("t")] == [[], ["other"], []]


def test_traces_are_cleared_while_everything_changes() -> None:
    db = new_db()
    gone, here = add_peer(db, "gone"), add_peer(db, "here")
    for number in range(5):
        db.register(gone, f"t{number}", "c")
    db.remove_peer(gone)

    for number, _ in enumerate(db.clear_traces()):
        db.delete_topic(f"t{number % 5}")
        db.register(here, f"new{number}", "c")
        if number == 2:
            late = add_peer(db, "late")
            db.remove_peer(late)

    assert db.has_traces
    assert late.slot not in db._peers._free
    assert all(hosts(db.producers(topic, NOW_NS)) == ["here"] for topic in db.topics())


def test_silent_peers_are_left_out_until_they_ping() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "t")

    assert hosts(db.producers("t", NOW_NS + INACTIVE_NS)) == ["h1"]
    assert db.is_active(peer, NOW_NS + INACTIVE_NS)
    later_ns = NOW_NS + INACTIVE_NS + 1
    assert db.producers("t", later_ns) == []
    assert not db.is_active(peer, later_ns)
    db.register(peer, "t", "c")
    assert db.producers("t", later_ns) == []
    db.ping(peer, later_ns)
    assert hosts(db.producers("t", later_ns)) == ["h1"]


def test_a_tombstone_hides_a_producer_for_its_time() -> None:
    db = new_db()
    for host in ("h1", "h2"):
        db.register(add_peer(db, host), "t")

    assert hosts(db.tombstone("t", "h1:4151", NOW_NS)) == ["h1"]

    assert hosts(db.producers("t", NOW_NS + TOMBSTONE_NS - 1)) == ["h2"]
    assert hosts(db.producers("t", NOW_NS + TOMBSTONE_NS)) == ["h1", "h2"]
    assert db.tombstone_count == 1


def test_a_tombstone_needs_the_http_port_and_a_topic() -> None:
    db = new_db()
    db.register(add_peer(db), "t")

    assert db.tombstone("t", "h1:4150", NOW_NS) == []
    assert db.tombstone("other", "h1:4151", NOW_NS) == []


def test_a_tombstone_is_lifted_by_unregistering_not_by_registering_again() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "t")
    db.tombstone("t", "h1:4151", NOW_NS)

    db.register(peer, "t")
    assert db.producers("t", NOW_NS) == []
    db.unregister(peer, "t")
    db.register(peer, "t")

    assert hosts(db.producers("t", NOW_NS)) == ["h1"]


def test_deleted_topics_take_their_channels_and_come_back_when_registered() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "t", "c")
    db.tombstone("t", "h1:4151", NOW_NS)

    db.delete_topic("t")
    db.delete_topic("t")

    assert (db.topics(), db.channels("t"), db.key_count, peer.registration_count) == ([], [], 0, 0)
    db.register(peer, "t")
    assert hosts(db.producers("t", NOW_NS)) == ["h1"]


def test_deleted_channels() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "t", "c")

    assert db.delete_channel("t", "c")
    assert not db.delete_channel("t", "c")
    assert not db.delete_channel("none", "c")

    assert (db.channels("t"), db.key_count, peer.registration_count) == ([], 1, 1)


def test_names_may_be_made_without_a_peer() -> None:
    db = new_db()

    db.create("t")
    db.create("u", "c")
    db.create("u", "c")

    assert (db.topics(), db.channels("u"), db.key_count) == (["t", "u"], ["c"], 3)
    assert [registration for registration, holders in db.registrations() if holders.peers] == []


def test_topics_are_the_same_list_until_one_comes_or_goes() -> None:
    db = new_db()
    peer = add_peer(db)
    db.register(peer, "b")
    names = db.topics()

    db.register(peer, "b", "c")
    assert db.topics() is names
    db.register(peer, "a")

    assert (names, db.topics()) == (["b"], ["a", "b"])


def test_topics_are_collected_by_peer() -> None:
    db = new_db()
    a, b, unwanted = (add_peer(db, host) for host in "abc")
    for peer, topic in [(a, "t2"), (a, "t1"), (b, "t1"), (unwanted, "t3")]:
        db.register(peer, topic)
    found: dict[object, list[str]] = {a: [], b: []}

    steps = len(list(db.collect_topics(found)))  # type: ignore[arg-type]

    assert (found, steps) == ({a: ["t1", "t2"], b: ["t1"]}, 3)


@pytest.mark.parametrize("channel", ["", "c"])
def test_there_are_no_more_names_than_allowed(channel: str) -> None:
    db = new_db(max_registrations=2)
    peer = add_peer(db)
    db.create("a")
    db.create("b")

    with pytest.raises(RegistrationLimitError, match="limit of 2 registrations in all reached"):
        db.create("t", channel)
    with pytest.raises(RegistrationLimitError):
        db.register(peer, "t", channel)

    assert db.topics() == ["a", "b"]
    assert db.register(peer, "a") == [Registration("topic", "a")]


def test_a_peer_has_no_more_registrations_than_allowed() -> None:
    db = new_db(max_per_peer=2)
    peer, other = add_peer(db), add_peer(db, "h2")
    db.register(peer, "t", "c")

    with pytest.raises(RegistrationLimitError, match="limit of 2 registrations of one peer reached"):
        db.register(peer, "t", "d")

    assert db.register(peer, "t", "c") == []
    assert db.register(other, "t", "d")
    db.unregister(peer, "t", "c")
    assert db.register(peer, "t", "d")
