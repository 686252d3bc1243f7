"""The readable part of a log."""

import pytest

from nsqlake.nsqd.core.backlog import Backlog
from tests.nsqd.core.support import FIRST, MovingLog
from tests.topiclog.support import append


def filled(*counts: int, due_ns: int = 0) -> Backlog:
    """A backlog over blocks of so many messages, all of which flow."""
    log = MovingLog()
    for count in counts:
        append(log, [b"body"] * count, due_ns=due_ns)
    return Backlog(log, log.next)


def readable(backlog: Backlog) -> list[int]:
    """The offsets one gets by reading on and on."""
    offsets: list[int] = []
    at = 0
    while (found := backlog.read(at)) is not None:
        span, begin, stop = found
        assert span.base <= begin < stop <= span.end
        offsets += range(begin, stop)
        at = stop
    return offsets


def test_everything_below_fanout_is_readable_and_counted() -> None:
    backlog = filled(3, 4)
    backlog.fanout = FIRST + 3

    assert readable(backlog) == [FIRST, FIRST + 1, FIRST + 2]
    assert backlog.count(FIRST, backlog.fanout) == 3


def test_run_ends_at_fanout_within_a_span() -> None:
    backlog = filled(5)
    backlog.fanout = FIRST + 2

    assert readable(backlog) == [FIRST, FIRST + 1]
    assert backlog.read(FIRST + 2) is None


def test_nothing_is_read_where_the_first_message_lies_beyond_fanout() -> None:
    backlog = Backlog(MovingLog(), FIRST + 100)
    append(backlog.log, [b"x"])
    backlog.fanout = FIRST - 5

    assert backlog.read(FIRST - 10) is None


def test_log_that_ends_before_fanout_has_no_more() -> None:
    backlog = filled(2)
    backlog.fanout = FIRST + 1000

    assert backlog.read(FIRST + 2) is None


def test_log_that_ends_before_fanout_has_no_more_behind_an_emptied_part() -> None:
    backlog = filled(2, 2)
    backlog.skip(FIRST, FIRST + 2)
    backlog.fanout = FIRST + 1000

    assert readable(backlog) == [FIRST + 2, FIRST + 3]


@pytest.mark.parametrize(
    ("emptied", "left"),
    [
        ([(0, 2)], [2, 3, 4, 5, 6, 7]),
        ([(2, 4)], [0, 1, 4, 5, 6, 7]),
        ([(2, 4), (4, 6)], [0, 1, 6, 7]),
        ([(0, 2), (2, 4), (4, 8)], []),
        ([(0, 2), (6, 8)], [2, 3, 4, 5]),
        ([(4, 4)], [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_what_was_emptied_is_neither_read_nor_counted(
    emptied: list[tuple[int, int]], left: list[int]
) -> None:
    backlog = filled(2, 2, 2, 2)

    for start, stop in emptied:
        backlog.skip(FIRST + start, FIRST + stop)

    assert readable(backlog) == [FIRST + offset for offset in left]
    assert backlog.count(0, backlog.fanout) == len(left)
    assert [backlog.count(FIRST + i, FIRST + i + 1) for i in range(8)] == [int(i in left) for i in range(8)]


def test_emptied_part_behind_a_gap_is_skipped_too() -> None:
    log = MovingLog()
    append(log, [b"a", b"b"])
    log.next += 1000
    append(log, [b"c", b"d"])
    append(log, [b"e"])
    backlog = Backlog(log, log.next)

    backlog.skip(FIRST, FIRST + 2)
    backlog.skip(FIRST + 1002, FIRST + 1004)

    assert readable(backlog) == [FIRST + 1004]


def test_emptied_parts_are_given_and_taken_for_the_state_file() -> None:
    backlog = filled(4, 4)
    backlog.skip(FIRST, FIRST + 2)
    backlog.skip(FIRST + 4, FIRST + 6)

    again = Backlog(backlog.log, backlog.fanout, list(reversed(backlog.emptied)))

    assert again.emptied == [(FIRST, FIRST + 2), (FIRST + 4, FIRST + 6)]
    assert readable(again) == readable(backlog)


def test_emptied_parts_are_forgotten_once_storage_let_go_of_them() -> None:
    backlog = filled(8)
    backlog.skip(FIRST, FIRST + 2)
    backlog.skip(FIRST + 4, FIRST + 6)

    backlog.forget_before(FIRST + 2)

    assert backlog.emptied == [(FIRST + 4, FIRST + 6)]


def test_count_of_an_empty_range_is_zero() -> None:
    assert filled(3).count(FIRST + 2, FIRST + 1) == 0


def test_blocks_with_a_delay_are_listed_unless_they_were_emptied() -> None:
    backlog = filled(2, 3, due_ns=77)

    backlog.skip(FIRST, FIRST + 2)

    assert backlog.due_blocks(FIRST, backlog.fanout) == [(FIRST + 2, 3, 77)]
    assert backlog.count_due(FIRST, backlog.fanout) == 3


def test_only_the_part_of_a_delayed_block_that_was_asked_for_counts() -> None:
    backlog = filled(4, due_ns=7)

    assert backlog.count_due(FIRST, FIRST + 4) == 4
    assert backlog.count_due(FIRST + 1, FIRST + 3) == 2
    assert backlog.count_due(FIRST + 3, FIRST + 1) == 0


def test_reading_up_to_another_limit_than_fanout() -> None:
    backlog = filled(2, 3)
    backlog.fanout = FIRST + 2
    backlog.skip(FIRST, FIRST + 2)

    found = backlog.read_up_to(FIRST, FIRST + 4)

    assert found is not None
    assert found[1:] == (FIRST + 2, FIRST + 4)
    assert backlog.read_up_to(FIRST, FIRST + 2) is None
