"""Which deliveries make rows, and which only repeat one."""

from dataclasses import dataclass

from nsqlake.spark.consume.deliveries import Deliveries


@dataclass
class Delivered:
    id: bytes
    body: bytes = b"body"
    nsqd_address: str = "n1:4150"
    is_cancelled: bool = False


def deliveries(*messages: Delivered, kept_ids: int = 1000) -> Deliveries[Delivered]:
    made: Deliveries[Delivered] = Deliveries(kept_ids)
    for message in messages:
        assert made.arrive(message)
    return made


def test_messages_are_taken_in_the_order_they_came() -> None:
    a, b, c = (Delivered(id_) for id_ in (b"a", b"b", b"c"))
    found = deliveries(a, b, c)

    assert found.next_batch(1, 2, None) == [a, b]
    assert found.next_batch(2, 2, None) == [c]
    assert found.next_batch(3, 2, None) == []


def test_a_batch_ends_with_the_message_that_fills_its_bytes() -> None:
    found = deliveries(*(Delivered(b"%d" % number, body=b"1234567890") for number in range(5)))

    assert len(found.next_batch(1, 100, 15)) == 2


def test_what_nsqd_has_given_up_is_not_taken() -> None:
    expired, live = Delivered(b"a", is_cancelled=True), Delivered(b"b")
    found = deliveries(expired, live)

    assert found.next_batch(1, 10, None) == [live]


def test_nothing_is_finished_before_its_batch_is_done() -> None:
    a, b = Delivered(b"a"), Delivered(b"b")
    found = deliveries(a)
    found.next_batch(1, 10, None)
    found.arrive(b)
    found.next_batch(2, 10, None)

    assert found.settle(0) == []
    assert found.settle(1) == [a]
    assert found.settle(1) == []
    assert found.settle(2) == [b]


def test_a_message_that_comes_again_while_its_batch_runs_is_finished_by_its_last_delivery() -> None:
    first, second = Delivered(b"a"), Delivered(b"a")
    found = deliveries(first)
    found.next_batch(1, 10, None)

    found.arrive(second)

    assert found.next_batch(2, 10, None) == []
    (finished,) = found.settle(1)
    assert finished is second


def test_a_message_that_comes_again_while_it_waits_is_taken_once() -> None:
    first, second = Delivered(b"a"), Delivered(b"a")

    (taken,) = deliveries(first, second).next_batch(1, 10, None)

    assert taken is second


def test_a_message_whose_batch_is_done_is_not_wanted() -> None:
    found = deliveries(Delivered(b"a"))
    found.next_batch(1, 10, None)
    found.settle(1)
    found.remember(0, [("n1:4150", "b")])

    assert not found.arrive(Delivered(b"a"))
    assert not found.arrive(Delivered(b"b"))


def test_the_same_id_of_another_nsqd_is_another_message() -> None:
    found = deliveries(Delivered(b"a"), Delivered(b"a", nsqd_address="n2:4150"))

    assert len(found.next_batch(1, 10, None)) == 2


def test_ids_of_the_oldest_batches_are_forgotten_first() -> None:
    found = deliveries(kept_ids=3)
    for number in (1, 2, 3):
        found.remember(number, [("n1:4150", f"{number}{letter}") for letter in "ab"])

    assert found.forget() == [1, 2]
    assert found.arrive(Delivered(b"2a"))
    assert not found.arrive(Delivered(b"3a"))


def test_the_newest_batch_is_never_forgotten() -> None:
    found = deliveries(kept_ids=1)
    found.remember(1, [("n1:4150", id_) for id_ in "abc"])

    assert found.forget() == []


def test_everything_that_is_not_done_is_to_be_given_back() -> None:
    a, b = Delivered(b"a"), Delivered(b"b")
    found = deliveries(a, b)
    found.next_batch(1, 1, None)

    assert found.unfinished() == [a, b]
    found.settle(1)
    assert found.unfinished() == [b]
