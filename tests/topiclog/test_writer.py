import errno
from pathlib import Path

import pytest

from nsqlake.topiclog import AppendError
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.topiclog.support import FIRST, append, crash, drain, fill, open_log, segment_paths

KIB = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def test_segments_are_small_on_a_small_disk(path: Path, files: FaultyFiles) -> None:
    files.set_space(free=10**9, total=16 * KIB * KIB)
    log, _report = open_log(path, files=files)

    for _ in range(30):
        append(log, [b"x" * 100 * KIB])

    assert len(segment_paths(path)) == 3
    log.close()


def test_the_size_of_an_unknown_disk_does_not_matter(path: Path, files: FaultyFiles) -> None:
    files.fail("total_bytes", errno.EIO, times=FOREVER)
    log, _report = open_log(path, files=files, max_bytes_per_file=300)

    fill(log, 4)

    assert len(segment_paths(path)) == 4
    log.close()


def test_nothing_is_taken_that_would_eat_what_must_stay_free(path: Path, files: FaultyFiles) -> None:
    files.set_space(free=1000)
    log, _report = open_log(path, files=files, min_free_bytes=2000)

    with pytest.raises(AppendError, match="disk full: 1000 bytes free, 2000 must stay free") as caught:
        append(log, [b"x"])

    assert (caught.value.errno, caught.value.recoverable, log.failed) == (errno.ENOSPC, True, None)
    assert segment_paths(path) == []
    files.set_space(free=10**6)
    assert append(log, [b"x"]) == FIRST
    log.close()


def test_free_space_is_asked_for_every_256_kib_and_always_while_it_is_short(
    path: Path, files: FaultyFiles
) -> None:
    files.set_space(free=10**9)
    log, _report = open_log(path, files=files, min_free_bytes=2000)
    append(log, [b"x"])
    before = files.calls["free_bytes"]
    for _ in range(26):
        append(log, [b"x" * 100 * KIB])
    assert files.calls["free_bytes"] - before == 8

    files.set_space(free=0)
    refused = 0
    for _ in range(6):
        try:
            append(log, [b"x" * 100 * KIB])
        except AppendError:
            refused += 1

    assert refused >= 4
    log.close()


def test_free_space_that_cannot_be_told_refuses_for_now(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files, min_free_bytes=1)
    files.fail("free_bytes", errno.EIO)

    with pytest.raises(AppendError) as caught:
        append(log, [b"x"])

    assert caught.value.recoverable
    assert append(log, [b"x"]) == FIRST
    log.close()


def test_a_log_opens_on_a_full_disk_and_takes_messages_when_there_is_room(
    path: Path, files: FaultyFiles
) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)
    files.fail("write", errno.ENOSPC, times=FOREVER)
    files.fail("writev", errno.ENOSPC, times=FOREVER)

    log, _report = open_log(path, clean=False, files=files)

    assert drain(log) == messages
    with pytest.raises(AppendError, match="disk full"):
        append(log, [b"x"])
    files.heal()
    append(log, [b"x"])
    assert len(drain(log)) == 4
    log.close()


def test_an_identity_that_cannot_be_written_for_good_makes_the_log_read_only(
    path: Path, files: FaultyFiles
) -> None:
    log, _report = open_log(path)
    messages = fill(log, 3)
    crash(log)
    files.fail("fsync", errno.EIO)

    log, _report = open_log(path, clean=False, files=files)

    assert log.failed == "input/output error"
    with pytest.raises(AppendError, match="input/output error"):
        append(log, [b"x"])
    assert drain(log) == messages
    assert log.retire(lambda _base, _end: False) != [] or log.first == FIRST
    log.close()


def test_a_segment_that_cannot_be_opened_again_refuses_for_now(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path)
    fill(log, 3)
    log.close()
    log, _report = open_log(path, files=files)
    files.fail("open", errno.EMFILE)

    with pytest.raises(AppendError, match="too many open files"):
        append(log, [b"x"])

    assert append(log, [b"x"]) == FIRST + 3
    log.close()


def test_a_failed_log_does_not_roll(path: Path, files: FaultyFiles) -> None:
    log, _report = open_log(path, files=files, max_bytes_per_file=1000)
    fill(log, 2)
    files.fail("writev", errno.EIO)
    with pytest.raises(AppendError):
        append(log, [b"x" * 50])

    assert log.retire(lambda _base, _end: False) == []
    assert len(segment_paths(path)) == 1
    log.close()
