import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.topiclog.index import BlockIndex


@pytest.fixture
def index() -> BlockIndex:
    """Blocks [100, 102) and [102, 103), a hole of two, then [105, 110), which is due, and [110, 111)."""
    index = BlockIndex(100)
    index.add(100, 40, 2, 1000, 0)
    index.add(102, 140, 1, 1001, 0)
    index.add(105, 240, 5, 1002, 77)
    index.add(110, 340, 1, 900, 88)
    return index


@pytest.mark.parametrize(
    ("offset", "number"),
    [(0, 0), (100, 0), (101, 0), (102, 1), (103, 2), (104, 2), (109, 2), (110, 3), (111, 4)],
)
def test_the_block_that_ends_after_an_offset_is_found(index: BlockIndex, offset: int, number: int) -> None:
    assert index.find(offset) == number


def test_an_empty_index_finds_nothing() -> None:
    assert BlockIndex(100).find(100) == 0
    assert (BlockIndex(100).end, BlockIndex(100).last_end, len(BlockIndex(100))) == (100, 100, 0)


def test_the_first_block_may_be_missing() -> None:
    index = BlockIndex(100)
    index.add(103, 40, 1, 0, 0)

    assert index.find(100) == 0
    assert index.holes() == [(100, 103)]


def test_due_blocks_are_listed_by_range(index: BlockIndex) -> None:
    assert list(index.due(0, 200)) == [(105, 5, 77), (110, 1, 88)]
    assert list(index.due(109, 110)) == [(105, 5, 77)]
    assert list(index.due(110, 200)) == [(110, 1, 88)]
    assert list(index.due(0, 105)) == []


def test_holes_are_the_offsets_without_a_block(index: BlockIndex) -> None:
    assert index.holes() == [(103, 105)]


def test_a_removed_block_leaves_a_hole_and_shifts_the_due_ones(index: BlockIndex) -> None:
    index.remove(1, 2)

    assert index.holes() == [(102, 105)]
    assert list(index.due(0, 200)) == [(105, 5, 77), (110, 1, 88)]
    assert (len(index), index.find(102)) == (3, 1)


def test_removed_due_blocks_are_no_longer_due_and_the_end_stays(index: BlockIndex) -> None:
    index.remove(2, 4)

    assert list(index.due(0, 200)) == []
    assert index.holes() == [(103, 111)]
    assert (index.end, index.last_end) == (111, 103)


def test_a_frozen_view_does_not_see_a_removal(index: BlockIndex) -> None:
    frozen = index.frozen()

    index.remove(0, 1)

    assert (len(frozen), len(index)) == (4, 3)


@given(blocks=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 2)), max_size=20))
def test_an_index_is_read_back_as_it_was_written(blocks: list[tuple[int, int, int]]) -> None:
    index, offset = BlockIndex(2**53), 2**53
    for position, (gap, count, due_ns) in enumerate(blocks):
        index.add(offset + gap, 40 + position, count, offset, due_ns)
        offset += gap + count

    decoded = BlockIndex.decode(index.encode(12345))

    assert decoded is not None
    assert decoded[1] == 12345
    for name in BlockIndex.__slots__:
        assert getattr(decoded[0], name) == getattr(index, name)


def test_every_flipped_bit_is_noticed(index: BlockIndex) -> None:
    data = index.encode(12345)

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert BlockIndex.decode(bytes(damaged)) is None


def test_a_cut_index_is_refused(index: BlockIndex) -> None:
    data = index.encode(12345)

    assert all(BlockIndex.decode(data[:size]) is None for size in range(len(data)))


def test_an_index_whose_columns_have_other_lengths_is_refused(index: BlockIndex) -> None:
    body = index.encode(12345)[8:] + b"more"

    assert BlockIndex.decode(b"NQX1" + google_crc32c.value(body).to_bytes(4, "big") + body) is None
