import random

from nsqlake.nsqlookupd.peers import MAX_REMEMBERED_SETS, PeerSlots
from tests.nsqlookupd.support import NOW_NS, hosts, node


def test_a_set_lists_its_peers_in_order() -> None:
    slots = PeerSlots()
    b, c, a = (slots.add("id", node(host), NOW_NS) for host in ("b", "c", "a"))

    assert hosts(slots.among(a.bit | b.bit | c.bit)) == ["a", "b", "c"]
    assert hosts(slots.among(c.bit)) == ["c"]
    assert slots.among(0) == ()


def test_a_peer_that_went_is_in_no_set() -> None:
    slots = PeerSlots()
    a, b = slots.add("1", node("a"), NOW_NS), slots.add("2", node("b"), NOW_NS)
    slots.among(a.bit | b.bit)

    slots.remove(a)

    assert hosts(slots.among(a.bit | b.bit)) == ["b"]
    assert (len(slots), slots.live, slots.gone) == (1, b.bit, a.bit)


def test_a_slot_is_used_again_only_when_its_bits_are_cleared() -> None:
    slots = PeerSlots()
    first = slots.add("1", node("a"), NOW_NS)
    slots.remove(first)

    second = slots.add("2", node("b"), NOW_NS)
    slots.release(first.bit)
    third = slots.add("3", node("c"), NOW_NS)

    assert second.slot != first.slot == third.slot
    assert hosts(slots.among(first.bit)) == ["c"]
    assert slots.gone == 0


def test_few_sets_are_remembered_however_many_are_asked_for() -> None:
    slots, rng = PeerSlots(), random.Random(1)
    for number in range(40):
        slots.add(str(number), node(f"h{number:02}"), NOW_NS)

    for _ in range(2 * MAX_REMEMBERED_SETS):
        bits = rng.getrandbits(40)
        assert len(slots.among(bits)) == bits.bit_count()

    assert len(slots._sets) <= MAX_REMEMBERED_SETS


def test_a_tombstone_names_a_peer_by_its_http_port() -> None:
    assert PeerSlots().add("1", node("::1", http_port=7), NOW_NS).http_node == "::1:7"
