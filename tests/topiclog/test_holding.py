"""Messages that are held back: in the log, on the disk, and for nobody's eyes until they are released."""

from pathlib import Path

import pytest

from nsqlake.topiclog import TopicLog
from nsqlake.topiclog.raw_blocks import RawBlocks
from tests.topiclog.support import append, crash, drain, fill, open_log, sync

ALL = 1 << 40


@pytest.fixture(params=[0, 1_000], ids=["on disk", "in memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> TopicLog:
    return open_log(tmp_path / "log", mem_messages=request.param, max_bytes_per_file=400)[0]


def held(log: TopicLog, *bodies: bytes, timestamp_ns: int = 7) -> int:
    base = append(log, bodies, timestamp_ns=timestamp_ns)
    log.hold(base)
    return base


def released_blocks(log: TopicLog, offset: int) -> tuple[int, int]:
    """Bytes, and where to read on."""
    blocks: RawBlocks = log.raw_blocks(offset, ALL)
    blocks.release()
    return blocks.nbytes, blocks.next


def test_nobody_reads_what_is_held_until_it_is_released(log: TopicLog) -> None:
    seen = fill(log, 3)
    base = held(log, b"a", b"b")
    hidden = [(base, b"a"), (base + 1, b"b"), (append(log, [b"after"]), b"after")]

    assert (log.next, log.end) == (base, base + 3)
    assert (drain(log), log.read(base)) == (seen, None)
    assert log.count(0, ALL) == 3

    log.release()
    assert (log.next, log.end) == (base + 3, base + 3)
    assert drain(log) == seen + hidden
    assert log.count(0, ALL) == 6


def test_single_messages_behind_what_is_held_are_hidden_with_it(log: TopicLog) -> None:
    base = held(log, b"a")

    for number in range(5):
        assert log.append_one(b"\0\0\0\1x", 7) == base + 1 + number
        assert log.next == base

    log.release()
    assert len(drain(log)) == 6


def test_raw_blocks_end_before_what_is_held_also_over_several_segments(log: TopicLog) -> None:
    fill(log, 5)
    before = released_blocks(log, log.first)
    base = held(log, b"hidden")
    fill(log, 5)
    assert log.segment_count > 3

    assert released_blocks(log, log.first) == before == (before[0], base)
    assert released_blocks(log, base) == (0, base)

    log.release()
    assert released_blocks(log, log.first)[1] == log.end


def test_a_time_within_what_is_held_is_the_end(log: TopicLog) -> None:
    append(log, [b"x"], timestamp_ns=10)
    base = held(log, b"hidden", timestamp_ns=20)

    assert log.offset_at(15) == base
    assert log.offset_at(20) == base
    assert log.offset_at(5) < base


def test_a_second_hold_further_on_changes_nothing(log: TopicLog) -> None:
    first = held(log, b"a")
    held(log, b"b")

    assert log.next == first


def test_what_is_held_can_be_synced_and_is_visible_after_a_restart_that_holds_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")[0]
    base = held(log, b"a")
    sync(log)
    assert log.synced == log.end > log.next
    log.close()

    again = open_log(tmp_path / "log")[0]
    assert (again.next, drain(again)) == (base + 1, [(base, b"a")])
    crash(again)


def test_offsets_go_on_behind_what_was_held_at_a_clean_stop(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")[0]
    base = held(log, b"a", b"b")
    log.close()

    again = open_log(tmp_path / "log")[0]
    assert append(again, [b"c"]) == base + 2
    again.close()
