"""What became of every message, and how a journal brings it back."""

import numpy as np
import pytest

from nsqlake.nsqd.core.journal import Entry, Kind
from nsqlake.nsqd.core.ledger import Ledger
from tests.nsqd.core.harness import ID_BASE

PAGE = 4096
BASE = 10 * PAGE
SLOT = 7


def new_ledger(out: int = 0, cursor: int = BASE) -> Ledger:
    """A ledger of whose first messages `out` are with a consumer."""
    ledger = Ledger(ID_BASE, cursor)
    if out:
        ledger.deliver_fresh(cursor, out, SLOT)
    return ledger


def deliver_again(ledger: Ledger, offset: int) -> int:
    ledger.requeued.remove(offset)
    return ledger.deliver_again(offset, SLOT, now_ns=100, deadline_ns=200)


def replayed(entries: list[Entry]) -> Ledger:
    ledger = Ledger(ID_BASE, 0)
    assert ledger.replay(entries)
    return ledger


def state_of(ledger: Ledger) -> dict[str, object]:
    """What must be the same after a restart, when everything that was out waits."""
    out = {offset for first, count in ledger.out.runs() for offset in range(first, first + count)}
    waiting = dict(ledger.deferred.items()) | dict.fromkeys([*ledger.requeued, *out], 0)
    attempts = {offset: ledger.attempts.get(offset, int(offset in out)) for offset in waiting}
    return {"cursor": ledger.cursor, "waiting": waiting, "attempts": attempts}


def page_counts(ledger: Ledger) -> dict[int, tuple[int, int]]:
    return {number: (page.in_flight, page.waiting) for number, page in ledger.out.pages.items()}


# Out


def test_fresh_run_is_out_and_behind_the_cursor() -> None:
    ledger = new_ledger(3)

    assert ledger.cursor == BASE + 3
    assert ledger.out.count == 3
    assert ledger.pending.take() == [(Kind.DELIVER, BASE, 3, 0)]


def test_message_that_goes_out_again_counts_its_attempts() -> None:
    ledger = new_ledger(3)
    ledger.put_back(BASE + 1)

    assert deliver_again(ledger, BASE + 1) == 2
    assert ledger.deadlines.items() == [(BASE + 1, 200)]
    assert page_counts(ledger) == {BASE // PAGE: (3, 0)}


def test_dropped_message_is_passed_and_finished() -> None:
    ledger = new_ledger()

    ledger.drop_fresh(BASE, 1)

    assert ledger.cursor == BASE + 1
    assert ledger.pending.take() == [(Kind.DELIVER, BASE, 1, 0), (Kind.FINISH, BASE, 1, 0)]


def test_touched_message_has_a_deadline_of_its_own() -> None:
    ledger = new_ledger(2)

    ledger.extend(BASE, sent_ns=5, deadline_ns=50)
    ledger.extend(BASE, sent_ns=5, deadline_ns=60)

    assert ledger.deadlines.items() == [(BASE, 60)]
    assert ledger.sent_ns == {BASE: 5}
    assert ledger.attempts == {BASE: 1}


# Waiting


def test_message_put_back_is_ready_at_once_or_deferred() -> None:
    ledger = new_ledger(3)
    ledger.extend(BASE, sent_ns=5, deadline_ns=50)

    ledger.put_back(BASE)
    ledger.put_back(BASE + 1, due_ns=77)

    assert list(ledger.requeued) == [BASE]
    assert ledger.deferred.items() == [(BASE + 1, 77)]
    assert len(ledger.requeued) + len(ledger.deferred) == 2
    assert len(ledger.deadlines) == 0
    assert ledger.sent_ns == {}
    assert page_counts(ledger) == {BASE // PAGE: (1, 2)}


def test_deferred_messages_are_ready_when_their_time_has_come() -> None:
    ledger = new_ledger(3)
    ledger.put_back(BASE, due_ns=77)
    ledger.put_back(BASE + 1, due_ns=78)

    assert ledger.mature(76) == 0
    assert ledger.mature(77) == 1
    assert list(ledger.requeued) == [BASE]


def test_absorbed_block_waits_although_the_cursor_has_not_come_there() -> None:
    ledger = new_ledger()

    ledger.absorb(BASE + 10, 2, 99)

    assert ledger.deferred.items() == [(BASE + 10, 99), (BASE + 11, 99)]
    assert (ledger.ahead, ledger.absorbed, ledger.cursor) == (2, BASE + 12, BASE)
    ledger.mature(99)
    assert deliver_again(ledger, BASE + 10) == 1


def test_waiting_message_that_cannot_be_read_is_finished() -> None:
    ledger = new_ledger(2)
    ledger.put_back(BASE)
    ledger.put_back(BASE + 1)
    ledger.move_cursor(BASE + PAGE)

    for offset in (BASE, BASE + 1):
        assert ledger.requeued.popleft() == offset
        ledger.cancel_waiting(offset)

    assert not ledger.attempts
    assert not ledger.out.pages
    assert ledger.pending.take()[-1] == (Kind.FINISH, BASE, 2, 0)


def test_only_what_is_kept_goes_on_waiting() -> None:
    ledger = new_ledger(4)
    for offset, due_ns in [(BASE, 0), (BASE + 1, 0), (BASE + 2, 50), (BASE + 3, 60)]:
        ledger.put_back(offset, due_ns)

    ledger.keep_waiting(lambda offset: offset % 2 == 0)

    assert list(ledger.requeued) == [BASE]
    assert ledger.deferred.items() == [(BASE + 2, 50)]
    assert page_counts(ledger) == {BASE // PAGE: (0, 2)}
    assert set(ledger.attempts) == {BASE, BASE + 2}


def test_everything_goes_on_waiting_when_all_is_kept() -> None:
    ledger = new_ledger(2)
    ledger.put_back(BASE)
    queue = ledger.requeued

    ledger.keep_waiting(lambda _: True)

    assert ledger.requeued is queue


# Finished


def test_finished_run_leaves_nothing_behind() -> None:
    ledger = new_ledger(5)
    ledger.extend(BASE + 1, sent_ns=1, deadline_ns=50)
    ledger.extend(BASE + 4, sent_ns=1, deadline_ns=50)

    ledger.finish_run(BASE, 3)

    assert ledger.attempts == {BASE + 4: 1}
    assert ledger.sent_ns == {BASE + 4: 1}
    assert len(ledger.deadlines) == 1
    assert list(ledger.out.runs()) == [(BASE + 3, 2)]


def test_finished_message_among_many_touched_ones_is_found() -> None:
    ledger = new_ledger(5)
    for offset in range(BASE, BASE + 5):
        ledger.extend(offset, sent_ns=1, deadline_ns=50)

    ledger.finish_run(BASE + 2, 2)

    assert sorted(ledger.attempts) == [BASE, BASE + 1, BASE + 4]


def test_finished_offsets_may_lie_anywhere() -> None:
    ledger = new_ledger(PAGE - 1, cursor=BASE + 1)
    ledger.deliver_fresh(BASE + PAGE, 3, SLOT)
    ledger.pending.clear()
    ledger.extend(BASE + PAGE, sent_ns=1, deadline_ns=50)

    ledger.finish_offsets(np.array([BASE + 1, BASE + 2, BASE + 4, BASE + PAGE]))

    assert ledger.pending.take() == [
        (Kind.FINISH, BASE + 1, 2, 0),
        (Kind.FINISH, BASE + 4, 1, 0),
        (Kind.FINISH, BASE + PAGE, 1, 0),
    ]
    assert not ledger.attempts
    assert ledger.out.count == PAGE - 1 - 3 + 2


def test_finished_offsets_without_any_of_their_own_state() -> None:
    ledger = new_ledger(3)

    ledger.finish_offsets(np.array([BASE, BASE + 2]))

    assert list(ledger.out.runs()) == [(BASE + 1, 1)]


def test_page_goes_when_the_cursor_has_left_it_and_all_is_finished() -> None:
    ledger = new_ledger(2, cursor=BASE + PAGE - 2)
    number = BASE // PAGE
    assert number in ledger.out.pages

    ledger.finish_run(BASE + PAGE - 2, 2)
    assert number not in ledger.out.pages

    other = new_ledger(2)
    other.finish_run(BASE, 2)
    assert number in other.out.pages
    other.move_cursor(BASE + PAGE)
    assert number not in other.out.pages


def test_reset_forgets_everything() -> None:
    ledger = new_ledger(5)
    ledger.put_back(BASE)
    ledger.put_back(BASE + 1, 50)

    ledger.reset(BASE + 100)

    assert state_of(ledger) == {"cursor": BASE + 100, "waiting": {}, "attempts": {}}
    assert ledger.out.count == 0
    assert ledger.pending.take() == [(Kind.RESET, BASE + 100, BASE + 100, 0)]


# What storage may forget


@pytest.mark.parametrize(
    ("base", "end", "is_held"),
    [
        (BASE - 2 * PAGE, BASE - PAGE, False),
        (BASE, BASE + 10, True),
        (BASE + 1, BASE + 10, False),
        (BASE, BASE + PAGE, True),
        (BASE + PAGE, BASE + 2 * PAGE, False),
        (BASE + 2 * PAGE, BASE + 3 * PAGE, True),
        (BASE + 2 * PAGE, BASE + 2 * PAGE + 5, False),
        (BASE + 2 * PAGE, BASE + 2 * PAGE + 6, True),
        (BASE + 2 * PAGE + 6, BASE + 2 * PAGE + 7, True),
        (BASE + 2 * PAGE + 7, BASE + 3 * PAGE, False),
        (BASE + 3 * PAGE, BASE + 3 * PAGE + 6, True),
        (0, BASE + 3 * PAGE, True),
        (0, BASE, False),
        (BASE + PAGE, BASE + 2 * PAGE + 6, True),
    ],
)
def test_range_is_held_while_anything_in_it_is_out_waits_or_is_fresh(
    base: int, end: int, is_held: bool
) -> None:
    ledger = new_ledger(1)
    first = BASE + 2 * PAGE
    ledger.move_cursor(first)
    ledger.deliver_fresh(first, 7, SLOT)
    ledger.finish_run(first, 5)
    ledger.put_back(first + 5)
    ledger.put_back(first + 6, due_ns=99)
    ledger.move_cursor(BASE + 3 * PAGE + 5)

    assert ledger.holds(base, end) is is_held


def test_page_on_which_nothing_happens_any_more_holds_nothing() -> None:
    ledger = new_ledger(3)
    ledger.finish_run(BASE, 3)

    assert not ledger.holds(BASE, BASE + 3)


def test_with_very_many_requeued_the_whole_page_is_held() -> None:
    ledger = new_ledger(PAGE)
    ledger.deliver_fresh(BASE + PAGE, 2, SLOT)
    for offset in range(BASE, BASE + PAGE + 1):
        ledger.put_back(offset)
    ledger.move_cursor(BASE + 2 * PAGE)

    assert ledger.holds(BASE + PAGE + 5, BASE + PAGE + 9)


# Journal


def busy_ledger() -> Ledger:
    """One of every kind of message."""
    ledger = new_ledger(20, cursor=BASE + PAGE - 20)
    first = BASE + PAGE - 20
    ledger.deliver_fresh(first + 20, 10, SLOT)
    ledger.finish_run(first, 2)
    ledger.put_back(first + 3)
    ledger.put_back(first + 4, 77)
    ledger.put_back(first + 5)
    deliver_again(ledger, first + 5)
    ledger.extend(first + 6, sent_ns=1, deadline_ns=50)
    ledger.absorb(first + 40, 3, 99)
    ledger.mature(77)
    ledger.finish_offsets(np.array([first + 8, first + 25]))
    return ledger


def test_snapshot_brings_everything_back() -> None:
    ledger = busy_ledger()

    again = replayed(ledger.snapshot())

    assert state_of(again) == state_of(ledger)
    assert again.absorbed == ledger.absorbed
    assert again.out.count == 0
    assert not again.pending


@pytest.mark.parametrize("special", [[0], [2], [4], [0, 1], [1, 3], [0, 4]])
def test_snapshot_keeps_the_attempts_of_every_message_that_is_out(special: list[int]) -> None:
    ledger = new_ledger(5)
    for number in special:
        ledger.put_back(BASE + number)
        deliver_again(ledger, BASE + number)

    again = replayed(ledger.snapshot())

    assert again.attempts == {BASE + number: 2 if number in special else 1 for number in range(5)}


def test_snapshot_of_a_snapshot_is_the_same() -> None:
    once = replayed(busy_ledger().snapshot())

    twice = replayed(once.snapshot())

    assert state_of(twice) == state_of(once)
    assert page_counts(twice) == page_counts(once)


def test_entries_bring_back_the_same_as_a_snapshot_but_for_times_that_have_come() -> None:
    ledger = busy_ledger()
    entries = [(Kind.RESET, BASE + PAGE - 20, BASE + PAGE - 20, 0), *ledger.pending.take()]

    again = replayed(entries)
    again.mature(77)

    assert state_of(again) == state_of(ledger)
    assert again.absorbed == ledger.absorbed


def test_later_reset_wins() -> None:
    entries = [*busy_ledger().snapshot(), (Kind.RESET, BASE + 500, BASE + 600, 0)]

    again = replayed(entries)

    assert state_of(again) == {"cursor": BASE + 500, "waiting": {}, "attempts": {}}
    assert again.absorbed == BASE + 600


def test_finish_of_what_waited_ends_it() -> None:
    entries: list[Entry] = [
        (Kind.RESET, BASE, BASE, 0),
        (Kind.DELIVER, BASE, 3, 0),
        (Kind.WAIT, BASE, 4, 0),
        (Kind.WAIT, BASE, 5, 0),
        (Kind.FINISH, BASE, 2, 0),
    ]

    again = replayed(entries)

    assert state_of(again) == {"cursor": BASE + 3, "waiting": {BASE + 2: 0}, "attempts": {BASE + 2: 1}}


def test_attempt_of_a_message_that_is_out_counts_it_once() -> None:
    again = Ledger(ID_BASE, 0)

    assert again.replay([(Kind.RESET, BASE, BASE, 0), (Kind.DELIVER, BASE, 2, 0), (Kind.ATTEMPT, BASE, 5, 0)])

    assert list(again.requeued) == [BASE, BASE + 1]
    assert again.attempts == {BASE: 5, BASE + 1: 1}


def test_finish_that_ends_everything_leaves_nothing() -> None:
    again = replayed([(Kind.RESET, BASE, BASE, 0), (Kind.DELIVER, BASE, 3, 0), (Kind.FINISH, BASE, 3, 0)])

    assert state_of(again) == {"cursor": BASE + 3, "waiting": {}, "attempts": {}}
    assert not again.out.pages


def test_entry_of_an_unknown_kind_is_left_out() -> None:
    again = replayed([(Kind.RESET, BASE, BASE, 0), (99, 1, 2, 3), (Kind.DELIVER, BASE, 1, 0)])

    assert again.cursor == BASE + 1


def test_journal_without_a_beginning_is_refused() -> None:
    assert not Ledger(ID_BASE, BASE).replay([(Kind.DELIVER, BASE, 3, 0)])
    assert not Ledger(ID_BASE, BASE).replay([])
