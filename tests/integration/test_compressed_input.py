"""Compressed streams that are wrong: the connection ends, without a frame and without harm."""

import struct
import time
import zlib
from collections.abc import Callable

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from nsqlake.wire import commands
from nsqlake.wire.compression import SnappyEncoder
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"


def chunk(kind: int, data: bytes, length: int | None = None) -> bytes:
    return struct.pack("<I", (len(data) if length is None else length) << 8 | kind) + data


def raw_client(nsqd: NsqdFixture, connect: Connect, feature: str) -> TcpClient:
    """A client of a connection whose input is now `feature`, but which sends what it likes."""
    client = connect(nsqd)
    client.identify(**{feature: True})
    client._encoder = None
    return client


@pytest.mark.parametrize(
    "sent",
    [
        commands.nop(),
        b"\xff\x06\x00\x00SnApPy",
        chunk(0x01, b"\x00\x00\x00\x00NOP\n"),
        IDENTIFIER + chunk(0x01, b"\x00\x00\x00\x00NOP\n"),
        IDENTIFIER + chunk(0x00, b"\x00\x00\x00\x00garbage"),
        IDENTIFIER + chunk(0x00, b"\x00\x00"),
        IDENTIFIER + chunk(0x01, b"", length=65_541),
        IDENTIFIER + chunk(0x00, b"\x00\x00\x00\x00\xff\xff\xff\xff\x0f"),
        IDENTIFIER + chunk(0x02, b"reserved"),
        IDENTIFIER + chunk(0x80, b"") * 1_001,
        IDENTIFIER * 1_002,
    ],
    ids=[
        "no identifier",
        "wrong identifier",
        "data first",
        "wrong checksum",
        "no snappy",
        "too short",
        "too long",
        "4 GB when decompressed",
        "reserved type",
        "only padding",
        "only identifiers",
    ],
)
def test_wrong_snappy_ends_the_connection_without_a_frame(
    nsqd: NsqdFixture, connect: Connect, sent: bytes
) -> None:
    client = raw_client(nsqd, connect, "snappy")

    client.send(sent)

    client.expect_end()


def finished_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize(
    "sent",
    [b"\xff\xff\xff\xff", b"\x78\x9c" + finished_deflate(b"NOP\n")[2:], finished_deflate(b"NOP\n")],
    ids=["garbage", "zlib header", "stream that ends"],
)
def test_wrong_deflate_ends_the_connection_without_a_frame(
    nsqd: NsqdFixture, connect: Connect, sent: bytes
) -> None:
    client = raw_client(nsqd, connect, "deflate")

    client.send(sent)

    client.expect_end()


def test_skippable_chunks_are_skipped(nsqd: NsqdFixture, connect: Connect, topic: str) -> None:
    client = raw_client(nsqd, connect, "snappy")
    encoded = SnappyEncoder().encode(commands.pub(topic, b"x"))

    client.send(IDENTIFIER, chunk(0xFE, b"p" * 100_000), encoded[len(IDENTIFIER) :])

    client.expect_ok()


def deflate_without_end(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)


def snappy_of(data: bytes) -> bytes:
    return SnappyEncoder().encode(data)


@pytest.mark.parametrize(("feature", "encode"), [("deflate", deflate_without_end), ("snappy", snappy_of)])
def test_endless_line_in_a_few_compressed_bytes_is_cut_at_its_limit(
    nsqd: NsqdFixture, connect: Connect, feature: str, encode: Callable[[bytes], bytes]
) -> None:
    client = raw_client(nsqd, connect, feature)
    begin = time.process_time()

    client.send(encode(b"A" * 20_000_000))

    client.expect_end()
    assert time.process_time() - begin < 3


def test_compression_levels_out_of_range_are_brought_into_it(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(nsqd)

    answer = client.identify(deflate=True, deflate_level=-9)

    assert answer["deflate_level"] == 6
    client.pub(topic, b"x")
