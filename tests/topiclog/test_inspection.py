"""What the tests of `nsqlake log verify`, which tell most kinds of damage apart, do not reach."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from nsqlake.topiclog import LogOptions, TopicLog
from nsqlake.topiclog.atomic_file import damaged_generations
from nsqlake.topiclog.files import OS_FILES
from nsqlake.topiclog.inspection import LogInspection, inspect_log
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import (
    FIRST,
    append_bytes,
    crash,
    fill,
    index_paths,
    open_log,
    overwrite,
    segment_paths,
    truncate_by,
)

BLOCK_BYTES = 52 + 4 + 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def new_log(path: Path) -> TopicLog:
    return open_log(path, max_bytes_per_file=400)[0]


def inspect(path: Path, *, is_settled: bool = False) -> LogInspection:
    return inspect_log(OS_FILES, str(path), is_settled=is_settled)


def test_a_good_log_has_nothing_amiss(path: Path) -> None:
    log = new_log(path)
    fill(log, 5)
    log.close()

    found = inspect(path, is_settled=True)

    assert (found.segments, found.blocks, found.messages) == (3, 5, 5)
    assert (found.first, found.next, found.gaps, found.findings) == (FIRST, FIRST + 5, [], [])
    assert found.bytes == sum(map(os.path.getsize, segment_paths(path)))


def test_an_empty_directory_and_a_log_without_segments_are_good(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    new_log(path).close()

    assert inspect(tmp_path / "empty") == LogInspection()
    assert (inspect(path).findings, inspect(path).next) == ([], FIRST)


def test_segments_that_nobody_owns_are_damage(path: Path) -> None:
    path.mkdir()
    (path / f"{FIRST:020d}.log").write_bytes(b"garbage" * 100)

    assert [finding.reason for finding in inspect(path).findings] == [
        "nothing tells whose segments these are"
    ]


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_file_in_the_making_is_damage_only_after_a_clean_stop(path: Path, is_settled: bool) -> None:
    log = new_log(path)
    fill(log, 3)
    crash(log)
    (path / f"{log.next:020d}.log").touch()

    (finding,) = inspect(path, is_settled=is_settled).findings

    assert finding.is_damage is is_settled


def test_a_segment_cut_to_nothing_is_counted_by_the_next_one(path: Path) -> None:
    log = new_log(path)
    fill(log, 6)
    crash(log)
    Path(segment_paths(path)[0]).write_bytes(b"")

    found = inspect(path)

    assert sum(finding.messages for finding in found.findings) == 2


def test_a_damaged_end_of_an_older_segment_is_counted_by_the_next_one(path: Path) -> None:
    log = new_log(path)
    fill(log, 6)
    crash(log)
    truncate_by(segment_paths(path)[0], 10)

    found = inspect(path)

    assert [(finding.reason, finding.messages) for finding in found.findings] == [("cut short", 1)]
    assert [(gap.start, gap.end, gap.reason) for gap in found.gaps] == [(FIRST + 1, FIRST + 2, "damaged")]


def test_a_torn_end_counts_what_it_claims_after_a_clean_stop(path: Path) -> None:
    log = new_log(path)
    fill(log, 2)
    crash(log)
    truncate_by(segment_paths(path)[0], 10)

    (finding,) = inspect(path, is_settled=True).findings

    assert (finding.position, finding.bytes, finding.messages) == (40 + BLOCK_BYTES, BLOCK_BYTES - 10, 1)


def test_an_orphaned_index_that_is_damaged_tells_nothing(path: Path) -> None:
    log = new_log(path)
    fill(log, 4)
    log.close()
    os.unlink(segment_paths(path)[0])
    append_bytes(index_paths(path)[0], b"x")

    assert inspect(path).findings == []


def test_pages_that_cannot_be_read_are_told(path: Path) -> None:
    log, _report = open_log(path)
    fill(log, 100)
    log.close()
    files = FaultyFiles()
    files.fail("pread", errno.EIO, path=".log", at=2)
    files.fail("pread", errno.EIO, path=".log", at=4)

    found = inspect_log(files, str(path), is_settled=True)

    assert "some of it cannot be read from the disk" in [finding.reason for finding in found.findings]
    assert 0 < found.messages < 100


def test_both_generations_of_an_atomic_file_are_looked_at(path: Path) -> None:
    log = new_log(path)
    log.close()
    crash(open_log(path, clean=False)[0])
    overwrite(str(path / "identity.1"), 20, b"#")

    assert damaged_generations(OS_FILES, str(path / "identity")) == [str(path / "identity.1")]
    assert damaged_generations(OS_FILES, str(path / "absent")) == []


def test_damage_inside_and_beside_a_segment_is_told(path: Path) -> None:
    log = new_log(path)
    fill(log, 6)
    log.close()
    first, second, third = segment_paths(path)
    overwrite(first, 5, b"##")
    overwrite(second, 40 + 60, b"##")
    truncate_by(third, BLOCK_BYTES)
    append_bytes(index_paths(path)[0], b"x")
    (path / "identity.1").write_bytes(b"garbage")

    found = inspect(path, is_settled=True)

    assert [finding.reason for finding in found.findings] == [
        "damaged; the other generation is used",
        "segment header damaged; no message is lost by it",
        "index damaged; nsqd rebuilds it",
        "checksum failed",
        "cut short",
    ]
    assert (found.messages, found.next) == (4, FIRST + 6)
    assert [(gap.start, gap.end) for gap in found.gaps] == [(FIRST + 2, FIRST + 3), (FIRST + 5, FIRST + 6)]


def test_what_lies_between_segments_is_told_apart(path: Path) -> None:
    log = new_log(path)
    fill(log, 8)
    log.retire(lambda base, _end: base != FIRST + 2)
    crash(log)
    log, _report = open_log(path, clean=False, max_bytes_per_file=400)
    fill(log, 6)
    log.close()
    lost = segment_paths(path)[-2]
    os.unlink(lost)
    os.unlink(lost.replace(".log", ".index"))

    found = inspect(path, is_settled=True)

    assert [gap.reason for gap in found.gaps] == ["retired", "new epoch after an unclean stop", "missing"]
    assert [(finding.reason, finding.messages) for finding in found.findings] == [("segment missing", 2)]


def test_a_segment_cut_to_nothing_is_counted_by_its_index(path: Path) -> None:
    log = new_log(path)
    fill(log, 4)
    log.close()
    Path(segment_paths(path)[-1]).write_bytes(b"")

    found = inspect(path, is_settled=True)

    assert [(finding.reason, finding.messages) for finding in found.findings] == [
        ("cut to less than a header", 0),
        ("segment missing", 2),
    ]


def test_an_index_without_its_segment_is_a_missing_one(path: Path) -> None:
    log = new_log(path)
    fill(log, 4)
    log.close()
    os.unlink(segment_paths(path)[0])

    assert [(finding.reason, finding.messages) for finding in inspect(path).findings] == [
        ("segment missing", 2)
    ]


def test_a_segment_of_another_log_is_not_counted(path: Path, tmp_path: Path) -> None:
    log = new_log(path)
    fill(log, 2)
    log.close()
    other, _report = TopicLog.open(
        str(tmp_path / "other"),
        options=LogOptions(),
        first_offset=FIRST + 50,
        clean=True,
        new_identity=(bytes(16), 7),
    )
    fill(other, 1)
    other.close()
    shutil.copy(segment_paths(tmp_path / "other")[0], path)

    found = inspect(path)

    assert [finding.reason for finding in found.findings] == ["a segment of another log"]
    assert found.messages == 2


def test_a_torn_end_is_no_damage_after_a_kill(path: Path) -> None:
    log = new_log(path)
    fill(log, 2)
    crash(log)
    append_bytes(segment_paths(path)[0], b"torn")

    (finding,) = inspect(path).findings

    assert (finding.is_damage, finding.position) == (False, 40 + 2 * BLOCK_BYTES)
