import pytest

from nsqlake.topiclog import LogClosedError, LogOptions, MemoryLog
from tests.topiclog.support import FIRST, UUID, append, drain, fill


def memory_log(mem_messages: int = 100, mem_bytes: int = 10**6) -> MemoryLog:
    options = LogOptions(mem_messages=mem_messages, mem_bytes=mem_bytes)
    return MemoryLog(uuid=UUID, first_offset=FIRST, options=options)


def test_what_was_appended_is_read_back() -> None:
    log = memory_log()
    messages = fill(log, 5)

    offset = append(log, [b"a", b"bb"])

    assert drain(log) == [*messages, (offset, b"a"), (offset + 1, b"bb")]
    assert (log.first, log.oldest, log.memory_first) == (FIRST, FIRST, FIRST)
    assert log.next == log.synced == FIRST + 7


def test_the_oldest_goes_when_it_is_full_and_is_counted() -> None:
    log = memory_log(mem_messages=3)

    messages = fill(log, 5)

    assert drain(log) == messages[2:]
    assert (log.dropped, log.first, log.count(0, log.next)) == (2, FIRST + 2, 3)


def test_bytes_are_bounded_too() -> None:
    log = memory_log(mem_bytes=2000)

    fill(log, 50, size=500)

    assert log.memory_bytes <= 2000
    assert log.dropped == 48


def test_messages_are_counted_by_range() -> None:
    log = memory_log()
    fill(log, 10)

    assert log.count(FIRST + 2, FIRST + 5) == 3
    assert log.count(0, 10**9) == 10
    assert log.count(FIRST + 5, FIRST + 2) == 0


def test_due_blocks_are_listed_while_they_are_kept() -> None:
    log = memory_log(mem_messages=2)
    append(log, [b"a"], due_ns=5)
    append(log, [b"b"], due_ns=6)
    append(log, [b"c"], due_ns=7)

    assert log.due_blocks(0, log.next) == [(FIRST + 1, 1, 6), (FIRST + 2, 1, 7)]
    assert log.due_blocks(FIRST + 2, log.next) == [(FIRST + 2, 1, 7)]
    assert log.due_blocks(0, FIRST + 2) == [(FIRST + 1, 1, 6)]


def test_what_no_channel_needs_is_let_go() -> None:
    log = memory_log()
    messages = fill(log, 5)

    assert log.retire(lambda _base, end: end > FIRST + 3) == []

    assert drain(log) == messages[3:]
    assert log.dropped == 0
    log.retire(lambda _base, _end: False)
    assert log.first == log.next


def test_an_offset_is_found_by_time() -> None:
    log = memory_log()
    for stamp in (10, 20, 30):
        append(log, [b"x", b"y"], timestamp_ns=stamp)

    assert [log.offset_at(stamp) - FIRST for stamp in (5, 10, 11, 30, 31)] == [0, 0, 2, 4, 6]


def test_there_is_nothing_to_sync_to_trim_or_to_repair() -> None:
    log = memory_log()
    messages = fill(log, 3)

    log.trim_memory(log.next)

    assert log.begin_sync() is None
    with pytest.raises(AssertionError):
        log.end_sync(None, None)  # type: ignore[arg-type]
    assert log.take_damage() == []
    assert drain(log) == messages
    assert (log.failed, log.dirty_messages, log.nbytes, log.damaged_blocks) == (None, 0, 0, 0)


def test_a_closed_log_refuses_everything() -> None:
    log = memory_log()
    fill(log, 3)

    log.delete()

    with pytest.raises(LogClosedError):
        append(log, [b"x"])
    with pytest.raises(LogClosedError):
        log.read(FIRST)
    assert log.memory_bytes == 0
