"""The queues a publish stands in, without a loop or a clock."""

import pytest

from nsqlake.client.producer.publication import (
    MIN_PURGE,
    PendingPublishes,
    Publication,
    Room,
    WaitingPublishes,
)


class PlainOutcome:
    """Settled by hand."""

    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def set_result(self, _result: None, /) -> None:
        self.is_done = True

    def set_exception(self, _error: BaseException, /) -> None:
        self.is_done = True


def publication(name: str = "", size_bytes: int = 10) -> Publication:
    return Publication(PlainOutcome(), name, b"PUB", size_bytes, 1, 0.0, 30.0, 0)


def give_up(abandoned: Publication) -> None:
    abandoned.outcome.set_result(None)


def names(publications: list[Publication]) -> str:
    return "".join(each.topic for each in publications)


def test_pending_publishes_leave_in_the_order_they_came() -> None:
    pending = PendingPublishes()
    for name in "abcd":
        pending.append(publication(name))

    assert names(pending.take(3)) == "abc"
    assert (len(pending), names(list(pending))) == (1, "d")
    assert names(pending.take_all()) == "d"
    assert pending.take_all() == []


def test_a_publish_that_was_given_up_keeps_its_place_among_the_pending() -> None:
    pending = PendingPublishes()
    for name in "abc":
        pending.append(publication(name))

    give_up(next(iter(pending)))

    assert names(pending.take(2)) == "ab"


def test_waiting_publishes_skip_those_given_up() -> None:
    waiting = WaitingPublishes()
    for name in "abc":
        waiting.append(publication(name))
    give_up(next(iter(waiting)))

    head = waiting.head()

    assert head is not None
    assert (head.topic, waiting.size_bytes) == ("b", 20)
    assert (waiting.pop().topic, waiting.size_bytes) == ("b", 10)


def test_nothing_waits_when_all_have_given_up() -> None:
    waiting = WaitingPublishes()
    waiting.append(publication())
    give_up(next(iter(waiting)))

    assert waiting.head() is None
    assert (len(waiting), waiting.size_bytes) == (0, 0)


def test_what_was_sent_before_goes_before_what_waits() -> None:
    waiting = WaitingPublishes()
    waiting.append(publication("c"))

    waiting.put_back([publication("a"), publication("b")])

    assert waiting.size_bytes == 30
    assert names(waiting.take_all()) == "abc"


def test_callers_that_give_up_do_not_pile_up() -> None:
    waiting = WaitingPublishes()
    for _ in range(10 * MIN_PURGE):
        abandoned = publication()
        waiting.append(abandoned)
        give_up(abandoned)

    assert len(waiting) <= MIN_PURGE


@pytest.mark.parametrize(("size_bytes", "fits"), [(50, True), (51, False)])
def test_room_is_bounded_in_bytes(size_bytes: int, fits: bool) -> None:
    room = Room(10, 100)
    room.take(50)

    assert room.fits(size_bytes) is fits


def test_room_is_bounded_in_publishes() -> None:
    room = Room(2, 1000)
    room.take(1)
    assert room.fits(1)
    room.take(1)
    assert not room.fits(1)

    room.give_back(1, 1)

    assert room.fits(1)


def test_a_publish_larger_than_all_room_goes_alone() -> None:
    room = Room(10, 100)
    assert room.fits(1000)

    room.take(1)

    assert not room.fits(1000)


def test_what_waits_counts_for_those_who_will_not_wait() -> None:
    room, waiting = Room(2, 100), WaitingPublishes()
    assert room.fits_behind(waiting, 1000)
    waiting.append(publication())
    assert room.fits_behind(waiting, 90)
    assert not room.fits_behind(waiting, 91)

    room.take(1)

    assert not room.fits_behind(waiting, 1)
