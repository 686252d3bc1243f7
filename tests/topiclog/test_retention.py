import errno
from collections.abc import Sequence
from pathlib import Path

from nsqlake.topiclog import TopicLog
from nsqlake.topiclog.retention import Extent, RetentionPolicy, removable
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import append, drain, open_log, segment_paths

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


# The log


def expiring_log(path: Path, stamps: Sequence[int], **options: int) -> TopicLog:
    log, _ = open_log(path, **options)
    for stamp in stamps:
        append(log, [b"%0100d" % stamp], timestamp_ns=stamp)
    return log


def test_an_idle_log_loses_what_outlived_its_time(tmp_path: Path) -> None:
    log = expiring_log(tmp_path / "log", [10, 20, 30])

    assert log.retire(nobody, keep_after_ns=10) == []
    assert len(log.retire(nobody, keep_after_ns=31)) == 1

    assert drain(log) == []
    assert log.retire(nobody, keep_after_ns=99) == []
    assert len(segment_paths(tmp_path / "log")) == 1
    log.close()


def test_a_busy_log_is_cut_so_that_its_beginning_can_go(tmp_path: Path) -> None:
    log = expiring_log(tmp_path / "log", [10, 20, 30])

    log.retire(nobody, keep_after_ns=15)
    append(log, [b"new"], timestamp_ns=40)
    assert (len(segment_paths(tmp_path / "log")), len(drain(log))) == (2, 4)
    log.retire(nobody, keep_after_ns=31)

    assert [body for _, body in drain(log)] == [b"new"]
    log.close()


def test_what_a_channel_needs_is_not_cut_off_again_and_again(tmp_path: Path) -> None:
    log = expiring_log(tmp_path / "log", [10, 20, 30])

    for now in range(100, 110):
        assert log.retire(lambda _base, _end: True, keep_after_ns=now) == []

    assert (len(segment_paths(tmp_path / "log")), len(drain(log))) == (1, 3)
    log.close()


def test_bytes_keep_what_is_too_old(tmp_path: Path) -> None:
    log = expiring_log(tmp_path / "log", range(0, 100, 10), max_bytes_per_file=400)

    log.retire(nobody, keep_bytes=800, keep_after_ns=1000)

    assert 4 <= len(drain(log)) < 10
    assert log.nbytes <= 800
    log.close()


def test_the_oldest_time_is_that_of_the_segment_that_is_written_to(tmp_path: Path) -> None:
    log = expiring_log(tmp_path / "log", [10, 20])
    log.retire(nobody, keep_after_ns=15)
    append(log, [b"new"], timestamp_ns=40)

    log.retire(nobody, keep_after_ns=35)
    assert log.retire(nobody, keep_after_ns=39) == []

    assert [body for _, body in drain(log)] == [b"new"]
    log.close()


def test_a_log_that_cannot_be_read_just_now_is_cut_later(tmp_path: Path) -> None:
    files = FaultyFiles()
    log, _ = open_log(tmp_path / "log", files=files)
    append(log, [b"x"], timestamp_ns=10)
    append(log, [b"y"], timestamp_ns=50)
    log.close()
    log, _ = open_log(tmp_path / "log", files=files)

    files.fail("open", errno.EMFILE)
    log.retire(nobody, keep_after_ns=20)
    assert len(segment_paths(tmp_path / "log")) == 1
    log.retire(nobody, keep_after_ns=20)

    assert len(segment_paths(tmp_path / "log")) == 2
    log.close()
