import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog import TopicLog
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import (
    FIRST,
    append,
    append_bytes,
    crash,
    drain,
    fill,
    open_log,
    segment_paths,
    sync,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def nobody(_base: int, _end: int) -> bool:
    return False


def only(*offsets: int):  # type: ignore[no-untyped-def]
    return lambda base, end: any(base <= offset < end for offset in offsets)


def small_segments(path: Path, blocks: int = 10, files: FaultyFiles | None = None) -> TopicLog:
    """Two messages to a segment."""
    log, _report = open_log(path, max_bytes_per_file=400, **({"files": files} if files else {}))
    fill(log, blocks)
    return log


def test_segments_that_all_channels_passed_are_deleted(path: Path) -> None:
    log = small_segments(path)
    messages = drain(log)

    retired = log.retire(lambda _base, end: end > FIRST + 5)

    assert len(retired) == 2
    assert not any(map(os.path.exists, retired))
    assert (log.first, log.oldest) == (FIRST + 4, FIRST + 4)
    assert drain(log) == messages[4:]
    assert log.count(0, log.next) == 6
    log.close()


def test_a_large_active_segment_that_nobody_needs_is_replaced(path: Path) -> None:
    log = small_segments(path)

    retired = log.retire(nobody)

    assert len(retired) == 5
    assert len(segment_paths(path)) == 1
    assert (log.first, log.next, log.count(0, log.next)) == (FIRST + 10, FIRST + 10, 0)
    assert append(log, [b"goes on"]) == FIRST + 10
    log.close()


def test_a_small_active_segment_stays(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=1_000_000)
    fill(log, 3)

    assert log.retire(nobody) == []
    assert log.first == FIRST
    log.close()


def test_a_pinned_segment_serves_its_messages_and_first_is_behind_the_hole(path: Path) -> None:
    log = small_segments(path)
    messages = drain(log)

    log.retire(lambda base, end: only(FIRST)(base, end) or end > FIRST + 8)

    assert (log.oldest, log.first) == (FIRST, FIRST + 8)
    assert drain(log) == messages[:2] + messages[8:]
    assert log.count(0, log.next) == 4
    log.close()


def test_a_retired_hole_is_not_taken_for_a_missing_segment(path: Path) -> None:
    log = small_segments(path)
    messages = drain(log)
    log.retire(lambda base, end: only(FIRST)(base, end) or end > FIRST + 8)
    log.close()

    log, report = open_log(path, max_bytes_per_file=400)

    assert report.is_spotless
    assert (log.oldest, log.first) == (FIRST, FIRST + 8)
    assert drain(log) == messages[:2] + messages[8:]
    log.close()


def test_the_hole_goes_with_the_segment_that_was_pinned(path: Path) -> None:
    log = small_segments(path)
    log.retire(lambda base, end: only(FIRST)(base, end) or end > FIRST + 8)

    log.retire(lambda _base, end: end > FIRST + 8)

    assert (log.oldest, log.first) == (FIRST + 8, FIRST + 8)
    assert len(segment_paths(path)) == 1
    log.close()


def test_a_segment_that_a_crash_left_empty_is_no_hole(path: Path) -> None:
    log = small_segments(path, 3)
    crash(log)
    log, _report = open_log(path, clean=False, max_bytes_per_file=400)
    assert log._writer.roll(log.next)
    crash(log)

    log, report = open_log(path, clean=False, max_bytes_per_file=400)
    append(log, [b"x"])

    assert report.missing == []
    assert log.first == FIRST
    log.close()


def test_nothing_is_retired_when_the_file_cannot_be_removed(path: Path) -> None:
    files = FaultyFiles()
    log = small_segments(path, files=files)
    messages = drain(log)
    files.fail("unlink", errno.EIO, path=".log")

    log.retire(lambda _base, end: end > FIRST + 2)

    assert drain(log) == messages
    log.close()


def test_the_active_segment_stays_when_no_other_can_be_made(path: Path) -> None:
    files = FaultyFiles()
    log = small_segments(path, files=files)
    files.fail("open", errno.ENOSPC, path=".log")

    log.retire(nobody)

    assert log.first == FIRST + 8
    assert append(log, [b"goes on"]) == FIRST + 10
    log.close()


def test_retirement_is_synced(path: Path) -> None:
    log = small_segments(path)
    sync(log)

    log.retire(lambda _base, end: end > FIRST + 2)

    assert log.begin_sync() is not None


def test_a_torn_copy_goes_with_its_segment_and_a_bad_one_stays(path: Path) -> None:
    log = small_segments(path, 2)
    crash(log)
    (segment,) = segment_paths(path)
    append_bytes(segment, b"torn")
    log, _report = open_log(path, clean=False, max_bytes_per_file=400)
    Path(segment + ".bad-40").write_bytes(b"evidence")
    append(log, [b"x"])

    log.retire(lambda base, _end: base > FIRST + 2)

    assert not Path(segment).exists()
    assert [name for name in os.listdir(path) if ".torn-" in name or ".bad-" in name] == [
        os.path.basename(segment) + ".bad-40"
    ]
    log.close()


def test_what_policy_keeps_is_not_retired(path: Path) -> None:
    log = small_segments(path)

    log.retire(nobody, keep_bytes=log.nbytes // 2)

    assert log.first == FIRST + 6
    log.close()


@pytest.mark.parametrize("pinned", [[], [FIRST]])
def test_retired_messages_are_not_read_from_memory_either(path: Path, pinned: list[int]) -> None:
    log, _report = open_log(path, max_bytes_per_file=400, mem_messages=100)
    messages = fill(log, 20)
    drain(log)

    log.retire(lambda base, end: only(*pinned)(base, end) or end > FIRST + 10)

    assert drain(log) == messages[: 2 * len(pinned)] + messages[10:]
    assert log.count(0, log.next) == len(drain(log))
    log.close()


def test_the_last_durable_segment_stays_until_a_newer_one_is_durable(path: Path) -> None:
    log = small_segments(path)
    sync(log)
    durable = segment_paths(path)[-1]

    log.retire(nobody)
    assert durable in segment_paths(path)
    assert log.needs_sync
    sync(log)
    log.retire(nobody)

    assert durable not in segment_paths(path)
    log.close()


def test_a_durable_floor_replaces_the_last_segment(path: Path) -> None:
    crash(small_segments(path))
    log, _report = open_log(path, clean=False)

    log.retire(nobody)

    assert segment_paths(path) == []
    log.close()


def test_a_segment_that_could_not_be_removed_is_synced_all_the_same(path: Path) -> None:
    files = FaultyFiles()
    log = small_segments(path, 4, files)
    files.fail("unlink", errno.EACCES, path=".log")
    log.retire(lambda _base, end: end > FIRST + 2)
    before = files.calls["fdatasync"]

    sync(log)

    assert files.calls["fdatasync"] - before == 2
    assert log.synced == FIRST + 4
    log.close()


def test_a_segment_is_gone_even_if_what_was_torn_off_it_cannot_be_found(path: Path) -> None:
    files = FaultyFiles()
    log = small_segments(path, 4, files)
    files.fail("listdir", errno.EIO)

    retired = log.retire(lambda _base, end: end > FIRST + 2)

    assert len(retired) == 1
    assert log.oldest == FIRST + 2
    log.close()
