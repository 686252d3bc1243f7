from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.topiclog.block import BlockFault, Span
from nsqlake.topiclog.chunk import Chunk, Placed, decode_blocks
from tests.topiclog.support import SALT, Message, block, messages_of

Bodies = Sequence[Sequence[bytes]]


def laid_out(blocks: Bodies, *, base: int = 100, due_ns: Sequence[int] = ()) -> tuple[bytes, Placed]:
    data, positions, offsets, counts = b"", [], [], []
    for number, bodies in enumerate(blocks):
        positions.append(len(data))
        offsets.append(base)
        counts.append(len(bodies))
        due = due_ns[number] if due_ns else 0
        data += block(bodies, base, timestamp_ns=1000 + number, due_ns=due)
        base += len(bodies)
    return data, Placed(np.array(positions), np.array(offsets), np.array(counts))


def expected(blocks: Bodies, base: int = 100) -> list[Message]:
    return [(base + i, body) for i, body in enumerate(body for bodies in blocks for body in bodies)]


def decoded(spans: list[Span]) -> list[Message]:
    return [message for span in spans for message in messages_of(span)]


BLOCKS = st.lists(st.lists(st.binary(max_size=6), min_size=1, max_size=3), min_size=1, max_size=40)


@given(blocks=BLOCKS)
def test_all_messages_come_back_in_order(blocks: list[list[bytes]]) -> None:
    data, placed = laid_out(blocks)

    spans, bad = decode_blocks(data, placed, SALT)

    assert decoded(spans) == expected(blocks)
    stamps = [span.timestamp(i) for span in spans for i in range(span.count)]
    assert stamps == [1000 + number for number, bodies in enumerate(blocks) for _ in bodies]
    assert bad == []


@given(blocks=BLOCKS, seed=st.integers(0, 2**31))
def test_a_flipped_bit_costs_its_block_only(blocks: list[list[bytes]], seed: int) -> None:
    data, placed = laid_out(blocks)
    damaged = bytearray(data)
    bit = seed % (len(data) * 8)
    damaged[bit // 8] ^= 1 << bit % 8
    victim = int(np.searchsorted(placed.positions, bit // 8, side="right")) - 1
    first = int(placed.offsets[victim])

    spans, bad = decode_blocks(bytes(damaged), placed, SALT)

    assert [number for number, _fault in bad] == [victim]
    lost = range(first, first + len(blocks[victim]))
    assert decoded(spans) == [message for message in expected(blocks) if message[0] not in lost]


def test_single_messages_of_one_size_become_one_span_in_place() -> None:
    data, placed = laid_out([[b"%03d" % i] for i in range(50)])

    (span,), _bad = decode_blocks(data, placed, SALT)

    assert (span.count, span.record_size, span.stride) == (50, 7, 59)
    assert span.data is data
    assert [span.timestamp(0), span.timestamp(49)] == [1000, 1049]


def test_single_messages_of_many_sizes_become_one_span() -> None:
    blocks = [[b"x" * (i % 5)] for i in range(50)]
    data, placed = laid_out(blocks)

    (span,), _bad = decode_blocks(data, placed, SALT)

    assert span.record_size == 0
    assert messages_of(span) == expected(blocks)


def test_small_blocks_of_equal_records_become_one_span() -> None:
    blocks = [[b"%02d" % i, b"++"] for i in range(20)]
    data, placed = laid_out(blocks)

    (span,), _bad = decode_blocks(data, placed, SALT)

    assert (span.count, span.record_size, span.stride) == (40, 6, 6)
    assert messages_of(span) == expected(blocks)
    assert [span.timestamp(38), span.timestamp(39)] == [1019, 1019]


def test_a_few_neighbours_are_not_worth_merging() -> None:
    data, placed = laid_out([[b"a"], [b"b"], [b"c"]])

    assert len(decode_blocks(data, placed, SALT)[0]) == 3


def test_spans_end_where_the_due_time_changes() -> None:
    data, placed = laid_out([[b"a"]] * 20, due_ns=[0] * 5 + [77] * 10 + [88] * 5)

    spans, _bad = decode_blocks(data, placed, SALT)

    assert [(span.count, span.due_ns) for span in spans] == [(5, 0), (10, 77), (5, 88)]


def test_spans_end_where_offsets_are_missing() -> None:
    first, placed_first = laid_out([[b"a"]] * 10)
    second, placed_second = laid_out([[b"b"]] * 10, base=200)
    placed = Placed(
        np.concatenate((placed_first.positions, placed_second.positions + len(first))),
        np.concatenate((placed_first.offsets, placed_second.offsets)),
        np.concatenate((placed_first.counts, placed_second.counts)),
    )

    spans, _bad = decode_blocks(first + second, placed, SALT)

    assert [(span.base, span.count) for span in spans] == [(100, 10), (200, 10)]


def test_a_block_that_is_not_the_one_expected_is_bad() -> None:
    data, placed = laid_out([[b"a"]])

    elsewhere = placed._replace(offsets=placed.offsets + 1)

    assert decode_blocks(data, elsewhere, SALT) == ([], [(0, BlockFault.LAYOUT)])


def test_a_chunk_that_was_cut_keeps_its_whole_blocks() -> None:
    blocks = [[b"a"]] * 20
    data, placed = laid_out(blocks)

    spans, bad = decode_blocks(data[: int(placed.positions[15]) + 3], placed, SALT)

    assert decoded(spans) == expected(blocks)[:15]
    assert [number for number, _fault in bad] == [15, 16, 17, 18, 19]


def test_a_chunk_finds_the_span_of_an_offset() -> None:
    spans = [Span(10, 2, 5, b"", 0, 5, None, 0), Span(20, 2, 5, b"", 0, 5, None, 0)]
    chunk = Chunk(10, 30, spans, 0)

    assert [chunk.find(offset) for offset in (9, 11, 12, 21)] == [spans[0], spans[0], spans[1], spans[1]]
    assert chunk.find(22) is None
