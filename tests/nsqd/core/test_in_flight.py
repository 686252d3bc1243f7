"""Which messages are out, and with whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.nsqd.core.in_flight import InFlight
from tests.nsqd.core.harness import ID_BASE, fin_lines

PAGE = 4096
BASE = 10 * PAGE


def out_with(*runs: tuple[int, int, int]) -> InFlight:
    """(first, count, slot), counted from BASE."""
    out = InFlight(ID_BASE)
    for first, count, slot in runs:
        out.hand_out(BASE + first, count, slot)
    return out


def offsets(*numbers: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([BASE + number for number in numbers], np.int64)


@pytest.mark.parametrize("count", [1, 2, 100])
def test_run_that_is_handed_out_has_an_owner(count: int) -> None:
    out = out_with((5, count, 513))

    assert [out.owner(BASE + at) for at in (4, 5, 4 + count, 5 + count)] == [0, 513, 513, 0]
    assert out.owner(BASE + 5 * PAGE) == 0
    assert out.count == count


def test_page_is_made_once() -> None:
    out = InFlight(ID_BASE)

    assert out.page(3) is out.page(3)


def test_message_that_is_taken_back_has_no_owner() -> None:
    out = out_with((0, 3, 7))

    out.take_back(BASE + 1)

    assert [out.owner(BASE + at) for at in range(3)] == [7, 0, 7]
    assert out.count == 2


@pytest.mark.parametrize("count", [1, 3])
def test_run_that_is_cleared_leaves_the_rest(count: int) -> None:
    out = out_with((0, 5, 7))

    out.clear_run(BASE + 1, count)

    assert list(out.runs()) == [(BASE, 1), (BASE + 1 + count, 4 - count)]
    assert out.count == 5 - count


def test_fins_in_order_are_matched_with_their_run() -> None:
    out = out_with((100, 50, 7))

    assert out.match_in_order(fin_lines(range(BASE + 100, BASE + 150)), 7) == (BASE + 100, 50)
    assert out.match_in_order(fin_lines(range(BASE + 120, BASE + 122)), 7) == (BASE + 120, 2)


@pytest.mark.parametrize(
    ("lines", "slot"),
    [
        (fin_lines([BASE, BASE + 2]), 7),
        (fin_lines([BASE + 1, BASE]), 7),
        (fin_lines([BASE, BASE + 1]), 8),
        (fin_lines(range(BASE + 8, BASE + 12)), 7),
        (fin_lines([BASE + 3 * PAGE, BASE + 3 * PAGE + 1]), 7),
        (b"FIN %b\n" % (b"z" * 16) * 2, 7),
        (b"FIN 0x%014x\n" % BASE * 2, 7),
        (fin_lines([BASE]).upper() * 2, 7),
        (b"FIN %016x\nFIN %016x\n" % (BASE, BASE + 1), 7),
    ],
)
def test_fins_that_are_no_run_of_the_owner_are_not_matched(lines: bytes, slot: int) -> None:
    out = out_with((0, 10, 7), (10, 5, 9))

    assert out.match_in_order(lines, slot) is None


def test_run_of_fins_over_the_end_of_a_page_is_not_matched() -> None:
    out = out_with((PAGE - 2, 2, 7), (PAGE, 2, 7))

    assert out.match_in_order(fin_lines(range(BASE + PAGE - 2, BASE + PAGE + 2)), 7) is None
    assert out.match_in_order(fin_lines(range(BASE + PAGE - 2, BASE + PAGE)), 7) == (BASE + PAGE - 2, 2)


def test_any_offsets_are_held_only_if_all_are() -> None:
    out = out_with((PAGE - 2, 2, 7), (PAGE, 2, 7), (5, 1, 8))

    assert out.are_held(offsets(PAGE - 1, PAGE, PAGE + 1), 7)
    assert not out.are_held(offsets(5, PAGE), 7)
    assert not out.are_held(offsets(PAGE, PAGE + 2), 7)
    assert not out.are_held(offsets(PAGE, 9 * PAGE), 7)


def test_any_offsets_are_cleared_over_pages() -> None:
    out = out_with((PAGE - 2, 2, 7), (PAGE, 3, 7))

    out.clear(offsets(PAGE - 1, PAGE, PAGE + 2))

    assert list(out.runs()) == [(BASE + PAGE - 2, 1), (BASE + PAGE + 1, 1)]
    assert out.count == 2


def test_what_a_consumer_still_holds_of_a_run_is_found() -> None:
    out = out_with((0, 6, 7))
    out.take_back(BASE + 2)
    out.take_back(BASE + 3)
    out.hand_out(BASE + 3, 1, 8)

    assert out.held_by(7, BASE + 1, 4) == [BASE + 1, BASE + 4]
    assert out.held_by(7, BASE + 3 * PAGE, 4) == []


def test_run_is_over_when_nobody_holds_any_of_it() -> None:
    out = out_with((0, 3, 7), (9, 1, 7))
    assert not out.is_run_over(BASE, 3)

    out.clear_run(BASE, 3)

    assert out.is_run_over(BASE, 3)
    assert out.is_run_over(BASE + 5 * PAGE, 3)
    assert not out.is_run_over(BASE, 10)


def test_page_on_which_nothing_is_out_has_no_runs() -> None:
    out = out_with((0, 2, 7))
    out.clear_run(BASE, 2)

    assert out.held_by(7, BASE, 2) == []
    assert out.is_run_over(BASE, 2)
    assert list(out.runs()) == []


def test_page_is_dropped_only_when_nothing_is_out_or_waits() -> None:
    out = out_with((0, 1, 7))
    number = BASE // PAGE
    out.drop_if_unused(number)
    assert number in out.pages

    out.pages[number].waiting += 1
    out.take_back(BASE)
    out.drop_if_unused(number)
    assert number in out.pages

    out.pages[number].waiting -= 1
    out.drop_if_unused(number)
    out.drop_if_unused(number)
    assert not out.pages


def test_prepared_fin_lines_stay_those_of_their_page() -> None:
    out = out_with((0, PAGE, 7), (PAGE, PAGE, 7))

    for first in (BASE, BASE + PAGE):
        assert out.match_in_order(fin_lines(range(first, first + PAGE)), 7) == (first, PAGE)
        assert out.match_in_order(fin_lines(range(first + 1, first + 4)), 7) == (first + 1, 3)


@given(st.sets(st.integers(0, 3 * PAGE), min_size=1, max_size=40))
def test_runs_are_exactly_what_is_out(numbers: set[int]) -> None:
    out = out_with(*[(number, 1, 7) for number in numbers])

    found = [offset for first, count in out.runs() for offset in range(first, first + count)]

    assert found == sorted(BASE + number for number in numbers)


@pytest.mark.parametrize(
    ("below", "held", "left"),
    [
        (0, {}, 20),
        (3, {7: 3}, 17),
        (PAGE, {7: 10}, 10),
        (PAGE + 6, {7: 12, 8: 4}, 4),
        (9 * PAGE, {7: 16, 8: 4}, 0),
    ],
)
def test_what_lies_below_an_offset_is_taken_from_its_owners(
    below: int, held: dict[int, int], left: int
) -> None:
    out = out_with((0, 10, 7), (PAGE, 2, 7), (PAGE + 2, 4, 8), (PAGE + 6, 4, 7))

    assert out.clear_below(BASE + below) == held
    assert out.count == left == sum(count for _, count in out.runs())
    assert all(first >= BASE + below for first, _ in out.runs())
    assert sum(page.in_flight for page in out.pages.values()) == left
