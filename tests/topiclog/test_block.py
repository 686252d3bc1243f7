import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.topiclog.block import (
    BLOCK_HEADER,
    BlockFault,
    Span,
    block_size,
    block_tag,
    decode_block,
    encode_block,
)
from tests.topiclog.support import SALT, block, framed

BODIES = st.lists(st.binary(max_size=30), min_size=1, max_size=20)


def resealed(data: bytes, **fields: int) -> bytes:
    """The block with other header fields and a checksum that fits them."""
    names = [
        "magic",
        "crc",
        "length",
        "count",
        "base",
        "timestamp",
        "due",
        "flags",
        "record_size",
        "producer",
    ]
    values = dict(zip(names, BLOCK_HEADER.unpack_from(data), strict=True)) | fields
    changed = BLOCK_HEADER.pack(*values.values()) + data[BLOCK_HEADER.size :]
    crc = google_crc32c.extend(SALT, changed[8:])
    return changed[:4] + crc.to_bytes(4, "big") + changed[8:]


@given(bodies=BODIES, base=st.integers(0, 2**54), before=st.binary(max_size=9), due_ns=st.integers(0, 2**63))
def test_what_was_encoded_is_decoded(bodies: list[bytes], base: int, before: bytes, due_ns: int) -> None:
    data = before + block(bodies, base, timestamp_ns=99, due_ns=due_ns) + b"behind"

    span = decode_block(data, len(before), SALT)

    assert isinstance(span, Span)
    assert [span.body(i) for i in range(span.count)] == bodies
    assert (span.base, span.end, span.due_ns) == (base, base + len(bodies), due_ns)
    assert span.timestamp(len(bodies) - 1) == 99
    assert span.nbytes == sum(4 + len(body) for body in bodies)
    assert block_size(data, len(before)) == len(data) - len(before) - len(b"behind")


@given(bodies=BODIES, tag=st.binary(max_size=20))
def test_a_tag_is_kept_beside_the_records(bodies: list[bytes], tag: bytes) -> None:
    data = block(bodies, 5, tag=tag)

    span = decode_block(data + b"behind", 0, SALT)

    assert isinstance(span, Span)
    assert [span.body(i) for i in range(span.count)] == bodies
    assert span.nbytes == sum(4 + len(body) for body in bodies)
    assert (block_tag(span), block_size(data, 0)) == (tag, len(data))


@pytest.mark.parametrize("bodies", [[b"body", b"bulk"], [b"body", b"longer"]])
@pytest.mark.parametrize("flags", [0, 2, 3])
def test_a_tag_that_the_flags_do_not_announce_is_refused(bodies: list[bytes], flags: int) -> None:
    data = resealed(block(bodies, tag=b"tag"), flags=flags)

    assert decode_block(data, 0, SALT) is BlockFault.LAYOUT


@pytest.mark.parametrize("starts", [(0, 8, 99), (1, 8, 18)])
def test_starts_outside_the_block_are_refused_with_a_tag_too(starts: tuple[int, int, int]) -> None:
    data = block([b"body", b"longer"], tag=b"tag")
    begin, end = BLOCK_HEADER.size, BLOCK_HEADER.size + 12
    places = b"".join(start.to_bytes(4, "big") for start in starts)

    assert decode_block(resealed(data[:begin] + places + data[end:]), 0, SALT) is BlockFault.LAYOUT


@given(bodies=BODIES, seed=st.integers(0, 2**31))
def test_any_flipped_bit_is_noticed(bodies: list[bytes], seed: int) -> None:
    data = bytearray(block(bodies, tag=b"tag" * (seed % 2)))
    bit = seed % (len(data) * 8)

    data[bit // 8] ^= 1 << bit % 8

    assert isinstance(decode_block(bytes(data), 0, SALT), BlockFault)


@given(bodies=BODIES, seed=st.integers(0, 2**31))
def test_any_shorter_piece_is_no_block(bodies: list[bytes], seed: int) -> None:
    data = block(bodies)

    assert decode_block(data[: seed % len(data)], 0, SALT) is BlockFault.SHORT


def test_a_block_of_another_log_is_no_block() -> None:
    assert decode_block(block([b"body"]), 0, SALT + 1) is BlockFault.CHECKSUM


def test_other_bytes_are_no_block() -> None:
    assert decode_block(bytes(100), 0, SALT) is BlockFault.MAGIC


@pytest.mark.parametrize(
    "fields", [{"flags": 1}, {"flags": 2}, {"flags": 3}, {"count": 0}, {"count": 3}, {"record_size": 9}]
)
def test_contradicting_fields_are_refused_though_the_checksum_fits(fields: dict[str, int]) -> None:
    data = resealed(block([b"body", b"bulk"]), **fields)

    assert decode_block(data, 0, SALT) is BlockFault.LAYOUT


@pytest.mark.parametrize("count", [1, 3, 100])
def test_starts_that_do_not_frame_the_records_are_refused(count: int) -> None:
    data = resealed(block([b"body", b"longer"]), count=count)

    assert decode_block(data, 0, SALT) is BlockFault.LAYOUT


def test_equal_records_need_no_starts() -> None:
    head, records = encode_block(**framed([b"abc", b"def"]), base=0, salt=SALT, timestamp_ns=1)

    assert len(head) == BLOCK_HEADER.size
    assert records == b"\0\0\0\3abc\0\0\0\3def"


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": 2, "record_size": 8},
        {"count": 0, "record_size": 8},
        {"count": 1},
        {"count": 1, "starts": [0]},
        {"count": 1, "starts": [0, 9]},
        {"count": 1, "starts": [4, 8]},
        {"count": 0, "starts": [8]},
    ],
)
def test_records_that_contradict_their_sizes_are_not_encoded(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        encode_block(b"\0\0\0\4body", base=0, salt=SALT, timestamp_ns=1, **arguments)


@given(bodies=st.lists(st.binary(max_size=5), min_size=2, max_size=9), skipped=st.integers(0, 8))
def test_the_rest_of_a_span_has_the_later_messages(bodies: list[bytes], skipped: int) -> None:
    skipped = min(skipped, len(bodies) - 1)
    span = decode_block(block(bodies, 100), 0, SALT)
    assert isinstance(span, Span)
    span.timestamp_ns = np.arange(len(bodies))

    rest = span.since(100 + skipped)

    assert (rest.base, rest.end) == (100 + skipped, span.end)
    assert [rest.body(i) for i in range(rest.count)] == bodies[skipped:]
    assert rest.timestamp(0) == skipped
    assert rest.nbytes == sum(4 + len(body) for body in bodies[skipped:])


def test_the_rest_of_a_span_keeps_its_one_timestamp() -> None:
    assert Span(5, 2, 5, b"\0\0\0\1a\0\0\0\1b", 0, 5, None, 77).since(6).timestamp(0) == 77


def test_a_span_may_have_a_timestamp_for_each_message() -> None:
    span = Span(5, 2, 6, b"\0\0\0\2ab--\0\0\0\2cd", 0, 8, None, np.array([10, 20]))

    assert [span.body(0), span.body(1)] == [b"ab", b"cd"]
    assert (span.timestamp(1), type(span.timestamp(1))) == (20, int)
    assert repr(span) == "Span([5, 7), record_size=6, due_ns=0)"
