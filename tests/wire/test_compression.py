import contextlib
import random
import struct
import tracemalloc
import zlib
from itertools import pairwise
from typing import Protocol

import cramjam
import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.compression import DeflateDecoder, DeflateEncoder, SnappyDecoder, SnappyEncoder
from nsqlake.wire.errors import StreamError
from nsqlake.wire.frames import OK_FRAME

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
OK_OVER_SNAPPY = bytes.fromhex("ff060000734e61507059 010e0000 26982bcf 00000006 00000000 4f4b")
NOISE = random.Random(4).randbytes(200_000)
BODIES = st.lists(st.binary(max_size=300) | st.sampled_from([b"x" * 70_000, NOISE[:70_000]]), max_size=4)


class AnyDecoder(Protocol):
    def feed(self, data: bytes) -> None: ...
    def read(self, max_bytes: int) -> bytes: ...


def read_all(decoder: AnyDecoder, max_bytes: int = 65_536) -> bytes:
    pieces = []
    while piece := decoder.read(max_bytes):
        assert len(piece) <= max_bytes
        pieces.append(piece)
    return b"".join(pieces)


def read_count(decoder: AnyDecoder) -> int:
    count = 0
    while piece := decoder.read(65_536):
        count += len(piece)
    return count


def decode(decoder: AnyDecoder, data: bytes, cuts: list[int], max_bytes: int) -> bytes:
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    output = []
    for begin, end in pairwise(edges):
        decoder.feed(data[begin:end])
        output.append(read_all(decoder, max_bytes))
    return b"".join(output)


def chunk(kind: int, data: bytes) -> bytes:
    return struct.pack("<I", len(data) << 8 | kind) + data


def checksum(plain: bytes) -> bytes:
    crc = google_crc32c.value(plain)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def peak_bytes(decoder: AnyDecoder) -> int:
    tracemalloc.start()
    try:
        with contextlib.suppress(StreamError):
            read_count(decoder)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Deflate


def test_deflate_is_raw_and_ends_with_a_sync_flush() -> None:
    encoded = DeflateEncoder(6).encode(OK_FRAME)

    assert encoded.endswith(b"\x00\x00\xff\xff")
    assert zlib.decompressobj(-15).decompress(encoded) == OK_FRAME


@given(BODIES, st.lists(st.integers(0, 10**6), max_size=6), st.integers(1, 70_000), st.integers(1, 9))
def test_deflate_gives_back_what_was_encoded_however_it_is_split(
    bodies: list[bytes], cuts: list[int], max_bytes: int, level: int
) -> None:
    encoder = DeflateEncoder(level)
    data = b"".join(encoder.encode(body) for body in bodies)

    assert decode(DeflateDecoder(), data, cuts, max(max_bytes, 500)) == b"".join(bodies)


def test_deflate_may_be_fed_and_read_byte_by_byte() -> None:
    decoder, data = DeflateDecoder(), DeflateEncoder(6).encode(b"abc" * 500)

    output = decode(decoder, data, list(range(len(data))), max_bytes=1)

    assert output == b"abc" * 500


def test_each_deflated_write_can_be_decoded_at_once() -> None:
    encoder, decoder = DeflateEncoder(6), DeflateDecoder()

    for body in (b"one", b"", b"two" * 1000):
        decoder.feed(encoder.encode(body))
        assert read_all(decoder) == body


def test_finished_deflate_stream_yields_its_data_and_then_an_error() -> None:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    decoder = DeflateDecoder()

    decoder.feed(compressor.compress(b"last") + compressor.flush())

    assert decoder.read(100) == b"last"
    for _ in range(2):
        with pytest.raises(StreamError, match="the deflate stream ended"):
            decoder.read(100)


def test_empty_finished_deflate_stream_is_an_error() -> None:
    decoder = DeflateDecoder()

    decoder.feed(b"\x03\x00")

    with pytest.raises(StreamError, match="the deflate stream ended"):
        decoder.read(100)


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x00\x01\x00\x00\x00", zlib.compress(b"with a header")]
)
def test_corrupt_deflate_is_an_error_that_stays(data: bytes) -> None:
    decoder = DeflateDecoder()
    decoder.feed(data)

    with pytest.raises(StreamError, match="corrupt deflate stream"):
        decoder.read(100)

    decoder.feed(DeflateEncoder(6).encode(b"good"))
    with pytest.raises(StreamError, match="corrupt deflate stream"):
        decoder.read(100)


def test_deflate_bomb_is_decoded_only_as_far_as_someone_reads() -> None:
    decoder = DeflateDecoder()
    decoder.feed(DeflateEncoder(9).encode(bytes(50_000_000)))

    assert peak_bytes(decoder) < 1_000_000


def test_endless_empty_deflate_blocks_are_refused() -> None:
    decoder = DeflateDecoder()
    decoder.feed(b"\x00\x00\x00\xff\xff" * 1_000_000)

    with pytest.raises(StreamError, match="without data"):
        decoder.read(100)


def test_empty_deflate_blocks_between_data_are_normal() -> None:
    encoder, decoder = DeflateEncoder(6), DeflateDecoder()

    decoder.feed(b"".join(encoder.encode(b"x") + b"\x00\x00\x00\xff\xff" * 150_000 for _ in range(3)))

    assert read_all(decoder) == b"xxx"


@given(st.binary(max_size=200), st.integers(1, 100))
def test_any_bytes_deflate_to_bytes_or_a_stream_error(data: bytes, max_bytes: int) -> None:
    decoder = DeflateDecoder()
    decoder.feed(data)

    with contextlib.suppress(StreamError):
        assert isinstance(read_all(decoder, max_bytes), bytes)


# Snappy


def test_first_ok_over_snappy_is_exactly_nsqs() -> None:
    assert SnappyEncoder().encode(OK_FRAME) == OK_OVER_SNAPPY


def test_first_ok_over_snappy_is_decoded() -> None:
    decoder = SnappyDecoder()

    decoder.feed(OK_OVER_SNAPPY)

    assert read_all(decoder) == OK_FRAME


def test_identifier_is_sent_once() -> None:
    encoder = SnappyEncoder()

    first, second = encoder.encode(b"abc"), encoder.encode(b"abc")

    assert first == IDENTIFIER + second
    assert encoder.encode(b"") == b""


def test_snappy_compresses_what_gets_an_eighth_smaller() -> None:
    encoded = SnappyEncoder().encode(b"x" * 1000)

    assert encoded[10] == 0x00
    assert encoded[14:18] == checksum(b"x" * 1000)
    assert bytes(cramjam.snappy.decompress_raw(encoded[18:])) == b"x" * 1000


def test_snappy_leaves_the_rest_plain_in_chunks_of_65536_bytes() -> None:
    encoded = SnappyEncoder().encode(NOISE[:70_000])

    first, second = NOISE[:65_536], NOISE[65_536:70_000]
    assert encoded == IDENTIFIER + chunk(1, checksum(first) + first) + chunk(1, checksum(second) + second)


@given(BODIES, st.lists(st.integers(0, 10**6), max_size=6), st.integers(500, 70_000))
def test_snappy_gives_back_what_was_encoded_however_it_is_split(
    bodies: list[bytes], cuts: list[int], max_bytes: int
) -> None:
    encoder = SnappyEncoder()
    data = b"".join(encoder.encode(body) for body in bodies)

    assert decode(SnappyDecoder(), data, cuts, max_bytes) == b"".join(bodies)


def test_snappy_may_be_fed_and_read_byte_by_byte() -> None:
    data = SnappyEncoder().encode(b"abc" * 500) + chunk(0x80, b"skipped") + IDENTIFIER

    output = decode(SnappyDecoder(), data, list(range(len(data))), max_bytes=1)

    assert output == b"abc" * 500


def test_our_snappy_is_understood_by_another_decoder() -> None:
    encoded = SnappyEncoder().encode(NOISE + bytes(100_000))

    assert bytes(cramjam.snappy.decompress(encoded)) == NOISE + bytes(100_000)


def test_another_encoders_snappy_is_understood_here() -> None:
    decoder = SnappyDecoder()

    decoder.feed(bytes(cramjam.snappy.compress(NOISE + bytes(100_000))))

    assert read_all(decoder) == NOISE + bytes(100_000)


@pytest.mark.parametrize("kind", [0x80, 0xBF, 0xFD, 0xFE])
def test_skippable_chunks_and_padding_are_skipped(kind: int) -> None:
    decoder = SnappyDecoder()

    decoder.feed(OK_OVER_SNAPPY + chunk(kind, b"whatever") + chunk(kind, b"") + OK_OVER_SNAPPY)

    assert read_all(decoder) == OK_FRAME + OK_FRAME


def test_skippable_chunk_is_not_kept_while_it_arrives() -> None:
    decoder = SnappyDecoder()
    decoder.feed(IDENTIFIER + struct.pack("<I", 0xFFFFFF << 8 | 0x80))

    tracemalloc.start()
    for _ in range(0xFFFFFF // 65_535):
        decoder.feed(bytes(65_535))
        assert decoder.read(100) == b""
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    decoder.feed(bytes(0xFFFFFF % 65_535) + OK_OVER_SNAPPY)

    assert peak < 1_000_000
    assert decoder.read(100) == OK_FRAME


COMPRESSED = bytes(cramjam.snappy.compress_raw(b"x" * 100))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OK_OVER_SNAPPY[10:], "snappy stream without identifier"),
        (chunk(0x80, b""), "snappy stream without identifier"),
        (b"\xff\x06\x00\x00sNaPpX", "wrong snappy stream identifier"),
        (b"\xff\x05\x00\x00", "wrong snappy stream identifier"),
        (b"\xff\x06\x00\x00sX", "wrong snappy stream identifier"),
        (IDENTIFIER + b"\xff\xff\xff\xff", "wrong snappy stream identifier"),
        (IDENTIFIER + chunk(0x02, b""), "unknown snappy chunk type 0x02"),
        (IDENTIFIER + chunk(0x7F, b""), "unknown snappy chunk type 0x7f"),
        (IDENTIFIER + chunk(0x01, b"abc"), "snappy chunk of 3 bytes"),
        (IDENTIFIER + struct.pack("<I", 65_541 << 8 | 1), "snappy chunk of 65541 bytes"),
        (IDENTIFIER + struct.pack("<I", 0xFFFFFF << 8), "snappy chunk of 16777215 bytes"),
        (IDENTIFIER + chunk(0x01, b"\0\0\0\0abc"), "wrong checksum of a snappy chunk"),
        (IDENTIFIER + chunk(0x00, b"\0\0\0\0" + COMPRESSED), "wrong checksum of a snappy chunk"),
        (IDENTIFIER + chunk(0x00, b"\0\0\0\0\xff"), "corrupt snappy chunk: "),
        (IDENTIFIER + chunk(0x00, b"\0\0\0\0"), "corrupt snappy chunk: "),
        (IDENTIFIER + chunk(0x00, b"\0\0\0\0" + COMPRESSED[:-1]), "corrupt snappy chunk: "),
        (IDENTIFIER + chunk(0x00, b"\0\0\0\0\x81\x80\x04"), "snappy chunk of 65537 bytes when decompressed"),
        (IDENTIFIER + chunk(0x00, b"\0\0\0\0\xff\xff\xff\xff\x0f"), "snappy chunk of 4294967295 bytes when"),
    ],
)
def test_broken_snappy_is_an_error_that_stays(data: bytes, reason: str) -> None:
    decoder = SnappyDecoder()
    decoder.feed(data)

    for _ in range(2):
        with pytest.raises(StreamError, match=reason):
            decoder.read(100)


def test_data_before_broken_snappy_is_still_read() -> None:
    decoder = SnappyDecoder()

    decoder.feed(OK_OVER_SNAPPY + chunk(0x02, b""))

    assert decoder.read(100) == OK_FRAME
    with pytest.raises(StreamError, match="unknown snappy chunk type"):
        decoder.read(100)


@pytest.mark.parametrize("size", [b"\x81\x80\x04", b"\xff\xff\xff\xff\x0f"])
def test_snappy_size_is_checked_before_memory_is_taken(size: bytes) -> None:
    decoder = SnappyDecoder()
    decoder.feed(IDENTIFIER + chunk(0x00, b"\0\0\0\0" + size + b"\0x"))

    assert peak_bytes(decoder) < 100_000


@pytest.mark.parametrize(
    "idle",
    [
        chunk(0x80, b""),
        chunk(0xFE, b""),
        chunk(0x01, checksum(b"")),
        chunk(0x00, checksum(b"") + b"\x00"),
        IDENTIFIER,
    ],
    ids=["skippable", "padding", "plain", "compressed", "identifier"],
)
def test_a_million_chunks_without_data_are_refused_early(idle: bytes) -> None:
    decoder = SnappyDecoder()
    decoder.feed(IDENTIFIER + idle * 1_000_000)

    with pytest.raises(StreamError, match="snappy stream without data"):
        decoder.read(100)


def test_chunks_without_data_are_fine_between_those_with() -> None:
    decoder, plain = SnappyDecoder(), chunk(0x01, checksum(b"x") + b"x")

    decoder.feed(IDENTIFIER + (plain + chunk(0x80, b"") * 900) * 3)

    assert read_all(decoder) == b"xxx"


@given(st.binary(max_size=100), st.integers(1, 100))
def test_any_bytes_yield_plain_bytes_or_a_stream_error(data: bytes, max_bytes: int) -> None:
    for prefix in (b"", IDENTIFIER, IDENTIFIER + struct.pack("<I", len(data) << 8)):
        decoder = SnappyDecoder()
        decoder.feed(prefix + data)
        with contextlib.suppress(StreamError):
            assert isinstance(read_all(decoder, max_bytes), bytes)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_changed_snappy_never_yields_other_data(at: int, change: int) -> None:
    plain = b"abcabcabc" * 20 + NOISE[:100]
    damaged = bytearray(SnappyEncoder().encode(plain))
    damaged[at % len(damaged)] ^= change
    decoder = SnappyDecoder()
    decoder.feed(bytes(damaged))

    with contextlib.suppress(StreamError):
        assert read_all(decoder) in (b"", plain)
