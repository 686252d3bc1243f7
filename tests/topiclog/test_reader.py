import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog import ReadError
from nsqlake.topiclog.reader import READ_BYTES
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import FIRST, append, drain, fill, open_log, overwrite, segment_paths


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def test_many_blocks_are_read_with_one_call(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 3000)
    before = files.calls["pread"]

    assert drain(log) == messages

    assert files.calls["pread"] - before == -(-log.nbytes // READ_BYTES)
    log.close()


def test_a_second_reader_close_behind_the_first_reads_nothing_again(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 3000)
    drain(log)
    before = files.calls["pread"]

    assert drain(log) == messages

    assert files.calls["pread"] == before
    log.close()


def test_what_is_kept_is_bounded(path: Path) -> None:
    log, _report = open_log(path)
    for _ in range(60):
        append(log, [b"x" * 100_000])

    assert len(drain(log)) == 60

    assert log.memory_bytes <= 8 * READ_BYTES
    log.close()


def test_a_block_larger_than_a_read_is_returned_whole(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 2)
    body = b"x" * (3 * READ_BYTES)
    offset = append(log, [body])
    fill(log, 2)

    assert drain(log)[2] == (offset, body)
    log.close()


def test_a_reader_at_the_end_sees_what_is_appended_later(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    assert drain(log) == messages

    messages += fill(log, 2)

    assert drain(log) == messages
    log.close()


def test_few_segments_are_open_at_once(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, max_bytes_per_file=300)
    messages = fill(log, 40)
    log.close()
    log, _report = open_log(path, files=files, max_bytes_per_file=300)

    assert drain(log) == messages

    assert files.open_descriptors <= 4
    log.close()


def test_a_short_read_is_continued(path: Path) -> None:
    class ShortReads(FaultyFiles):
        def pread(self, fd: int, length: int, position: int) -> bytes:
            return os.pread(fd, min(length, 100), position)

    log, _report = open_log(path, files=ShortReads())
    messages = fill(log, 20)

    assert drain(log) == messages
    log.close()


def test_damage_is_kept_aside_reported_once_and_skipped(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 5)
    (segment,) = segment_paths(path)
    size = (log.nbytes - 40) // 5
    overwrite(segment, 40 + 2 * size + 60, b"#")

    left = drain(log)

    assert left == messages[:2] + messages[3:]
    (damage,) = log.take_damage()
    assert (damage.path, damage.position, damage.bytes) == (segment, 40 + 2 * size, size)
    assert (damage.reason, damage.messages) == ("checksum failed", 1)
    assert len(Path(f"{segment}.bad-{damage.position}").read_bytes()) == size
    assert (log.take_damage(), log.damaged_blocks, log.damaged_messages) == ([], 1, 1)
    assert log.count(0, log.next) == 4
    log.close()


def test_neighbouring_bad_blocks_are_one_damage(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 40)
    (segment,) = segment_paths(path)
    size = (log.nbytes - 40) // 40
    overwrite(segment, 40 + 10 * size, bytes(5 * size))

    assert drain(log) == messages[:10] + messages[15:]

    (damage,) = log.take_damage()
    assert (damage.blocks, damage.messages, damage.bytes) == (5, 5, 5 * size)
    log.close()


def test_a_segment_that_was_cut_while_the_log_is_open_keeps_its_whole_blocks(path: Path) -> None:
    log, _report = open_log(path)
    messages = fill(log, 20)
    os.truncate(segment_paths(path)[0], log.nbytes // 2)

    left = drain(log)

    assert left == messages[: len(left)]
    assert len(left) == 9
    assert log.damaged_messages == 11
    log.close()


def test_a_log_with_nothing_good_left_reads_as_empty(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 20)
    os.truncate(segment_paths(path)[0], 40)

    assert drain(log) == []
    assert log.count(0, log.next) == 0
    log.close()


@pytest.mark.parametrize("code", [errno.EIO, errno.EINTR])
def test_a_read_error_that_passes_costs_nothing(path: Path, files: FaultyFiles, code: int) -> None:
    log, _report = open_log(path, files=files)
    messages = fill(log, 4)
    files.fail("pread", code, times=2)

    with pytest.raises(ReadError, match=r"cannot read .*\.log: "):
        log.read(FIRST)

    assert drain(log) == messages
    assert (log.take_damage(), log.count(0, log.next)) == ([], 4)
    log.close()


def test_a_read_error_that_stays_costs_the_unreadable_block_and_the_file_is_set_aside(
    path: Path, files: FaultyFiles
) -> None:
    log, _report = open_log(path, files=files, max_bytes_per_file=400)
    messages = fill(log, 4)
    files.fail("pread", errno.EIO, times=20)  # each read tries many blocks, then one
    for _ in range(9):
        with pytest.raises(ReadError):
            log.read(FIRST)

    assert drain(log) == messages[1:]

    (damage,) = log.take_damage()
    assert (damage.reason, damage.bytes) == ("input/output error", 0)
    log.retire(lambda _base, end: end > FIRST + 2)
    assert os.path.exists(damage.path + ".bad")
    log.close()


def test_a_lack_of_descriptors_skips_nothing(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 4)
    log.close()
    log, _report = open_log(path, files=files, max_bytes_per_file=400)
    files.fail("open", errno.EMFILE)

    with pytest.raises(ReadError, match="too many open files"):
        log.read(FIRST)

    assert drain(log) == messages
    log.close()


def test_a_segment_that_vanishes_while_the_log_is_open_is_skipped(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 6)
    log.close()
    log, _report = open_log(path, max_bytes_per_file=400)
    os.unlink(segment_paths(path)[0])

    assert drain(log) == messages[2:]
    assert [damage.messages for damage in log.take_damage()] == [2]
    log.close()


def test_what_was_read_from_a_retired_segment_is_forgotten(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 6)
    log.close()
    log, _report = open_log(path, files=files, max_bytes_per_file=400)
    drain(log)
    before = files.open_descriptors

    log.retire(lambda _base, end: end > FIRST + 2)

    assert drain(log, FIRST) == messages[2:]
    assert files.open_descriptors == before - 1
    log.close()


def test_a_cached_stretch_that_ends_in_damage_leads_to_the_next(path: Path) -> None:
    log, _report = open_log(path, max_bytes_per_file=400)
    messages = fill(log, 4)
    first, _second = segment_paths(path)
    overwrite(first, os.path.getsize(first) - 1, b"#")

    assert drain(log) == messages[:1] + messages[2:]
    assert drain(log, FIRST + 1) == messages[2:]
    log.close()
