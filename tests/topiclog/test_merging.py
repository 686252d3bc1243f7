from hypothesis import given
from hypothesis import strategies as st

from nsqlake.topiclog.block import Span
from nsqlake.topiclog.merging import merge_spans, mergeable
from tests.topiclog.support import framed, messages_of


def spans_of(blocks: list[list[bytes]], base: int = 100) -> list[Span]:
    """Spans as `append` makes them."""
    spans = []
    for number, bodies in enumerate(blocks):
        given_ = framed(bodies)
        size = given_.get("record_size", 0)
        spans.append(
            Span(base, len(bodies), size, given_["records"], 0, size, given_.get("starts"), 10 + number)
        )
        base += len(bodies)
    return spans


@given(st.lists(st.lists(st.binary(max_size=4), min_size=1, max_size=4), min_size=1, max_size=20))
def test_a_merged_span_has_all_messages_with_their_times(blocks: list[list[bytes]]) -> None:
    spans = spans_of(blocks)

    merged = merge_spans(spans)

    assert messages_of(merged) == [message for span in spans for message in messages_of(span)]
    stamps = [merged.timestamp(i) for i in range(merged.count)]
    assert stamps == [10 + number for number, bodies in enumerate(blocks) for _ in bodies]


def test_a_run_ends_at_a_gap_at_another_due_time_and_at_a_large_span() -> None:
    small = [[b"a"]] * 3
    before_gap, behind_gap = spans_of(small), spans_of(small, base=200)
    later = spans_of(small, base=103)
    for span in later:
        span.due_ns = 9
    large = spans_of([[b"x"] * 33], base=103)

    assert mergeable(before_gap + behind_gap, 0) == 3
    assert mergeable(before_gap + later, 0) == 3
    assert mergeable(before_gap + large, 0) == 3
    assert mergeable(large, 0) == 0
    assert mergeable(before_gap, 1) == 3


def test_a_run_is_bounded_in_spans_and_bytes() -> None:
    assert mergeable(spans_of([[b"a"]] * 1000), 0) == 512
    assert mergeable(spans_of([[b"x" * 10_000]] * 100), 0) == 13


def test_a_merged_span_is_not_merged_again() -> None:
    merged = merge_spans(spans_of([[b"a"]] * 3))

    assert mergeable([merged, *spans_of([[b"b"]], base=103)], 0) == 0
