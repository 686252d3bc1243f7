"""Messages that wait for a time."""

from nsqlake.nsqd.core.deferred import Deferred


def test_messages_come_in_order_of_their_time() -> None:
    deferred = Deferred()
    for offset, due_ns in [(1, 30), (2, 10), (3, 20)]:
        deferred.add(offset, due_ns)

    assert deferred.next_due_ns() == 10
    assert deferred.pop_due(9) == []
    assert deferred.pop_due(20) == [2, 3]
    assert deferred.items() == [(1, 30)]
    assert len(deferred) == 1


def test_cancelled_message_does_not_come() -> None:
    deferred = Deferred()
    deferred.add(1, 10)
    deferred.add(2, 20)

    assert deferred.cancel(1)
    assert not deferred.cancel(1)

    assert 1 not in deferred
    assert 2 in deferred
    assert deferred.next_due_ns() == 20
    assert deferred.pop_due(100) == [2]


def test_message_that_is_added_again_comes_once_at_its_new_time() -> None:
    deferred = Deferred()
    deferred.add(1, 10)
    deferred.add(1, 30)
    deferred.add(1, 30)

    assert deferred.next_due_ns() == 30
    assert deferred.pop_due(29) == []
    assert deferred.pop_due(30) == [1]
    assert deferred.next_due_ns() is None


def test_stale_entries_are_skipped_when_they_come_due() -> None:
    deferred = Deferred()
    deferred.add(1, 10)
    deferred.add(1, 30)

    assert deferred.pop_due(20) == []
    assert len(deferred) == 1


def test_memory_stays_bounded_however_often_a_message_is_added_again() -> None:
    deferred = Deferred()

    for due_ns in range(10_000):
        deferred.add(7, due_ns)

    assert len(deferred._heap) < 2_000
    assert deferred.pop_due(10_000) == [7]


def test_memory_stays_bounded_however_many_are_cancelled() -> None:
    deferred = Deferred()
    deferred.add(0, 5)

    for offset in range(1, 10_000):
        deferred.add(offset, 1000 + offset)
        deferred.cancel(offset)

    assert len(deferred._heap) < 2_000
    assert deferred.items() == [(0, 5)]


def test_the_next_due_are_listed_in_order_and_stay() -> None:
    deferred = Deferred()
    for offset, due_ns in ((1, 30), (2, 10), (3, 20), (4, 10)):
        deferred.add(offset, due_ns)

    assert deferred.earliest(3) == [(10, 2), (10, 4), (20, 3)]
    assert deferred.earliest(9, after=(10, 2)) == [(10, 4), (20, 3), (30, 1)]
    assert deferred.earliest(9, after=(30, 1)) == []
    assert (deferred.due_ns(3), deferred.due_ns(5), len(deferred)) == (20, 0, 4)
