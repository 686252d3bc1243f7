import bisect
import errno
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.topiclog.block import MAGIC
from nsqlake.topiclog.scan import Scan, scan_segment
from nsqlake.topiclog.segment import SEGMENT_HEADER_BYTES
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.topiclog.support import SALT, block

HEAD = bytes(SEGMENT_HEADER_BYTES)


def scan(tmp_path: Path, parts: Sequence[bytes], files: FaultyFiles | None = None) -> Scan:
    files = files or FaultyFiles()
    path = tmp_path / "segment"
    path.write_bytes(HEAD + b"".join(parts))
    fd = files.open(str(path), 0)
    result = scan_segment(files, fd, path.stat().st_size, salt=SALT, base=100)
    files.close(fd)
    return result


def bases(result: Scan) -> list[int]:
    return [result.index.offset(number) for number in range(len(result.index))]


def test_every_block_is_indexed(tmp_path: Path) -> None:
    result = scan(tmp_path, [block([b"a"], 100), block([b"b", b"cc"], 101, due_ns=5), block([b"d"], 103)])

    assert bases(result) == [100, 101, 103]
    assert (result.bad, result.tail, result.index.end) == ([], None, 104)
    assert list(result.index.due(0, 200)) == [(101, 2, 5)]


def test_a_segment_without_blocks_is_empty(tmp_path: Path) -> None:
    result = scan(tmp_path, [])

    assert (len(result.index), result.size, result.tail) == (0, SEGMENT_HEADER_BYTES, None)


def test_a_torn_block_is_the_tail_and_says_how_many_messages_it_had(tmp_path: Path) -> None:
    good = block([b"a"], 100)

    result = scan(tmp_path, [good, block([b"b", b"c", b"d"], 101)[:-1]])

    assert bases(result) == [100]
    assert result.tail is not None
    assert (result.tail.reason, result.tail.messages) == ("cut short", 3)
    assert result.size == result.tail.position == SEGMENT_HEADER_BYTES + len(good)


def test_too_little_of_a_torn_block_says_nothing(tmp_path: Path) -> None:
    result = scan(tmp_path, [block([b"b", b"c"], 100)[:10]])

    assert result.tail is not None
    assert result.tail.messages == 0


def test_zeros_behind_the_last_block_are_the_tail(tmp_path: Path) -> None:
    result = scan(tmp_path, [block([b"a"], 100), bytes(5000)])

    assert bases(result) == [100]
    assert result.tail is not None
    assert (result.tail.end - result.tail.position, result.tail.messages) == (5000, 0)


def test_damage_is_skipped_up_to_the_next_block(tmp_path: Path) -> None:
    middle = bytearray(block([b"b", b"c"], 101))
    middle[-1] ^= 1

    result = scan(tmp_path, [block([b"a"], 100), bytes(middle), block([b"d"], 103)])

    assert bases(result) == [100, 103]
    assert [(bad.reason, bad.messages, bad.end - bad.position) for bad in result.bad] == [
        ("checksum failed", 2, len(middle))
    ]
    assert result.tail is None


def test_a_wrong_length_does_not_hide_the_blocks_it_covers(tmp_path: Path) -> None:
    middle = bytearray(block([b"b"], 101))
    middle[10] ^= 1

    result = scan(tmp_path, [block([b"a"], 100), bytes(middle), *(block([b"x"], 102 + i) for i in range(9))])

    assert bases(result) == [100, *range(102, 111)]


def test_a_body_that_looks_like_a_block_is_not_taken_for_one(tmp_path: Path) -> None:
    forged = block([b"forged"], 101)
    unsalted = forged[:4] + bytes(4) + forged[8:]
    carrier = bytearray(block([unsalted, MAGIC * 3], 100))
    carrier[5] ^= 1

    result = scan(tmp_path, [bytes(carrier), block([b"good"], 102)])

    assert bases(result) == [102]
    assert [bad.messages for bad in result.bad] == [2]


def test_a_repeated_block_is_damage_and_not_delivered_twice(tmp_path: Path) -> None:
    first = block([b"a"], 100)

    result = scan(tmp_path, [first, first, block([b"b"], 101)])

    assert bases(result) == [100, 101]
    assert [bad.messages for bad in result.bad] == [0]


def test_a_block_far_ahead_does_not_belong_here(tmp_path: Path) -> None:
    result = scan(tmp_path, [block([b"a"], 100 + 2**32)])

    assert bases(result) == []
    assert result.tail is not None


def test_blocks_larger_than_the_window_are_read(tmp_path: Path) -> None:
    large = b"x" * (5 * 1024 * 1024)

    result = scan(tmp_path, [block([b"a"], 100), block([large], 101), block([b"b"], 102)])

    assert bases(result) == [100, 101, 102]


def test_the_next_block_is_found_beyond_the_window(tmp_path: Path) -> None:
    result = scan(tmp_path, [block([b"a"], 100), bytes(9 * 1024 * 1024), block([b"b"], 101)])

    assert bases(result) == [100, 101]


def test_an_unreadable_page_costs_only_its_blocks(tmp_path: Path) -> None:
    files = FaultyFiles()
    blocks = [block([b"%0*d" % (1000, i)], 100 + i) for i in range(12)]
    files.fail("pread", errno.EIO)
    files.fail("pread", errno.EIO, at=2)

    result = scan(tmp_path, blocks, files)

    assert result.is_unreadable
    assert 5 <= len(result.index) < 12


def test_a_segment_that_cannot_be_read_at_all_is_empty(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.fail("pread", errno.EIO, times=FOREVER)

    result = scan(tmp_path, [block([b"a"], 100)], files)

    assert (bases(result), result.is_unreadable) == ([], True)


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    sizes=st.sampled_from([(5, 5), (5, 9), (0, 30)]),
    seed=st.integers(0, 2**31),
)
def test_wherever_a_bit_is_flipped_only_its_block_is_missing(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], sizes: tuple[int, int], seed: int
) -> None:
    offsets = [100, *itertools.accumulate(counts, initial=100)][1:-1]
    blocks = [
        block([b"x" * sizes[i % 2] for i in range(count)], offset, due_ns=offset % 2, timestamp_ns=offset)
        for offset, count in zip(offsets, counts, strict=True)
    ]
    data = bytearray(b"".join(blocks))
    bit = seed % (len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    ends = list(itertools.accumulate(map(len, blocks)))
    victim = bisect.bisect_right(ends, bit // 8)

    result = scan(tmp_path_factory.mktemp("scan"), [bytes(data)])

    left = [number for number in range(len(blocks)) if number != victim]
    assert bases(result) == [offsets[number] for number in left]
    assert list(result.index.positions) == [40 + ends[number] - len(blocks[number]) for number in left]
    assert list(result.index.counts) == [counts[number] for number in left]
    assert list(result.index.due(0, 10**6)) == [(offsets[n], counts[n], 1) for n in left if offsets[n] % 2]
    assert result.index.newest_ns == max([offsets[number] for number in left], default=0)
    assert len(result.bad) + (result.tail is not None) == 1
