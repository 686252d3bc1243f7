"""Records of a staged file: read back as they came, or not at all."""

from hypothesis import given
from hypothesis import strategies as st

from nsqlake.nsqd.transactions.staged_records import HEADER, decode_record, encode_record, scan_records
from tests.nsqd.transactions.support import messages_of

BODIES = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6)


def file_of(*contents: list[bytes]) -> bytes:
    data = b""
    for number, bodies in enumerate(contents):
        data += b"".join(encode_record(number, "orders", messages_of(*bodies), 5, len(data))[1])
    return data


def scanned(data: bytes) -> tuple[list[int], int]:
    """How many messages each whole record has, and where they end."""
    records, end = scan_records(lambda length, position: data[position : position + length], len(data))
    return [record.message_count for record in records], end


@given(st.lists(BODIES, min_size=1, max_size=4))
def test_what_was_written_is_read_back(contents: list[list[bytes]]) -> None:
    data = file_of(*contents)

    records, end = scan_records(lambda length, position: data[position : position + length], len(data))

    assert end == len(data)
    for record, bodies in zip(records, contents, strict=True):
        found = decode_record(data[record.position : record.position + record.nbytes], record)
        expected = messages_of(*bodies)
        assert found is not None
        assert (found.records, found.count, found.record_size) == (
            expected.records,
            expected.count,
            expected.record_size,
        )
        assert found.starts == expected.starts
        assert (record.topic, record.defer_ms) == ("orders", 5)


@given(st.lists(BODIES, min_size=1, max_size=3), st.data())
def test_a_torn_end_is_left_out(contents: list[list[bytes]], data: st.DataObject) -> None:
    whole = file_of(*contents)
    cut = data.draw(st.integers(0, len(whole) - 1))

    counts, end = scanned(whole[:cut])

    assert len(counts) < len(contents)
    assert end <= cut
    assert counts == [len(bodies) for bodies in contents][: len(counts)]


@given(BODIES, st.data())
def test_a_flipped_bit_is_always_noticed(bodies: list[bytes], data: st.DataObject) -> None:
    changed = bytearray(file_of(bodies))
    record = scan_records(lambda length, position: bytes(changed)[position:][:length], len(changed))[0][0]
    bit = data.draw(st.integers(64, 8 * len(changed) - 1))  # the magic and the sum are not in the sum
    changed[bit // 8] ^= 1 << bit % 8

    assert decode_record(bytes(changed), record) is None
    assert scanned(bytes(changed)) == ([], 0)


def test_zeros_and_other_files_have_no_records() -> None:
    assert scanned(bytes(1000)) == scanned(b"") == scanned(b"NQT1" * 20) == ([], 0)
    first = file_of([b"a"])
    assert scanned(first + first) == ([1], len(first))  # it must be number 1


def test_the_sum_tells_whether_the_same_was_sent_twice() -> None:
    def crc(number: int, topic: str, body: bytes, defer_ms: int, position: int) -> int:
        return encode_record(number, topic, messages_of(body), defer_ms, position)[0].crc

    same = crc(1, "t", b"x", 0, 0)
    assert same == crc(1, "t", b"x", 0, 99)
    assert same not in (crc(2, "t", b"x", 0, 0), crc(1, "u", b"x", 0, 0), crc(1, "t", b"y", 0, 0))
    assert same != crc(1, "t", b"x", 1, 0)
    assert HEADER.size == 34
