"""Any bytes in any split give answers or a close, no exception leaves the connection, nothing stays."""

import asyncio
import random

import pytest

from nsqlake.runtime.http import HttpServer, Router
from nsqlake.runtime.http.connection import HttpConnection
from nsqlake.runtime.tasks import TaskSupervisor
from tests.fakes.http_client import request_bytes
from tests.runtime.http.support import MemoryTransport, Site

PARTS = (
    b"GET ", b"POST ", b"/echo", b"/ping", b"/config/a", b"?topic=a", b"%zz", b"#", b" HTTP/1.1",
    b" HTTP/1.0",
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"Host: a\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: 99999\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n",
    b"Connection: close\r\n", b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"FFFFFFFFFFFFFFFF\r\n", b"\x00", b"\xff" * 20, b" ", b":", b"X: " + b"y" * 5_000 + b"\r\n",
)  # fmt: skip


def junk(chance: random.Random) -> bytes:
    kind = chance.randrange(3)
    if kind == 0:
        return chance.randbytes(chance.randrange(500))
    if kind == 1:
        return b"".join(chance.choices(PARTS, k=chance.randrange(1, 30)))
    data = b"".join(
        request_bytes(*chance.choice([("POST", "/echo", b"hello"), ("GET", "/ping"), ("GET", "/crash")]))
        for _ in range(chance.randrange(1, 6))
    )
    at = chance.randrange(len(data))
    return (
        data[:at]
        + chance.choice([b"", b"\n", b"\x00", chance.randbytes(3)])
        + data[at + chance.randrange(4) :]
    )


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def feed(server: HttpServer, chance: random.Random) -> MemoryTransport:
    transport = MemoryTransport()
    connection = HttpConnection(server, lambda: None)
    connection.connection_made(transport)
    for piece in pieces(junk(chance), chance):
        if transport.is_closed:
            break
        connection.data_received(piece)
        if chance.random() < 0.1:
            await asyncio.sleep(0)
    connection.check(server.now_s + chance.choice([0, 20, 100]))
    if chance.random() < 0.5 and not transport.is_closed:
        connection.eof_received()
    connection.connection_lost(None)
    return transport


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_give_answers_or_a_close(seed, caplog):
    caplog.set_level("CRITICAL")

    async def scenario() -> None:
        tasks = TaskSupervisor()
        server = HttpServer(Router(Site().routes()), tasks=tasks)
        for number in range(50):
            transport = await feed(server, random.Random(seed * 1_000 + number))
            assert all(part.startswith(b"HTTP/1.") for part in transport.written)
        assert not server.connections
        assert tasks.failure_count == 0
        await tasks.close()

    asyncio.run(scenario())
