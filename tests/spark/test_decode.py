"""Blocks as Arrow columns: the same messages that the log's own decoder finds."""

from datetime import UTC, datetime

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.spark import blocks
from nsqlake.spark.blocks import BlockDamageError, BlockRun, find_runs
from nsqlake.spark.decode import decode_run
from nsqlake.spark.options import COLUMNS
from nsqlake.spark.schema import arrow_schema
from nsqlake.topiclog.block import BLOCK_HEADER, BlockFault, block_size, decode_block
from nsqlake.wire.message import id_digits
from tests.spark.block_bytes import SALT, block

NODE_ID = 613
ID_BASE = NODE_ID << 54
EVERYTHING = (0, 1 << 54)

Row = tuple[bytes, int, int]


def decode(data: bytes, start: int = 0, end: int = 1 << 54) -> list[dict[str, object]]:
    return [row for batch in batches(data, start, end) for row in batch.to_pylist()]


def batches(data: bytes, start: int, end: int, columns: tuple[str, ...] = COLUMNS) -> list[pa.RecordBatch]:
    return [
        make_batch(run, start, end, columns)
        for run in find_runs(memoryview(bytearray(data)), SALT, start, end)
    ]


def make_batch(run: BlockRun, start: int, end: int, columns: tuple[str, ...] = COLUMNS) -> pa.RecordBatch:
    return decode_run(
        run, start=start, end=end, schema=arrow_schema(columns), id_base=ID_BASE, topic="t", node="n:1"
    )


def expected(data: bytes, start: int, end: int) -> list[Row]:
    """One message after the other, by the log's own decoder."""
    rows: list[Row] = []
    position = 0
    while position < len(data):
        span = decode_block(data, position, SALT)
        assert not isinstance(span, BlockFault)
        rows += [
            (span.body(i), span.base + i, span.timestamp(i) // 1000)
            for i in range(span.count)
            if start <= span.base + i < end
        ]
        position += block_size(data, position)
    return rows


@st.composite
def raw_logs(draw: st.DrawFn) -> tuple[bytes, int]:
    """Some blocks with holes between them, and the offset behind the last one."""
    data, offset = [], draw(st.integers(0, 1 << 50))
    for _ in range(draw(st.integers(1, 12))):
        body = st.binary(min_size=3, max_size=3) if draw(st.booleans()) else st.binary(min_size=1, max_size=9)
        bodies = draw(st.lists(body, min_size=1, max_size=draw(st.sampled_from((1, 1, 8)))))
        tag = draw(st.sampled_from((b"", b"", b"tag")))
        stamp_ns = draw(st.integers(0, 1 << 62))
        data.append(block(offset, bodies, tag=tag, mixed=draw(st.booleans()), stamp_ns=stamp_ns))
        offset += len(bodies) + draw(st.sampled_from((0, 0, 5, 1 << 30)))
    return b"".join(data), offset


@given(raw_logs(), st.data())
def test_any_blocks_give_what_the_log_itself_reads(log: tuple[bytes, int], data: st.DataObject) -> None:
    raw, behind = log
    first = BLOCK_HEADER.unpack_from(raw)[4]
    start = data.draw(st.integers(first, behind))
    end = data.draw(st.integers(start, behind + 5))

    rows = decode(raw, start, end)

    found = [(row["body"], row["offset"], _microseconds(row["timestamp"])) for row in rows]
    assert found == expected(raw, start, end)


def decode_until_damage(data: bytearray) -> tuple[list[object], str]:
    """The bodies before the damage, and what is wrong there."""
    found: list[object] = []
    try:
        for run in find_runs(memoryview(data), SALT, *EVERYTHING):
            found += make_batch(run, *EVERYTHING).column(0).to_pylist()
    except BlockDamageError as error:
        return found, error.reason
    return found, ""


def _microseconds(moment: object) -> int:
    assert isinstance(moment, datetime)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@given(raw_logs(), st.data())
def test_no_flipped_bit_gives_a_wrong_message(log: tuple[bytes, int], data: st.DataObject) -> None:
    raw, _ = log
    right = expected(raw, *EVERYTHING)
    damaged = bytearray(raw)
    damaged[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    found, reason = decode_until_damage(damaged)

    assert reason
    assert found == [body for body, _, _ in right][: len(found)]
    assert len(found) < len(right)


@given(raw_logs(), st.data())
def test_no_cut_gives_a_wrong_message(log: tuple[bytes, int], data: st.DataObject) -> None:
    raw, _ = log
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]

    found, reason = decode_until_damage(bytearray(cut))

    assert reason in ("cut short", "no block starts here", "")
    assert found == [body for body, _, _ in expected(raw, *EVERYTHING)][: len(found)]


def test_ids_are_those_that_consumers_get() -> None:
    offsets = (1 << 53) + 12345

    (row,) = decode(block(offsets, [b"x"]))

    assert row["id"] == id_digits(ID_BASE + offsets).decode()


def test_every_row_has_topic_and_node_and_a_time_in_utc() -> None:
    (row, _) = decode(block(5, [b"a", b"bc"]))

    assert (row["topic"], row["node"]) == ("t", "n:1")
    assert row["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)


def test_columns_come_as_they_were_chosen() -> None:
    (batch,) = batches(block(5, [b"a"]), *EVERYTHING, ("offset", "body"))

    assert batch.schema.equals(arrow_schema(("offset", "body")), check_metadata=True)
    assert batch.to_pylist() == [{"offset": 5, "body": b"a"}]


def test_a_body_does_not_change_when_the_buffer_is_used_again() -> None:
    for raw in (block(5, [b"alone"]), block(5, [b"one", b"two"]), block(5, [b"b" * 5000] * 3)):
        buffer = bytearray(raw)
        (run,) = find_runs(memoryview(buffer), SALT, *EVERYTHING)
        batch = make_batch(run, *EVERYTHING)
        before = batch.to_pylist()

        buffer[:] = bytes(len(buffer))

        assert batch.to_pylist() == before


@pytest.mark.parametrize("sizes", [(1,), (3,), (5000,), (1, 40, 5000)])
@pytest.mark.parametrize("per_block", [1, 2, 50])
def test_small_and_large_blocks_are_read_alike(sizes: tuple[int, ...], per_block: int) -> None:
    bodies = [bytes([number]) * sizes[number % len(sizes)] for number in range(100)]
    starts = range(0, 100, per_block)
    raw = b"".join(block(1000 + at, bodies[at : at + per_block]) for at in starts)

    assert [row["body"] for row in decode(raw)] == bodies


def test_a_range_within_a_block_is_cut_out() -> None:
    raw = block(100, [bytes([65 + number]) for number in range(10)])

    assert [row["body"] for row in decode(raw, 103, 106)] == [b"D", b"E", b"F"]


def test_runs_are_bounded_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"".join(block(10 * number, [b"x"] * 10) for number in range(10))
    monkeypatch.setattr(blocks, "ROWS_PER_RUN", 25)
    assert [batch.num_rows for batch in batches(raw, *EVERYTHING)] == [20] * 5

    monkeypatch.setattr(blocks, "BYTES_PER_RUN", 30)
    assert [batch.num_rows for batch in batches(raw, *EVERYTHING)] == [10] * 10


# Damage -----------------------------------------------------------------------------------------------


def fault_of(data: bytes, end: int = 1 << 54, start: int = 3) -> BlockDamageError:
    with pytest.raises(BlockDamageError) as damage:
        list(find_runs(memoryview(bytearray(data)), SALT, start, end))
    return damage.value


def test_damage_is_named_by_the_offset_that_cannot_be_read() -> None:
    good, bad = block(5, [b"a", b"b"]), bytearray(block(7, [b"c"]))
    bad[-1] ^= 1

    assert (fault_of(good + bad).offset, fault_of(good + bad).reason) == (7, "checksum failed")
    assert (fault_of(bytes(bad)).offset, fault_of(good[:-1]).reason) == (3, "cut short")
    assert fault_of(b"x" * BLOCK_HEADER.size + good).reason in ("no block starts here", "cut short")


def test_damage_behind_the_range_is_not_our_concern() -> None:
    good, bad = block(5, [b"a", b"b"]), bytearray(block(7, [b"c"]))
    bad[-1] ^= 1

    assert len(list(find_runs(memoryview(good + bad), SALT, 5, 7))) == 1


def test_a_block_of_another_log_is_damage() -> None:
    with pytest.raises(BlockDamageError, match="bad block at offset 5: checksum failed"):
        list(find_runs(memoryview(bytearray(block(5, [b"a"]))), SALT + 1, 5, 6))


def sealed(base: int, **fields: int) -> bytes:
    """A block with a good checksum and fields that no writer makes."""
    raw = bytearray(block(base, [b"abcd", b"ef"]))
    names = ("length", "count", "base", "timestamp", "due", "flags", "record_size", "producer")
    places = dict(zip(names, (8, 12, 16, 24, 32, 40, 44, 48), strict=True))
    for name, value in fields.items():
        raw[places[name] : places[name] + 4] = value.to_bytes(4, "big")
    raw[4:8] = google_crc32c.extend(SALT, bytes(raw[8:])).to_bytes(4, "big")
    return bytes(raw)


def test_a_newer_format_is_not_guessed_at() -> None:
    assert fault_of(sealed(5, flags=2)).reason == "written by a newer version"


@pytest.mark.parametrize("fields", [{"count": 0}, {"count": 1000}, {"record_size": 5000}])
def test_fields_that_contradict_each_other_are_damage(fields: dict[str, int]) -> None:
    assert fault_of(sealed(5, **fields)).reason == "fields contradict each other"


def test_records_that_overlap_are_damage() -> None:
    raw = bytearray(block(5, [b"abcd", b"ef"]))
    raw[BLOCK_HEADER.size + 4 : BLOCK_HEADER.size + 8] = (1).to_bytes(4, "big")
    raw[4:8] = google_crc32c.extend(SALT, bytes(raw[8:])).to_bytes(4, "big")

    with pytest.raises(BlockDamageError, match="records overlap"):
        decode(bytes(raw))


def test_nothing_is_nothing() -> None:
    assert decode(b"") == []
