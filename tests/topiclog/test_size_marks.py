"""Marks that tell how bytes and messages are spread over the offsets of a log."""

from pathlib import Path

import pytest

from nsqlake.topiclog import LogOptions, MemoryLog, TopicLog
from nsqlake.topiclog.block import BLOCK_HEADER
from tests.topiclog.support import FIRST, append, fill, open_log

BLOCK = BLOCK_HEADER.size + 4 + 100
ALL = 1 << 40


@pytest.fixture
def log(tmp_path: Path) -> TopicLog:
    """Ten blocks of one message each in several segments."""
    log = open_log(tmp_path / "log", max_bytes_per_file=500)[0]
    fill(log, 10)
    assert log.segment_count > 2
    return log


def test_a_mark_follows_every_step_and_the_last_one_is_the_end(log: TopicLog) -> None:
    marks = log.size_marks(FIRST, log.next, 3 * BLOCK, ALL)

    assert marks == [(FIRST + n, n * BLOCK, n) for n in (3, 6, 9, 10)]


def test_a_step_smaller_than_a_block_gives_one_mark_per_block(log: TopicLog) -> None:
    assert [offset - FIRST for offset, _, _ in log.size_marks(FIRST, log.next, 1, ALL)] == list(range(1, 11))


def test_there_are_never_more_marks_than_allowed(log: TopicLog) -> None:
    for most in range(1, 12):
        marks = log.size_marks(FIRST, log.next, 1, most)
        assert len(marks) <= most
        assert marks[-1] == (FIRST + 10, 10 * BLOCK, 10)


def test_a_range_within_blocks_counts_their_bytes_whole_and_its_own_messages(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")[0]
    append(log, [b"x"] * 10)
    append(log, [b"x"] * 10)
    whole = log.nbytes - 40

    assert log.size_marks(FIRST + 4, FIRST + 13, 1, ALL) == [
        (FIRST + 10, whole // 2, 6),
        (FIRST + 13, whole, 9),
    ]
    assert log.size_marks(FIRST + 5, FIRST + 5, 1, ALL)[-1][::2] == (FIRST + 5, 0)


def test_an_empty_range_has_its_end_only(log: TopicLog) -> None:
    assert log.size_marks(log.next, log.next, 1, ALL) == [(log.next, 0, 0)]


def test_a_memory_log_has_one_mark() -> None:
    log = MemoryLog(options=LogOptions(mem_messages=100), first_offset=FIRST, uuid=bytes(16))
    fill(log, 3)

    ((offset, nbytes, messages),) = log.size_marks(FIRST, log.next, 1, ALL)

    assert (offset, messages) == (FIRST + 3, 3)
    assert nbytes >= 3 * 100
