from hypothesis import given
from hypothesis import strategies as st

from nsqlake.topiclog.gaps import Gaps

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(ranges=RANGES, start=st.integers(0, 90), length=st.integers(-5, 90), floor=st.integers(0, 90))
def test_gaps_agree_with_a_set(ranges: list[tuple[int, int]], start: int, length: int, floor: int) -> None:
    gaps, model = Gaps(), set[int]()
    for begin, size in ranges:
        gaps.add(begin, begin + size)
        model.update(range(begin, begin + size))

    assert gaps.missing(start, start + length) == len(model & set(range(start, start + length)))
    gaps.forget_below(floor)
    assert gaps.missing(floor, 200) == len(model & set(range(floor, 200)))


def test_touching_gaps_become_one() -> None:
    gaps = Gaps()

    gaps.add(10, 20)
    gaps.add(30, 40)
    gaps.add(20, 30)

    assert gaps.ranges() == [(10, 40)]
    assert len(gaps) == 1


def test_an_empty_range_is_no_gap() -> None:
    gaps = Gaps()

    gaps.add(10, 10)

    assert len(gaps) == 0
    assert gaps.missing(0, 100) == 0
