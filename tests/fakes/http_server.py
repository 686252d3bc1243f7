"""An HTTP server on loopback that answers each path as the test wants, and remembers what it was asked."""

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from tests.fakes.certificates import KeyPair

LIMIT_S = 10.0
NSQ_1_0 = "X-NSQ-Content-Type: nsq; version=1.0\r\n"


@dataclass(frozen=True)
class HttpRequest:
    method: str
    target: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def params(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}


def answer(content: object = b"", status: int = 200, headers: str = NSQ_1_0) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


NOT_FOUND = answer({"message": "NOT_FOUND"}, 404)


class FakeHttpServer:
    """`async with FakeHttpServer() as server`; `server.answers["/lookup"] = answer({...})`.

    A path in `stalled` is never answered.
    """

    def __init__(self, pair: KeyPair | None = None) -> None:
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if pair else None
        if self._tls and pair:
            self._tls.load_cert_chain(pair.cert_file, pair.key_file)
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        self.answers: dict[str, bytes] = {}
        self.stalled: set[str] = set()
        self.requests: list[HttpRequest] = []
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> "FakeHttpServer":
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """On the same port as before, if it was stopped."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()
        while self._writers:
            await asyncio.sleep(0)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Looks again whenever a request came or was answered."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_requests(self, count: int) -> None:
        await self.wait_until(lambda: len(self.requests) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            request = _parse((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
            self.requests.append(request)
            self._changed.set()
            if request.path in self.stalled:
                await reader.read()
                return
            writer.write(self.answers.get(request.path, NOT_FOUND))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            self._changed.set()


def _parse(head: str) -> HttpRequest:
    request_line, *lines = head.rstrip().split("\r\n")
    method, target, _ = request_line.split(" ")
    return HttpRequest(
        method, target, {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    )
