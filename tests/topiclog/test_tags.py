"""Tags of blocks: kept, found again, and in nobody's way."""

import os
from pathlib import Path

import pytest

from nsqlake.topiclog import LogOptions, MemoryLog, TopicLog
from tests.topiclog.support import (
    FIRST,
    UUID,
    append,
    crash,
    drain,
    flip_bit,
    index_paths,
    open_log,
    segment_paths,
)

BODIES = [[b"one"], [b"equal", b"sizes"], [b"mixed", b"size"], [b"plain"], [b""]]
TAGS = [b"first", b"second", b"third", b"", b"last"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def tagged_log(path: Path, **options: int) -> TopicLog:
    log, _ = open_log(path, **options)
    for bodies, tag in zip(BODIES, TAGS, strict=True):
        append(log, bodies, tag=tag)
    return log


def tags_of(log: TopicLog, start: int, stop: int) -> list[tuple[int, int, bytes]]:
    return [block for block in log.tags(start, stop) if block[2]]


EXPECTED = [
    (FIRST, 1, b"first"),
    (FIRST + 1, 2, b"second"),
    (FIRST + 3, 2, b"third"),
    (FIRST + 6, 1, b"last"),
]
MESSAGES = [(FIRST + i, body) for i, body in enumerate(body for bodies in BODIES for body in bodies)]


@pytest.mark.parametrize("options", [{}, {"mem_messages": 100}, {"max_bytes_per_file": 130}])
def test_tags_are_read_back_and_messages_are_as_without(path: Path, options: dict[str, int]) -> None:
    log = tagged_log(path, **options)

    assert tags_of(log, 0, log.next) == EXPECTED
    assert drain(log) == MESSAGES
    log.close()


def test_tags_of_a_part_are_those_of_the_blocks_it_touches(path: Path) -> None:
    log = tagged_log(path)

    assert tags_of(log, FIRST + 2, FIRST + 4) == EXPECTED[1:3]
    assert tags_of(log, FIRST + 5, FIRST + 6) == []
    log.close()
    assert tags_of(log, FIRST, log.next) == []


def test_tags_outlive_a_crash_and_a_lost_index(path: Path) -> None:
    log = tagged_log(path, max_bytes_per_file=130)
    log.close()
    for index in index_paths(path):
        os.unlink(index)

    log, report = open_log(path, clean=False)

    assert report.damage == []
    assert (tags_of(log, 0, log.next), drain(log)) == (EXPECTED, MESSAGES)
    crash(log)


def test_many_tagged_blocks_are_recovered_with_plain_ones_between(path: Path) -> None:
    log, _ = open_log(path)
    for number in range(100):
        append(log, [b"%d" % number], tag=b"tag %d" % number if number % 3 else b"")
    messages = drain(log)
    crash(log)

    log, report = open_log(path, clean=False)

    assert (report.damage, report.torn_blocks, drain(log)) == ([], 0, messages)
    assert [tag for _, _, tag in tags_of(log, 0, log.next)] == [b"tag %d" % n for n in range(100) if n % 3]
    crash(log)


def test_a_damaged_block_costs_its_own_tag_and_no_other(path: Path) -> None:
    log = tagged_log(path)
    (segment,) = segment_paths(path)
    with open(segment, "rb") as file:
        at = file.read().index(b"second")
    flip_bit(segment, at * 8)

    assert tags_of(log, 0, log.next) == [EXPECTED[0], *EXPECTED[2:]]
    # The block before the gap is read up to its own end.
    assert tags_of(log, 0, log.next) == [EXPECTED[0], *EXPECTED[2:]]
    assert log.damaged_blocks == 1
    crash(log)


def test_a_memory_log_has_tags_too_as_long_as_their_messages() -> None:
    log = MemoryLog(uuid=UUID, first_offset=FIRST, options=LogOptions(mem_messages=3))
    for bodies, tag in zip(BODIES, TAGS, strict=True):
        append(log, bodies, tag=tag)

    assert list(log.tags(0, log.next)) == [(FIRST + 6, 1, b"last")]
    assert list(log.tags(0, FIRST + 5)) == []


def test_blocks_without_a_tag_come_too_so_that_whoever_looks_can_pause(path: Path) -> None:
    log = tagged_log(path)

    assert [tag for _, _, tag in log.tags(0, log.next)] == TAGS
    log.close()
