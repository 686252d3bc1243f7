import os
import stat
from pathlib import Path

import pytest

from nsqlake.topiclog import EPOCH_JUMP, LogClosedError, LogOpenError
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import (
    FIRST,
    UUID,
    append,
    crash,
    drain,
    fill,
    index_paths,
    open_log,
    segment_paths,
    sync,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_new_log_is_empty(path: Path) -> None:
    log, report = open_log(path)

    assert report.is_new
    assert report.is_spotless
    assert (log.first, log.next, log.memory_first, log.epoch, log.uuid) == (FIRST, FIRST, FIRST, 1, UUID)
    assert (log.read(FIRST), log.count(0, 10**9), log.nbytes) == (None, 0, 0)
    log.close()


def test_files_are_private(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 1)
    log.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


@pytest.mark.parametrize("mem_messages", [0, 4, 1000])
def test_equal_mixed_and_due_blocks_are_read_back(path: Path, mem_messages: int) -> None:
    log, _report = open_log(path, mem_messages=mem_messages)
    blocks = [[b"ab", b"cd"], [b"x", b"yyy", b""], [b"later"], [b"z"]]

    offsets = [append(log, bodies, due_ns=9 if i == 2 else 0) for i, bodies in enumerate(blocks)]

    assert offsets == [FIRST, FIRST + 2, FIRST + 5, FIRST + 6]
    assert drain(log) == list(enumerate((body for bodies in blocks for body in bodies), FIRST))
    assert log.due_blocks(0, log.next) == [(FIRST + 5, 1, 9)]
    log.close()


def test_reading_may_begin_within_a_block(path: Path) -> None:
    log, _report = open_log(path)
    append(log, [b"a", b"b", b"c"])

    assert drain(log, FIRST + 1) == [(FIRST + 1, b"b"), (FIRST + 2, b"c")]
    log.close()


def test_the_newest_messages_are_in_memory(path: Path) -> None:
    log, _report = open_log(path, mem_messages=3)

    messages = fill(log, 10)

    assert log.memory_first == FIRST + 7
    assert drain(log) == messages
    log.trim_memory(FIRST + 9)
    assert log.memory_first == FIRST + 9
    log.close()


def test_reading_from_memory_touches_no_file(path: Path) -> None:
    files = FaultyFiles()
    log, _report = open_log(path, files=files, mem_messages=100)
    messages = fill(log, 10)
    before = files.calls["pread"]

    assert drain(log) == messages

    assert files.calls["pread"] == before
    log.close()


def test_a_full_segment_is_followed_by_another_and_no_block_is_split(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=500)

    messages = fill(log, 10)

    segments = segment_paths(path)
    assert len(segments) == 5
    assert all(os.path.getsize(segment) <= 500 for segment in segments)
    assert drain(log) == messages
    assert log.nbytes == sum(map(os.path.getsize, segments))
    log.close()


def test_a_block_larger_than_a_segment_gets_one_for_itself(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=500)
    fill(log, 1)

    append(log, [b"x" * 2000])
    append(log, [b"y"])

    assert len(segment_paths(path)) == 3
    assert len(drain(log)) == 3
    log.close()


def test_a_clean_stop_goes_on_where_it_ended(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    log.close()

    log, report = open_log(path, clean=True)
    messages.append((append(log, [b"more"]), b"more"))

    assert report.is_spotless
    assert not report.is_unclean
    assert messages[-1][0] == FIRST + 3
    assert drain(log) == messages
    assert len(segment_paths(path)) == 1
    log.close()


def test_an_unclean_stop_jumps_and_begins_an_epoch(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)

    log, report = open_log(path, clean=False)

    assert report.is_unclean
    assert (log.epoch, log.next) == (2, FIRST + 3 + EPOCH_JUMP)
    messages.append((append(log, [b"more"]), b"more"))
    assert drain(log) == messages
    assert log.count(FIRST, log.next) == 4
    assert (log.first, len(segment_paths(path))) == (FIRST, 2)
    log.close()


def test_offsets_are_not_reused_though_everything_after_a_crash_is_lost(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    crash(log)
    log, _report = open_log(path, clean=False)
    lost = append(log, [b"lost with the power"])
    crash(log)
    os.unlink(segment_paths(path)[-1])

    log, _report = open_log(path, clean=False)

    assert append(log, [b"new"]) > lost
    assert log.epoch == 3
    log.close()


def test_an_empty_log_survives_a_clean_stop(path: Path) -> None:
    log, _report = open_log(path)
    log.close()

    log, report = open_log(path, clean=True)

    assert (log.next, log.epoch, report.is_unclean, report.is_new) == (FIRST, 1, False, False)
    log.close()


def test_a_log_that_was_opened_after_a_crash_and_closed_unused_begins_its_epoch_later(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 1)
    crash(log)
    open_log(path, clean=False)[0].close()

    log, report = open_log(path, clean=True)
    offset = append(log, [b"x"])

    assert not report.is_unclean
    assert offset == FIRST + 1 + EPOCH_JUMP
    assert len(segment_paths(path)) == 2
    log.close()


def test_messages_are_counted_by_range_without_the_gaps(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 10)
    crash(log)
    log, _report = open_log(path, clean=False)
    after = append(log, [b"a", b"b"])

    assert log.count(FIRST + 2, FIRST + 5) == 3
    assert log.count(FIRST + 8, after + 1) == 3
    assert log.count(0, 10**18) == 12
    assert log.count(after, FIRST) == 0
    log.close()


def test_an_offset_is_found_by_time(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=500)
    for stamp in range(100, 200, 10):
        append(log, [b"x" * 50, b"y" * 50], timestamp_ns=stamp)

    assert [log.offset_at(stamp) - FIRST for stamp in (0, 100, 101, 145, 190, 191)] == [0, 0, 2, 10, 18, 20]
    log.close()


def test_an_offset_is_found_by_time_past_a_damaged_block(path: Path) -> None:
    log, _report = open_log(path)
    for stamp in range(100, 200, 10):
        append(log, [b"x" * 50], timestamp_ns=stamp)
    for number in (4, 8):
        with open(segment_paths(path)[0], "r+b") as file:
            file.seek(40 + number * 106 + 100)
            file.write(b"#")

    assert log.offset_at(150) == FIRST + 5
    assert log.offset_at(180) == FIRST + 9
    log.close()


def test_a_sync_is_offered_only_when_there_is_something_to_sync(path: Path) -> None:
    log, _report = open_log(path)
    assert log.begin_sync() is None
    fill(log, 3)
    assert log.dirty_messages == 3

    sync(log)

    assert (log.synced, log.dirty_messages) == (FIRST + 3, 0)
    assert log.begin_sync() is None
    log.close()


def test_what_was_recovered_is_not_durable_before_it_was_synced(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    crash(log)

    log, _report = open_log(path, clean=False)

    assert log.synced == FIRST
    sync(log)
    assert log.synced == log.next
    assert len(index_paths(path)) == 1
    log.close()


def test_rolling_does_not_sync(path: Path) -> None:
    files = FaultyFiles()
    log, _report = open_log(path, files=files, max_bytes_per_file=300)
    before = files.calls.copy()

    fill(log, 20)

    assert files.calls["fdatasync"] == before["fdatasync"]
    assert files.calls["fsync"] == before["fsync"]
    assert files.calls["sync_dir"] == before["sync_dir"]
    sync(log)
    assert files.calls["fdatasync"] == len(segment_paths(path))
    assert files.open_descriptors == 1
    log.close()


def test_a_clean_stop_leaves_no_descriptor_open_and_an_index_for_every_segment(path: Path) -> None:
    files = FaultyFiles()
    log, _report = open_log(path, files=files, max_bytes_per_file=300)
    fill(log, 20)
    drain(log)

    log.close()
    log.close()

    assert files.open_descriptors == 0
    assert len(index_paths(path)) == len(segment_paths(path))


def test_an_idle_log_is_closed_without_a_sync(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    log.close()
    files = FaultyFiles()
    log, _report = open_log(path, files=files)

    log.close()

    assert files.calls["fdatasync"] + files.calls["fsync"] + files.calls["sync_dir"] == 0


def test_a_deleted_log_leaves_nothing(path: Path) -> None:
    files = FaultyFiles()
    log, _report = open_log(path, files=files, max_bytes_per_file=300)
    fill(log, 20)
    drain(log)

    log.delete()

    assert not path.exists()
    assert files.open_descriptors == 0


def test_a_log_deleted_while_a_sync_runs_leaves_nothing_after_it(path: Path) -> None:
    files = FaultyFiles()
    log, _report = open_log(path, files=files, max_bytes_per_file=300)
    fill(log, 5)
    job = log.begin_sync()
    assert job is not None
    log.delete()
    path.mkdir()
    job_index = path / "00000000000000001000.index"
    job_index.write_bytes(b"written by the job")

    log.end_sync(job, None)

    assert not path.exists()
    assert files.open_descriptors == 0


def test_a_sync_may_end_after_the_log_is_gone(path: Path) -> None:
    files = FaultyFiles()
    log, _report = open_log(path, files=files)
    fill(log, 5)
    job = log.begin_sync()
    assert job is not None
    log.delete()

    log.end_sync(job, None)

    assert not path.exists()
    assert files.open_descriptors == 0


def test_a_closed_log_refuses_everything(path: Path) -> None:
    log, _report = open_log(path)
    log.close()

    with pytest.raises(LogClosedError):
        append(log, [b"x"])
    with pytest.raises(LogClosedError):
        log.read(FIRST)
    assert log.begin_sync() is None


def test_a_path_that_is_a_file_is_refused_clearly(path: Path) -> None:
    path.write_bytes(b"not a directory")

    with pytest.raises(LogOpenError, match="not a directory"):
        open_log(path)


def test_blanks_and_percent_signs_in_a_path_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "100% of my logs"
    log, _report = open_log(path)
    messages = fill(log, 3)
    log.close()

    log, _report = open_log(path)

    assert drain(log) == messages
    log.close()


def test_memory_is_accounted_for(path: Path) -> None:
    log, _report = open_log(path, mem_messages=1000, mem_bytes=5000)

    fill(log, 100)
    drain(log)

    assert 3000 < log.memory_bytes < 5000 + log.nbytes
    log.trim_memory(log.next)
    assert log.memory_bytes == 0
    log.close()
