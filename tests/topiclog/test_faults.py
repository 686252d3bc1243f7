"""What failing system calls may cost: rows 17, 18, 29 and 33 of the reliability page, for the log alone."""

import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog import AppendError, SyncError
from nsqlake.topiclog.segment import SEGMENT_HEADER_BYTES
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.topiclog.support import FIRST, append, crash, drain, fill, open_log, segment_paths, sync

NO_ROOM = [errno.ENOSPC, errno.EDQUOT]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def test_after_a_failed_sync_nothing_more_is_taken_and_nothing_is_lost(
    path: Path, files: FaultyFiles
) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 5)
    job = log.begin_sync()
    assert job is not None
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError) as caught:
        job.run()

    log.end_sync(job, caught.value)

    assert log.failed == "sync failed: input/output error"
    assert log.synced == FIRST
    with pytest.raises(AppendError, match="sync failed") as refused:
        append(log, [b"x"])
    assert not refused.value.recoverable
    assert drain(log) == messages
    assert log.begin_sync() is None
    crash(log)
    log, _report = open_log(path, clean=False)
    assert drain(log) == messages
    log.close()


def test_a_failed_sync_of_the_directory_counts_too(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    fill(log, 5)
    files.fail("sync_dir", errno.EIO)

    with pytest.raises(SyncError, match="input/output error"):
        log.close()

    assert files.open_descriptors == 0


def test_a_want_of_descriptors_puts_a_sync_off_and_the_log_goes_on(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 2)
    job = log.begin_sync()
    assert job is not None
    files.fail("sync_dir", errno.EMFILE)
    with pytest.raises(OSError) as caught:
        job.run()

    log.end_sync(job, caught.value)

    assert (log.failed, log.synced, log.needs_sync) == (None, FIRST, True)
    messages += fill(log, 1)
    sync(log)
    assert (log.synced, drain(log)) == (log.next, messages)
    log.close()


def test_a_stop_whose_sync_failed_is_not_taken_for_a_clean_one(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 5)
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(SyncError):
        log.close()

    log, report = open_log(path, clean=True)

    assert report.is_unclean
    assert drain(log) == messages
    log.close()


@pytest.mark.parametrize("written", [0, 1, 51, 52, 53, 100, 155])
def test_a_write_error_leaves_no_torn_block_and_stops_the_log(
    path: Path, files: FaultyFiles, written: int
) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 3)
    size = os.path.getsize(segment_paths(path)[0])
    files.cut_write("writev", written)
    files.fail("write", errno.EIO)

    with pytest.raises(AppendError, match="input/output error") as caught:
        append(log, [b"x" * 100])

    assert not caught.value.recoverable
    assert log.failed == "input/output error"
    assert os.path.getsize(segment_paths(path)[0]) == size
    with pytest.raises(AppendError):
        append(log, [b"y"])
    assert drain(log) == messages
    log.close()
    log, report = open_log(path, clean=False)
    assert report.torn_blocks == 0
    assert drain(log) == messages
    log.close()


@pytest.mark.parametrize("written", [1, 52, 155])
def test_a_short_write_is_continued(path: Path, files: FaultyFiles, written: int) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 3)
    files.cut_write("writev", written)

    messages.append((append(log, [b"x" * 100]), b"x" * 100))

    assert drain(log) == messages
    log.close()


@pytest.mark.parametrize("code", NO_ROOM)
@pytest.mark.parametrize("written", [0, 52, 100])
def test_a_full_disk_refuses_and_space_lets_go_on(
    path: Path, files: FaultyFiles, code: int, written: int
) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 3)
    files.cut_write("writev", written)
    files.fail("writev", code, at=2, times=3)
    files.fail("write", code)

    for _ in range(4):
        with pytest.raises(AppendError, match="disk full") as caught:
            append(log, [b"x" * 100])
        assert caught.value.recoverable

    assert log.failed is None
    messages.append((append(log, [b"room again"]), b"room again"))
    assert drain(log) == messages
    log.close()


@pytest.mark.parametrize("code", NO_ROOM)
@pytest.mark.parametrize("call", ["open", "write"])
def test_no_room_for_a_new_segment_refuses_and_space_lets_go_on(
    path: Path, files: FaultyFiles, code: int, call: str
) -> None:
    log, _report = open_log(path, files=files, max_bytes_per_file=400)
    messages = fill(log, 2)
    files.fail(call, code, times=3)

    for _ in range(3):
        with pytest.raises(AppendError, match="disk full"):
            append(log, [b"x" * 100])

    messages += fill(log, 2)
    assert drain(log) == messages
    assert len(segment_paths(path)) == 2
    log.close()


def test_a_full_disk_can_be_drained(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files, max_bytes_per_file=400)
    messages = fill(log, 7)
    files.fail("writev", errno.ENOSPC, times=FOREVER)
    with pytest.raises(AppendError):
        append(log, [b"x"])

    assert drain(log) == messages
    retired = log.retire(lambda _base, end: end > FIRST + 6)

    assert len(retired) == 3
    assert log.nbytes < 400
    log.close()


def test_a_write_that_cannot_be_undone_is_cut_off_at_the_next_start(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 3)
    files.cut_write("writev", 77)
    files.fail("write", errno.ENOSPC)
    files.fail("ftruncate", errno.EIO)
    with pytest.raises(AppendError) as caught:
        append(log, [b"x" * 100])
    assert not caught.value.recoverable

    assert drain(log) == messages
    log.close()
    log, report = open_log(path, clean=True)

    assert (report.torn_blocks, report.torn_bytes, report.torn_messages) == (1, 77, 1)
    assert drain(log) == messages
    log.close()


def test_what_was_written_before_a_write_error_is_still_synced(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    fill(log, 3)
    files.fail("writev", errno.EIO)
    with pytest.raises(AppendError):
        append(log, [b"x"])

    job = log.begin_sync()

    assert job is not None
    job.run()
    log.end_sync(job, None)
    assert log.synced == FIRST + 3
    log.close()


def test_one_log_that_failed_does_not_touch_another(tmp_path: Path, files: FaultyFiles) -> None:
    broken, _report = open_log(tmp_path / "broken", files=files)
    other, _report = open_log(tmp_path / "other", files=files)
    fill(broken, 1)
    files.fail("writev", errno.EIO, path="broken", times=FOREVER)

    with pytest.raises(AppendError):
        append(broken, [b"x"])

    assert append(other, [b"x"]) == FIRST
    assert other.failed is None
    broken.close()
    other.close()


@pytest.mark.parametrize(
    "call", ["open", "write", "writev", "ftruncate", "fdatasync", "fsync", "sync_dir", "rename"]
)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_wherever_a_call_fails_what_was_acknowledged_is_there_at_the_next_start(
    path: Path, files: FaultyFiles, call: str, code: int
) -> None:
    acknowledged = []
    for at in range(1, 6):
        files.heal()
        log, _report = open_log(path, clean=False, files=files, max_bytes_per_file=400)
        files.fail(call, code, at=at)
        for number in range(8):
            body = b"%d of round %d %s" % (number, at, b"." * 80)
            try:
                acknowledged.append((append(log, [body]), body))
            except AppendError:
                continue
        job = log.begin_sync()
        if job is not None:
            try:
                job.run()
                log.end_sync(job, None)
            except OSError as error:
                log.end_sync(job, error)
        crash(log)

    files.heal()
    log, report = open_log(path, clean=False, files=files)
    assert drain(log) == acknowledged
    assert report.lost_messages == 0
    log.close()
    assert files.open_descriptors == 0


def test_an_unborn_segment_is_removed(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 2)
    crash(log)
    unborn = path / f"{FIRST + 2:020d}.log"
    unborn.write_bytes(bytes(SEGMENT_HEADER_BYTES - 1))

    log, report = open_log(path, clean=False)

    assert report.torn_bytes == SEGMENT_HEADER_BYTES - 1
    assert not unborn.exists()
    assert drain(log) == messages
    log.close()


def test_a_stop_after_an_earlier_failed_sync_is_not_a_clean_one(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    fill(log, 2)
    job = log.begin_sync()
    assert job is not None
    log.end_sync(job, OSError(errno.EIO, "whatever"))

    with pytest.raises(SyncError, match="input/output error"):
        log.close()

    assert files.open_descriptors == 0


def test_a_stop_writes_the_identity_that_was_put_off(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path)
    fill(log, 2)
    crash(log)
    files.fail("fsync", errno.ENOSPC)
    log, _report = open_log(path, clean=False, files=files)
    next_ = log.next

    log.close()

    log, _report = open_log(path, clean=True)
    assert log.next >= next_
    log.close()


def test_a_stop_without_room_for_the_identity_is_not_a_clean_one(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path)
    fill(log, 2)
    crash(log)
    files.fail("fsync", errno.ENOSPC, times=2)
    log, _report = open_log(path, clean=False, files=files)

    with pytest.raises(SyncError, match="disk full"):
        log.close()
