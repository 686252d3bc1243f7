import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog import EPOCH_JUMP, Damage, LogOpenError, RecoveryReport
from nsqlake.topiclog.files import OS_FILES
from nsqlake.topiclog.recovery import recover
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.topiclog.support import (
    FIRST,
    append,
    append_bytes,
    crash,
    drain,
    fill,
    flip_bit,
    index_paths,
    open_log,
    overwrite,
    segment_paths,
    sync,
)

BLOCK_BYTES = 52 + 4 + 100  # as `fill` makes them


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_an_empty_directory_holds_nothing(tmp_path: Path) -> None:
    found = recover(OS_FILES, str(tmp_path), clean=False)

    assert (found.identity, found.segments, found.next) == (None, [], 0)
    assert found.report.is_spotless


def test_recovery_that_is_interrupted_and_repeated_finds_the_same(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=1000)
    messages = fill(log, 20)
    crash(log)
    append_bytes(segment_paths(path)[-1], b"torn")

    for call in ("open", "pread", "write", "ftruncate", "fsync", "rename", "sync_dir"):
        for at in range(1, 4):
            files = FaultyFiles()
            files.fail(call, errno.EIO, at=at, times=FOREVER)
            try:
                log, _report = open_log(path, clean=False, files=files)
                crash(log)
            except LogOpenError:
                continue

    log, _report = open_log(path, clean=False)
    assert drain(log) == messages
    log.close()


def test_only_the_last_segment_is_scanned_when_the_others_are_indexed(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    fill(log, 7)
    sync(log)
    crash(log)

    _log, report = open_log(path, clean=False)

    assert report.rebuilt_indexes == 1


def test_damage_in_a_scanned_segment_is_kept_aside_and_becomes_a_gap(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 5)
    crash(log)
    (segment,) = segment_paths(path)
    overwrite(segment, 40 + 2 * BLOCK_BYTES + 70, b"##")

    log, report = open_log(path, clean=False)

    (damage,) = report.damage
    assert (damage.position, damage.bytes, damage.messages) == (40 + 2 * BLOCK_BYTES, BLOCK_BYTES, 1)
    assert os.path.getsize(f"{segment}.bad-{damage.position}") == BLOCK_BYTES
    assert drain(log) == messages[:2] + messages[3:]
    assert log.count(0, log.next) == 4
    log.close()
    assert open_log(path)[1].is_spotless


def test_damage_at_the_end_of_an_earlier_segment_is_counted_from_its_successor(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 4)
    crash(log)
    flip_bit(segment_paths(path)[0], (40 + BLOCK_BYTES + 60) * 8)

    log, report = open_log(path, clean=False)

    assert [damage.messages for damage in report.damage] == [1]
    assert (report.torn_blocks, report.missing) == (0, [])
    assert drain(log) == messages[:1] + messages[2:]
    log.close()
    assert open_log(path)[1].is_spotless


def test_garbage_between_two_epochs_costs_nothing(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 2)
    crash(log)
    log, _report = open_log(path, clean=False)
    messages += [(append(log, [b"x"]), b"x")]
    crash(log)
    append_bytes(segment_paths(path)[0], b"garbage")

    log, report = open_log(path, clean=False)

    assert [damage.messages for damage in report.damage] == [0]
    assert drain(log) == messages
    log.close()


def test_a_tail_that_cannot_be_kept_aside_is_not_cut(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)
    (segment,) = segment_paths(path)
    append_bytes(segment, b"torn bytes")
    size = os.path.getsize(segment)
    files = FaultyFiles()
    files.fail("open", errno.ENOSPC, path=".torn-", times=FOREVER)

    log, report = open_log(path, clean=False, files=files)

    assert report.torn_bytes == len(b"torn bytes")
    assert os.path.getsize(segment) == size
    messages.append((append(log, [b"goes on"]), b"goes on"))
    assert drain(log) == messages
    log.close()
    log, _report = open_log(path)
    assert drain(log) == messages
    log.close()


def test_a_tail_that_cannot_be_cut_is_left(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)
    append_bytes(segment_paths(path)[0], b"torn bytes")
    files = FaultyFiles()
    files.fail("ftruncate", errno.EIO)

    log, _report = open_log(path, clean=False, files=files)

    assert drain(log) == messages
    log.close()


def test_a_tail_behind_an_unreadable_page_is_not_cut(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 100)
    crash(log)
    (segment,) = segment_paths(path)
    size = os.path.getsize(segment)
    files = FaultyFiles()
    files.fail("pread", errno.EIO, path=".log", at=2)
    files.fail("pread", errno.EIO, path=".log", at=6)

    log, report = open_log(path, clean=False, files=files)

    assert report.torn_bytes > 0
    assert os.path.getsize(segment) == size
    files.heal()
    crash(log)
    log, _report = open_log(path, clean=False)
    assert len(drain(log)) == 100
    log.close()


def test_a_header_that_cannot_be_read_counts_as_damaged(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    log.close()
    files = FaultyFiles()
    files.fail("pread", errno.EIO, path=".log")

    log, report = open_log(path, files=files)

    assert report.damaged_headers == 1
    assert drain(log) == messages
    log.close()


def test_messages_cut_off_behind_an_epoch_are_counted_from_its_floor(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    crash(log)
    crash(open_log(path, clean=False)[0])
    os.truncate(segment_paths(path)[0], 40 + BLOCK_BYTES)

    log, report = open_log(path, clean=False)

    assert report.torn_messages == 2
    assert log.next == FIRST + 3 + 2 * EPOCH_JUMP
    log.close()


def test_a_segment_that_lost_all_its_blocks_does_not_pass_for_a_retired_one(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 6)
    log.close()
    os.truncate(segment_paths(path)[1], 40)

    log, report = open_log(path, max_bytes_per_file=400)

    assert report.lost_messages == 2
    assert drain(log) == messages[:2] + messages[4:]
    log.close()


def test_temporary_files_of_an_interrupted_write_are_removed(path: Path) -> None:
    log, _report = open_log(path)
    log.close()
    (path / "identity.123.tmp").write_bytes(b"half")

    open_log(path)[0].close()

    assert not list(path.glob("*.tmp"))


def test_an_unreadable_directory_is_refused_clearly(path: Path) -> None:
    files = FaultyFiles()
    files.fail("listdir", errno.EACCES)

    with pytest.raises(LogOpenError, match="permission denied"):
        open_log(path, files=files)


def test_indexes_are_written_after_their_segments_are_durable(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    fill(log, 7)
    assert index_paths(path) == []

    sync(log)

    assert len(index_paths(path)) == len(segment_paths(path)) - 1
    log.close()


def test_a_disk_that_cannot_be_read_is_no_reason_to_set_segments_aside(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)
    files = FaultyFiles()
    files.fail("pread", errno.EIO, times=FOREVER)

    with pytest.raises(LogOpenError, match="input/output error"):
        open_log(path, clean=False, files=files)

    log, _report = open_log(path, clean=False)
    assert drain(log) == messages
    assert files.open_descriptors == 0
    log.close()


def test_an_unreadable_header_beside_a_damaged_identity_is_no_reason_either(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)
    for identity in path.glob("identity.*"):
        identity.write_bytes(b"garbage")
    files = FaultyFiles()
    files.fail("pread", errno.EIO, path=".log", times=FOREVER)

    with pytest.raises(LogOpenError):
        open_log(path, clean=False, files=files)

    assert drain(open_log(path, clean=False)[0]) == messages


def test_blocks_that_cannot_be_read_now_are_there_when_they_can(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 100)
    crash(log)
    files = FaultyFiles()
    files.fail("pread", errno.EIO, path=".log", at=2)
    files.fail("pread", errno.EIO, path=".log", at=4)
    log, report = open_log(path, clean=False, files=files)
    assert 0 < len(drain(log)) < 100
    assert report.damage
    log.close()

    log, _report = open_log(path)

    assert drain(log) == messages
    log.close()


def test_a_loss_that_left_a_segment_empty_is_reported_once(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    fill(log, 3)
    log.close()
    os.truncate(segment_paths(path)[1], 40)
    log, report = open_log(path, clean=False)
    assert report.torn_messages == 1
    log.close()

    for _ in range(3):
        log, report = open_log(path, clean=False)
        assert report.is_spotless
        sync(log)
        crash(log)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("gone", [slice(0, 1), slice(0, 2), slice(1, 2), slice(2, 3), slice(0, 3)])
def test_segments_that_vanished_are_told_by_the_indexes_they_left(
    path: Path, gone: slice, clean: bool
) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 6)
    log.close()
    for segment in segment_paths(path)[gone]:
        os.unlink(segment)

    log, report = open_log(path, max_bytes_per_file=400, clean=clean)

    lost = messages[2 * gone.start : 2 * gone.stop]
    assert report.missing == [(lost[0][0], lost[-1][0] + 1)]
    assert report.lost_messages == len(lost)
    assert drain(log) == [message for message in messages if message not in lost]
    assert log.next >= FIRST + 6
    log.close()


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_segment_cut_to_nothing_is_missing(path: Path, number: int, with_index: bool) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 6)
    log.close()
    os.truncate(segment_paths(path)[number], 0)
    if not with_index:
        os.unlink(index_paths(path)[number])

    log, report = open_log(path, max_bytes_per_file=400)

    assert report.missing == [(FIRST + 2 * number, FIRST + 2 * number + 2)]
    assert drain(log) == messages[: 2 * number] + messages[2 * number + 2 :]
    log.close()


def test_a_first_segment_cut_to_nothing_is_counted_without_the_jumps_between_epochs(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    crash(log)
    crash(open_log(path, clean=False)[0])
    log, _report = open_log(path, clean=False)
    fill(log, 1)
    crash(log)
    os.truncate(segment_paths(path)[0], 0)

    _log, report = open_log(path, clean=False)

    assert report.missing == [(FIRST, FIRST + 3)]


def test_a_file_whose_making_was_interrupted_is_not_missing(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    crash(log)
    (path / f"{log.next:020d}.log").touch()

    _log, report = open_log(path, clean=False)

    assert report.is_spotless


def test_a_segment_that_is_retired_while_it_is_synced_leaves_no_index(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    fill(log, 7)
    job = log.begin_sync()
    assert job is not None
    log.retire(lambda base, end: base == FIRST or end > FIRST + 6)
    log.retire(lambda _base, end: end > FIRST + 6)
    job.run()

    log.end_sync(job, None)
    crash(log)

    assert index_paths(path) == []
    assert open_log(path, clean=False)[1].missing == []


def test_reports_of_two_openings_are_one() -> None:
    bad = Damage("1.log", 40, 60, "checksum failed")
    report = RecoveryReport(damage=[bad], missing=[(10, 20)], torn_bytes=1)

    report.include(RecoveryReport(damage=[bad], missing=[(5, 12), (30, 40)], torn_bytes=2, is_replaced=True))

    assert (report.damage, report.missing, report.torn_bytes) == ([bad], [(5, 20), (30, 40)], 3)
    assert report.is_replaced
