"""An nsqlookupd under junk: it lives, its memory stays small, its log stays readable. Reliability, row 48."""

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.http_connection import HttpConnection
from tests.fakes.lookup_client import LookupClient, identify, identify_with
from tests.fakes.lookupd_process import LookupdProcess

MB = 1024 * 1024
LINES = (
    b"PING\n",
    b"REGISTER t c\n",
    b"UNREGISTER t\n",
    b"IDENTIFY\n",
    b"\n",
    b"\r\n",
    b"REGISTER\n",
    b"GET / HTTP/1.1\r\n",
)


@pytest.fixture(scope="module")
def lookupd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookupdProcess]:
    with LookupdProcess(str(tmp_path_factory.mktemp("lookupd"))) as process:
        yield process


def junk(rng: random.Random) -> bytes:
    """One hostile conversation."""
    pieces = [rng.choice((b"  V1", b"  V2", b"", b"\0\0\0\0"))]
    for _ in range(rng.randrange(12)):
        pieces.append(
            rng.choice(
                [
                    rng.choice(LINES),
                    rng.randbytes(rng.randrange(200)),
                    identify(),
                    identify_with(
                        rng.choice([b"{", b"[" * 50_000, b"null", b'{"tcp_port":1e99}', b"\xff" * 99])
                    ),
                    b"IDENTIFY\n" + struct.pack(">i", rng.choice([-1, -(2**31), 2**31 - 1, MB + 1, 5])),
                    b"x" * rng.choice([100, 20_000]),
                ]
            )
        )
    return b"".join(pieces)


def send_and_leave(address: str, data: bytes, *, reads: bool) -> None:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 10) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while reads and peer.recv(65_536):
                pass
        except OSError:
            return


def test_junk_kills_nobody_and_is_not_kept(lookupd: LookupdProcess) -> None:
    rng = random.Random(48)
    lookupd.expect_alive()
    before = lookupd.rss_bytes

    for number in range(400):
        send_and_leave(lookupd.tcp_address, junk(rng), reads=number % 3 > 0)

    lookupd.expect_alive()
    assert lookupd.rss_bytes - before < 10 * MB
    assert "Traceback" not in lookupd.log
    with HttpConnection(lookupd.http_address) as http:
        assert http.get_json("/nodes") == {"producers": []}


def test_an_endless_line_is_cut_off(lookupd: LookupdProcess) -> None:
    before = lookupd.rss_bytes
    for _ in range(5):
        send_and_leave(lookupd.tcp_address, b"  V1" + b"x" * (4 * MB), reads=True)

    with LookupClient(lookupd.tcp_address) as client:
        assert client.ask(b"x" * 16_384) == [b"E_INVALID line is longer than 16384 bytes"]
        client.expect_end()
    assert lookupd.rss_bytes - before < 10 * MB


def test_fifty_thousand_registrations_take_little_memory(tmp_path: Path) -> None:
    with LookupdProcess(str(tmp_path)) as lookupd, LookupClient(lookupd.tcp_address) as client:
        client.identify()
        client.expect_ok(*(b"REGISTER warm-%d\n" % number for number in range(100)))
        before = lookupd.rss_bytes

        for start in range(0, 50_000, 500):
            client.expect_ok(*(b"REGISTER topic-%d\n" % number for number in range(start, start + 500)))

        assert lookupd.rss_bytes - before < 10 * MB


def test_nobody_forges_or_floods_the_log(tmp_path: Path) -> None:
    with LookupdProcess(str(tmp_path)) as lookupd:
        for _ in range(300):
            send_and_leave(lookupd.tcp_address, b"  V1BAD\x1b[31m\r2026/01/01 FATAL:\n", reads=True)
        with LookupClient(lookupd.tcp_address) as client:
            client.identify(broadcast_address="x\n[nsqlookupd] forged", version="\x1b[2J")
        with HttpConnection(lookupd.http_address) as http:
            http.post("/topic/delete?topic=x%0A%5Bnsqlookupd%5D%20forged")

        lines = lookupd.log.split("\n")
        assert all(line.startswith("[nsqlookupd] 2") for line in lines[:-1])
        assert all(line.isprintable() for line in lines)
        assert len(lines) < 300
