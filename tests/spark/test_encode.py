"""Rows as bodies of MPUB."""

import itertools
import struct

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from nsqlake.spark.encode import Mpub, check_columns, encode_batch
from nsqlake.spark.errors import RowError
from nsqlake.wire.mpub_bodies import decode_binary

LARGE = 1 << 20

bodies = st.binary(min_size=1, max_size=40)
topics = st.sampled_from(["a", "other", "c.d#ephemeral", None])
delays = st.sampled_from([None, 0, 1, 90_000])


def batch_of(rows: list[dict[str, object]], body: pa.DataType | None = None) -> pa.RecordBatch:
    types = {"body": body or pa.binary(), "topic": pa.string(), "defer_ms": pa.int32()}
    names = rows[0]
    return pa.record_batch({name: pa.array([row[name] for row in rows], types[name]) for name in names})


def messages_of(mpub: Mpub) -> list[bytes]:
    """As nsqd finds them."""
    decoded = decode_binary(bytes(mpub.body), max_msg_size=LARGE, max_body_size=LARGE)
    assert len(decoded.records) + 4 == len(mpub.body)
    records, at, found = decoded.records, 0, []
    while at < len(records):
        (size,) = struct.unpack_from(">i", records, at)
        found.append(bytes(records[at + 4 : at + 4 + size]))
        at += 4 + size
    assert len(found) == mpub.message_count
    return found


@given(
    st.lists(st.fixed_dictionaries({"body": bodies, "topic": topics, "defer_ms": delays}), min_size=1),
    st.integers(5, 300),
    st.integers(0, 3),
)
def test_every_row_is_published_once_to_its_topic_in_its_order(
    rows: list[dict[str, object]], max_bytes: int, skipped: int
) -> None:
    found: dict[tuple[str, int], list[bytes]] = {}

    for mpub in encode_batch(batch_of(rows).slice(skipped), "other", max_bytes):
        assert len(mpub.body) <= max_bytes or mpub.message_count == 1
        assert [bytes(message) for message in mpub.messages()] == messages_of(mpub)
        found.setdefault((mpub.topic, mpub.defer_ms), []).extend(messages_of(mpub))

    expected: dict[tuple[object, object], list[object]] = {}
    for row in rows[skipped:]:
        key = (row["topic"] or "other", row["defer_ms"] or 0)
        expected.setdefault(key, []).append(row["body"])
    assert found == expected


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_a_body_is_binary_or_text(kind: pa.DataType) -> None:
    texts = ["plain", "größer 🦀"]
    rows = [{"body": text if pa.types.is_string(kind) or pa.types.is_large_string(kind) else text.encode()}
            for text in texts]  # fmt: skip

    (mpub,) = encode_batch(batch_of(rows, kind), "t", LARGE)

    assert messages_of(mpub) == [text.encode() for text in texts]


@given(st.lists(bodies, min_size=1), st.integers(5, 200))
def test_a_request_is_as_full_as_it_may_be(texts: list[bytes], max_bytes: int) -> None:
    mpubs = list(encode_batch(batch_of([{"body": text} for text in texts]), "t", max_bytes))

    for mpub, following in itertools.pairwise(mpubs):
        assert len(mpub.body) + 4 + len(messages_of(following)[0]) > max_bytes


def test_no_rows_are_no_requests() -> None:
    empty = batch_of([{"body": b"x", "topic": "a", "defer_ms": 1}]).slice(1)

    assert not list(encode_batch(empty, "t", LARGE))
    assert not list(encode_batch(empty.select(["body"]), "t", LARGE))


def test_a_delay_for_every_row_does_not_take_for_ever() -> None:
    count = 3_000
    batch = pa.record_batch({"body": pa.array([b"x"] * count), "defer_ms": pa.array(range(count))})

    assert sum(mpub.message_count for mpub in encode_batch(batch, "t", LARGE)) == count


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"body": None}, "column body is null in 1 rows"),
        ({"body": b""}, "column body is empty in 1 rows"),
        ({"body": b"x", "topic": ""}, "column topic '' is no valid name"),
        ({"body": b"x", "topic": "no spaces"}, "column topic 'no spaces' is no valid name"),
        ({"body": b"x", "topic": None}, "column topic is null, and the option topic is not given"),
        ({"body": b"x", "topic": "t", "defer_ms": -1}, "column defer_ms -1 is negative"),
    ],
)
def test_a_row_that_cannot_be_published_is_told_before_any_is_sent(row: dict[str, object], text: str) -> None:
    good = {"body": b"good", "topic": "good", "defer_ms": 0}
    batch = batch_of([{name: good[name] for name in row}, row])

    with pytest.raises(RowError) as raised:
        next(encode_batch(batch, "t" if "topic" not in row else "", LARGE))

    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        ([], "t", "column body is missing; there are: none"),
        ([("Body", "string")], "t", "column body is missing; there are: Body"),
        ([("body", "string")], "", "column topic is missing"),
        ([("body", "string"), ("key", "string")], "t", "column key is not known"),
        ([("body", "string"), ("body", "binary")], "t", "column body is there 2 times"),
        ([("body", "struct")], "t", "column body must be binary or string or char or varchar, not struct"),
        ([("body", "string"), ("topic", "binary")], "t", "column topic must be string"),
        ([("body", "string"), ("defer_ms", "double")], "t", "column defer_ms must be byte or"),
    ],
)
def test_columns_that_cannot_be_published_are_named(
    columns: list[tuple[str, str]], topic: str, text: str
) -> None:
    with pytest.raises(RowError) as raised:
        check_columns(columns, topic)

    assert text in str(raised.value)


def test_columns_that_can_be_published_are_taken() -> None:
    check_columns([("body", "binary")], "t")
    check_columns([("defer_ms", "long"), ("topic", "varchar"), ("body", "string")], "")
