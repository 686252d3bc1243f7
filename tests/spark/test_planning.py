"""Parts of about equal size, and limits that hold."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nsqlake.spark.offsets import SourceKey
from nsqlake.spark.planning import LogRange, LogSizes, Mark, cut_to_limits, plan_parts

A, B = SourceKey("a", "n:1"), SourceKey("b", "n:1")
JUMP = 1 << 30


def even(messages: int, *, start: int = 1000, size: int = 10, step: int = 100) -> LogSizes:
    """A log without holes, with a mark every `step` messages."""
    ends = [*range(step, messages, step), messages]
    return LogSizes(start, [Mark(start + end, end * size, end) for end in ends])


def plan(wished: int, **sizes: LogSizes) -> list[tuple[LogRange, ...]]:
    keys = {SourceKey(topic, "n:1"): each for topic, each in sizes.items()}
    return plan_parts(keys, dict.fromkeys(keys, "f00d"), wished)


def test_one_log_is_cut_into_equal_parts() -> None:
    parts = plan(4, a=even(1000))

    assert [(each.start, each.end) for (each,) in parts] == [
        (1000, 1250),
        (1250, 1500),
        (1500, 1750),
        (1750, 2000),
    ]
    assert {each.nbytes for (each,) in parts} == {2500}


def test_small_logs_share_a_task() -> None:
    parts = plan(2, **{f"t{number:02}": even(10) for number in range(50)})

    assert [len(part) for part in parts] == [25, 25]


def test_a_large_log_is_cut_and_a_small_one_goes_along() -> None:
    parts = plan(3, a=even(10), b=even(1000))

    assert [[each.topic for each in part] for part in parts] == [["a", "b"], ["b"], ["b"]]


def test_there_is_no_part_without_messages() -> None:
    nothing = LogSizes(5, [])
    hole = LogSizes(5, [Mark(5 + JUMP, 0, 0)])

    assert plan(4, a=nothing, b=hole) == []
    assert plan(1, a=nothing, b=even(1)) == [(LogRange("b", "n:1", "f00d", 1000, 1001, 10),)]


def test_there_are_not_more_parts_than_messages() -> None:
    parts = plan(50, a=even(3, size=100))

    assert [(each.start, each.end) for (each,) in parts] == [(1000, 1001), (1001, 1002), (1002, 1003)]


def test_where_offsets_are_missing_a_cut_is_made_at_a_mark() -> None:
    marks = [Mark(1100, 1000, 100), Mark(1200 + JUMP, 2000, 200), Mark(1300 + JUMP, 3000, 300)]

    parts = plan(2, a=LogSizes(1000, marks))

    assert [(each.start, each.end) for (each,) in parts] == [(1000, 1100), (1100, 1300 + JUMP)]


@st.composite
def logs(draw: st.DrawFn) -> LogSizes:
    offset = start = draw(st.integers(0, 1 << 50))
    nbytes = messages = 0
    marks = []
    for count, size, hole in draw(
        st.lists(st.tuples(st.integers(1, 500), st.integers(1, 99), st.sampled_from((0, 0, 7, JUMP))))
    ):
        offset, nbytes, messages = offset + count + hole, nbytes + count * size, messages + count
        marks.append(Mark(offset, nbytes, messages))
    return LogSizes(start, marks)


@given(st.dictionaries(st.sampled_from("abcd"), logs()), st.integers(1, 40))
def test_parts_are_all_there_is_once_and_in_order(sizes: dict[str, LogSizes], wished: int) -> None:
    parts = plan(wished, **sizes)

    assert len(parts) <= wished
    ranges = [each for part in parts for each in part]
    for topic, each in sizes.items():
        mine = [found for found in ranges if found.topic == topic]
        if not each.nbytes:
            assert not mine
            continue
        assert mine[0].start == each.start
        assert mine[-1].end == each.end
        assert all(one.end == other.start for one, other in itertools.pairwise(mine))
        assert all(found.start < found.end for found in mine)


# Limits -----------------------------------------------------------------------------------------------


def test_without_a_limit_all_is_read() -> None:
    assert cut_to_limits({A: even(1000), B: even(10)}) == {A: 2000, B: 1010}


def test_a_limit_that_is_not_reached_cuts_nothing() -> None:
    assert cut_to_limits({A: even(1000)}, max_messages=1000, max_bytes=10_000) == {A: 2000}


def test_a_limit_of_messages_is_shared_by_size() -> None:
    cut = cut_to_limits({A: even(900), B: even(100)}, max_messages=100)

    assert cut == {A: 1090, B: 1010}


def test_a_limit_of_bytes_holds_when_large_messages_come_first() -> None:
    marks = [Mark(1010, 10_000_000, 10), Mark(101_010, 11_000_000, 100_010)]

    cut = cut_to_limits({A: LogSizes(1000, marks)}, max_bytes=2_000_000)

    assert cut == {A: 1002}


def test_the_tighter_limit_wins() -> None:
    assert cut_to_limits({A: even(1000)}, max_messages=500, max_bytes=1000) == {A: 1100}
    assert cut_to_limits({A: even(1000)}, max_messages=50, max_bytes=5000) == {A: 1050}


def test_every_log_with_messages_goes_on_at_least_by_one() -> None:
    assert cut_to_limits({A: even(100_000), B: even(1)}, max_messages=10) == {A: 1009, B: 1001}


def test_a_hole_without_messages_is_passed_at_once() -> None:
    hole = LogSizes(5, [Mark(5 + JUMP, 0, 0)])

    assert cut_to_limits({A: hole, B: even(1000)}, max_messages=10) == {A: 5 + JUMP, B: 1010}


def test_where_offsets_are_missing_a_limit_ends_at_a_mark() -> None:
    sizes = LogSizes(1000, [Mark(1100, 1000, 100), Mark(1200 + JUMP, 2000, 200)])

    assert cut_to_limits({A: sizes}, max_messages=150) == {A: 1100}
    assert cut_to_limits({A: LogSizes(1000, [Mark(1100 + JUMP, 9, 9)])}, max_messages=5) == {A: 1100 + JUMP}


@given(st.dictionaries(st.sampled_from((A, B)), logs()), st.integers(1, 2000), st.integers(1, 20_000))
def test_a_limited_query_always_comes_to_the_end(
    sizes: dict[SourceKey, LogSizes], max_messages: int, max_bytes: int
) -> None:
    ends = cut_to_limits(sizes, max_messages=max_messages, max_bytes=max_bytes)

    for key, each in sizes.items():
        assert ends[key] > each.start or each.start == each.end
        assert ends[key] <= each.end
