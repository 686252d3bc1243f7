from nsqlake.nsqlookupd.peers import PeerSlots
from nsqlake.nsqlookupd.tombstones import Tombstones
from tests.nsqlookupd.support import NOW_NS, node


def test_a_tombstone_is_of_one_peer_and_one_topic_until_it_is_lifted() -> None:
    slots, tombstones = PeerSlots(), Tombstones()
    a, b = slots.add("1", node("a"), NOW_NS), slots.add("2", node("b"), NOW_NS)

    tombstones.mark("t", a, NOW_NS)
    tombstones.mark("t", a, NOW_NS + 1)

    assert tombstones.of_topic("t") == {a.slot: NOW_NS + 1}
    assert tombstones.of_topic("other") == {}
    assert (tombstones.has_any(a), tombstones.has_any(b), len(tombstones)) == (True, False, 1)
    tombstones.lift("t", a.slot)
    tombstones.lift("t", a.slot)
    tombstones.lift("none", a.slot)
    assert (len(tombstones), tombstones._topics) == (0, {})


def test_those_of_a_topic_or_of_gone_peers_go_together() -> None:
    slots, tombstones = PeerSlots(), Tombstones()
    a, b = slots.add("1", node("a"), NOW_NS), slots.add("2", node("b"), NOW_NS)
    for topic in ("t", "u"):
        tombstones.mark(topic, a, NOW_NS)
        tombstones.mark(topic, b, NOW_NS)

    tombstones.forget_topic("t")
    assert len(list(tombstones.clear(a.bit))) == 1

    assert tombstones.of_topic("t") == {}
    assert tombstones.of_topic("u") == {b.slot: NOW_NS}
