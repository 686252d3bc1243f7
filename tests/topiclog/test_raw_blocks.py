"""Raw blocks: whole, in order, without what is damaged, and readable while somebody holds them."""

import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog import LogClosedError, LogOptions, MemoryLog, ReadError, TopicLog
from nsqlake.topiclog.block import BLOCK_HEADER, BlockFault, block_size, decode_block
from nsqlake.topiclog.raw_blocks import MAX_FILES, RawBlocks
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import (
    FIRST,
    SALT,
    Message,
    append,
    crash,
    drain,
    fill,
    flip_bit,
    messages_of,
    open_log,
    segment_paths,
)

ALL = 1 << 40


def content(blocks: RawBlocks) -> bytes:
    return blocks.data + b"".join(os.pread(fd, count, position) for fd, position, count in blocks.parts)


def decoded(blocks: RawBlocks, salt: int = SALT) -> list[Message]:
    """What a reader makes of it that goes from block to block."""
    data, position, messages = content(blocks), 0, list[Message]()
    assert len(data) == blocks.nbytes
    while position < len(data):
        span = decode_block(data, position, salt)
        assert not isinstance(span, BlockFault), span
        messages += messages_of(span)
        position += block_size(data, position)
    return messages


def new_log(path: Path, **options: int) -> TopicLog:
    return open_log(path / "log", **options)[0]


def test_all_blocks_of_all_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_bytes_per_file=500)
    messages = fill(log, 12)
    assert 3 < log.segment_count <= MAX_FILES

    blocks = log.raw_blocks(FIRST, ALL)

    assert decoded(blocks) == messages
    assert (blocks.base, blocks.next) == (FIRST, log.next)
    blocks.release()
    log.close()


@pytest.mark.parametrize("max_bytes", [1, 155, 156, 157, 312, 1_000, 1_600])
def test_blocks_end_within_the_limit_and_the_next_call_goes_on(tmp_path: Path, max_bytes: int) -> None:
    log = new_log(tmp_path, max_bytes_per_file=700)
    messages, offset, read = fill(log, 20), FIRST, list[Message]()

    while offset < log.next:
        blocks = log.raw_blocks(offset, max_bytes)
        assert blocks.nbytes <= max(max_bytes, 156)
        read += decoded(blocks)
        offset = blocks.next
        blocks.release()

    assert read == messages
    log.close()


def test_an_offset_within_a_block_brings_the_whole_block(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    base = append(log, [b"a", b"bb", b"ccc"])

    blocks = log.raw_blocks(base + 2, 1)

    assert decoded(blocks) == [(base, b"a"), (base + 1, b"bb"), (base + 2, b"ccc")]
    assert (blocks.base, blocks.next) == (base, base + 3)
    blocks.release()
    log.close()


def test_there_is_nothing_at_the_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.raw_blocks(FIRST, ALL).nbytes == 0
    fill(log, 2)

    blocks = log.raw_blocks(log.next, ALL)

    assert (blocks.parts, blocks.base, blocks.next) == ([], log.next, log.next)
    log.close()


@pytest.mark.parametrize("damaged", [[0], [3], [9], [3, 4], [0, 5, 9]])
def test_blocks_that_are_known_to_be_damaged_are_left_out(tmp_path: Path, damaged: list[int]) -> None:
    log = new_log(tmp_path)
    messages = fill(log, 10)
    [path] = segment_paths(tmp_path / "log")
    for number in damaged:
        flip_bit(path, 8 * (40 + 156 * number + 100))
    drain(log, FIRST)

    blocks = log.raw_blocks(FIRST, ALL)

    assert decoded(blocks) == [message for i, message in enumerate(messages) if i not in damaged]
    blocks.release()
    log.close()


def test_a_reader_that_finds_damage_asks_for_verified_blocks_and_gets_past_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    messages = fill(log, 4)
    flip_bit(segment_paths(tmp_path / "log")[0], 8 * (40 + 156 + 100))
    raw = log.raw_blocks(messages[1][0], 156)
    assert decode_block(content(raw), 0, SALT) is BlockFault.CHECKSUM
    raw.release()

    verified = log.raw_blocks(messages[1][0], ALL, verified=True)

    assert decoded(verified) == messages[2:]
    assert verified.base == messages[2][0]
    verified.release()
    assert log.raw_blocks(log.next, ALL, verified=True).nbytes == 0
    log.close()


def test_behind_the_last_block_a_reader_is_led_to_the_end_of_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 2)
    end = log.next
    crash(log)

    log, _ = open_log(tmp_path / "log", clean=False)
    blocks = log.raw_blocks(end, ALL)

    assert log.next > end
    assert (blocks.nbytes, blocks.base, blocks.next) == (0, log.next, log.next)
    log.close()


def test_a_damaged_size_in_front_of_a_gap_does_not_reach_beyond_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    messages = fill(log, 4)
    (path,) = segment_paths(tmp_path / "log")
    flip_bit(path, 8 * (40 + 156 + 100))
    log.raw_blocks(messages[1][0], 156, verified=True).release()

    for bit in range(8 * BLOCK_HEADER.size):
        flip_bit(path, 8 * 40 + bit)
        blocks = log.raw_blocks(FIRST, ALL)
        assert (blocks.base, blocks.next) == (FIRST, log.next)
        assert content(blocks)[-312:] == Path(path).read_bytes()[-312:]
        assert blocks.nbytes <= 4 * 156
        blocks.release()
        flip_bit(path, 8 * 40 + bit)
    log.close()


def test_a_damaged_block_at_the_very_end_is_skipped_like_any_other(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    messages = fill(log, 2)
    flip_bit(segment_paths(tmp_path / "log")[0], 8 * (40 + 156 + 100))

    blocks = log.raw_blocks(messages[1][0], ALL, verified=True)

    assert (blocks.nbytes, blocks.next) == (0, log.next)
    assert log.read_block(messages[1][0]) is None
    assert log.offset_at(1 << 62) == log.next
    log.close()


def test_one_reader_holds_only_a_few_files_open(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_bytes_per_file=200)
    messages, offset, found = fill(log, 30), FIRST, list[Message]()

    while offset < log.next:
        blocks = log.raw_blocks(offset, ALL)
        assert 0 < blocks.file_count <= MAX_FILES < log.segment_count
        found += decoded(blocks)
        offset = blocks.next
        blocks.release()

    assert found == messages
    log.close()


def test_files_stay_whole_while_somebody_reads_them(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_bytes_per_file=200)
    messages = fill(log, 6)
    blocks = log.raw_blocks(messages[1][0], 156)

    # The first segment is still needed, so the one behind it would be cut down to its header, not unlinked.
    log.retire(lambda base, end: base == FIRST)
    assert decoded(blocks) == [messages[1]]
    blocks.release()
    blocks.release()

    log.retire(lambda base, end: base == FIRST)
    assert log.count(messages[1][0], messages[1][0] + 1) == 0
    assert drain(log) == messages[:1]
    log.close()


def test_files_of_a_deleted_log_can_be_read_to_the_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    messages = fill(log, 3)
    blocks = log.raw_blocks(FIRST, ALL)

    log.delete()

    assert decoded(blocks) == messages
    blocks.release()
    with pytest.raises(LogClosedError):
        log.raw_blocks(FIRST, ALL)
    with pytest.raises(LogClosedError):
        log.read_block(FIRST)


def test_a_file_that_cannot_be_opened_is_an_error_and_nothing_stays_open(tmp_path: Path) -> None:
    files = FaultyFiles()
    log, _ = open_log(tmp_path / "log", files=files, max_bytes_per_file=200)
    fill(log, 3)
    files.fail("open", errno.EMFILE, at=2)
    before = files.open_descriptors

    with pytest.raises(ReadError):
        log.raw_blocks(FIRST, ALL)

    assert files.open_descriptors == before
    assert log.retire(lambda base, end: False)  # nobody is taken for a reader
    log.close()


def test_finding_blocks_reads_none_of_them(tmp_path: Path) -> None:
    files = FaultyFiles()
    log, _ = open_log(tmp_path / "log", files=files)
    fill(log, 50)
    files.fail("pread", errno.EIO)

    blocks = log.raw_blocks(FIRST + 7, ALL)

    assert blocks.nbytes == 43 * 156
    blocks.release()
    log.close()


def test_blocks_of_a_memory_log_are_encoded_as_a_file_would_hold_them() -> None:
    log = MemoryLog(uuid=bytes(16), first_offset=FIRST, options=LogOptions())
    append(log, [b"a", b"bb"])
    append(log, [b"cc", b"dd"], due_ns=9)
    append(log, [b"e"])

    everything, some = log.raw_blocks(FIRST + 1, ALL), log.raw_blocks(FIRST + 2, 1)

    assert decoded(everything, log.salt) == drain(log)
    assert (everything.base, everything.next) == (FIRST, log.next)
    assert decoded(some, log.salt) == [(FIRST + 2, b"cc"), (FIRST + 3, b"dd")]
    assert (some.base, some.next) == (FIRST + 2, FIRST + 4)
    assert log.raw_blocks(log.next, ALL).nbytes == 0
    everything.release()


@pytest.mark.parametrize("memory", [0, 2, 100])
def test_one_block_is_read_by_an_offset_it_holds(tmp_path: Path, memory: int) -> None:
    log = new_log(tmp_path, max_bytes_per_file=300, mem_messages=memory)
    base = append(log, [b"a", b"bb"])
    messages = [(base, b"a"), (base + 1, b"bb"), *fill(log, 5)]

    for offset, body in messages:
        span = log.read_block(offset)
        assert span is not None
        assert span.body(offset - span.base) == body
    assert log.read_block(FIRST - 1) is None
    assert log.read_block(log.next) is None
    log.close()
