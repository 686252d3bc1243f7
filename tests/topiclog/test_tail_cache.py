import pytest

from nsqlake.topiclog.block import Span
from nsqlake.topiclog.tail_cache import TailCache


def span(base: int, count: int = 2) -> Span:
    return Span(base, count, 5, b"\0\0\0\1x" * count, 0, 5, None, 0)


def filled(*bases: int, max_messages: int = 100, max_bytes: int = 10**6) -> TailCache:
    cache = TailCache(max_messages, max_bytes)
    for base in bases:
        cache.add(span(base))
    return cache


@pytest.mark.parametrize(("offset", "base"), [(10, 10), (11, 10), (12, 12), (14, 20), (20, 20), (21, 20)])
def test_the_span_of_an_offset_is_found(offset: int, base: int) -> None:
    found = filled(10, 12, 20).find(offset)

    assert found is not None
    assert found.base == base


def test_behind_the_last_span_is_nothing() -> None:
    assert filled(10, 12).find(14) is None
    assert filled().find(0) is None
    assert filled().first is None


def test_the_oldest_go_when_there_are_too_many_messages() -> None:
    cache = filled(10, 12, max_messages=4)

    assert cache.add(span(14)) == 2
    assert (cache.first, cache.messages, len(cache)) == (12, 4, 2)


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    cache = filled(10, 12, max_bytes=600)

    assert cache.add(span(14)) == 2
    assert cache.nbytes <= 600


def test_a_span_that_is_too_large_is_not_kept() -> None:
    cache = filled(10, max_messages=4)

    assert cache.add(span(12, count=5)) == 7
    assert (cache.first, cache.messages, cache.nbytes) == (None, 0, 0)


def test_spans_below_an_offset_are_dropped_whole() -> None:
    cache = filled(10, 12, 14)

    cache.drop_below(13)

    assert cache.first == 12


def test_a_long_life_leaves_no_trace_of_what_was_dropped() -> None:
    cache = filled(max_messages=10)

    for base in range(0, 20_000, 2):
        cache.add(span(base))

    assert (cache.first, len(cache)) == (19_990, 5)
    assert len(cache._spans) < 3000


def test_clearing_forgets_everything() -> None:
    cache = filled(10, 12)

    cache.clear()

    assert (cache.first, cache.messages, cache.nbytes, len(cache)) == (None, 0, 0, 0)


def test_small_spans_are_merged_when_they_are_read() -> None:
    cache = TailCache(100, 10**6, merges=True)
    for base in range(10, 40, 2):
        cache.add(span(base))
    nbytes = cache.nbytes

    merged = cache.find(12)

    assert merged is not None
    assert (merged.base, merged.end) == (12, 40)
    assert (len(cache), cache.messages, cache.first) == (2, 30, 10)
    assert cache.nbytes < nbytes
    assert cache.find(39) is merged


def test_few_small_spans_are_not_merged() -> None:
    cache = TailCache(100, 10**6, merges=True)
    for base in (10, 12, 14, 16, 18, 20, 22, 30, 32, 34):
        cache.add(span(base))

    found = cache.find(10)

    assert found is not None
    assert found.end == 12
    assert len(cache) == 10


def test_a_merged_span_can_be_cut() -> None:
    cache = TailCache(100, 10**6, merges=True)
    for base in range(10, 40, 2):
        cache.add(span(base))
    cache.find(10)

    cache.cut_below(15)

    found = cache.find(15)
    assert found is not None
    assert (cache.first, cache.messages, found.base, found.end) == (15, 25, 15, 40)
    cache.cut_below(40)
    assert (cache.first, cache.messages, cache.nbytes) == (None, 0, 0)
