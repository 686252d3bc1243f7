from nsqlake.topiclog.retention import Extent, RetentionPolicy, removable

EXTENTS = [Extent(0, 10, 100, 5), Extent(10, 20, 100, 15), Extent(20, 30, 100, 25), Extent(30, 40, 100, 35)]


def nobody(_base: int, _end: int) -> bool:
    return False


def test_what_nobody_needs_may_go() -> None:
    assert removable(EXTENTS, nobody) == [0, 1, 2, 3]


def test_what_a_channel_has_yet_to_read_stays() -> None:
    assert removable(EXTENTS, lambda _base, end: end > 25) == [0, 1]


def test_an_old_segment_may_be_pinned_alone() -> None:
    assert removable(EXTENTS, lambda base, end: base <= 3 < end) == [1, 2, 3]


def test_the_newest_bytes_stay_if_the_policy_says_so() -> None:
    assert removable(EXTENTS, nobody, RetentionPolicy(keep_bytes=250)) == [0, 1]


def test_young_messages_stay_if_the_policy_says_so() -> None:
    assert removable(EXTENTS, nobody, RetentionPolicy(keep_after_ns=20)) == [0, 1]


def test_either_rule_keeps_a_segment() -> None:
    assert removable(EXTENTS, nobody, RetentionPolicy(keep_bytes=300, keep_after_ns=30)) == [0]


def test_without_segments_nothing_may_go() -> None:
    assert removable([], nobody) == []
