"""An auth server on loopback that answers what the test tells it to, over HTTP or HTTPS."""

import asyncio
import json
import ssl
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from tests.fakes.certificates import KeyPair

EVERYTHING = {"topic": ".*", "channels": [".*"], "permissions": ["publish", "subscribe"]}


@dataclass
class AuthRequest:
    """What one client asked."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, list[str]]:
        if self.method == "POST":
            return json.loads(self.body)
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)


class FakeAuthServer:
    """`async with FakeAuthServer() as server`; set `status`, `reply`, `headers` or `is_silent` as needed."""

    def __init__(self, pair: KeyPair | None = None, *, host: str = "127.0.0.1") -> None:
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if pair else None
        if self._tls and pair:
            self._tls.load_cert_chain(pair.cert_file, pair.key_file)
        self._host = host
        self._writers: set[asyncio.StreamWriter] = set()
        self.requests: list[AuthRequest] = []
        self.status = 200
        self.reply: object = {"ttl": 60, "identity": "me", "authorizations": [EVERYTHING]}
        self.headers = ""
        self.is_silent = False

    async def __aenter__(self) -> "FakeAuthServer":
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"{self._host}:{self.port}"
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            self.requests.append(await _read_request(reader))
            if self.is_silent:
                await reader.read()
                return
            body = self.reply if isinstance(self.reply, bytes) else json.dumps(self.reply).encode()
            head = f"HTTP/1.1 {self.status} Whatever\r\nContent-Length: {len(body)}\r\n{self.headers}\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> AuthRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.rstrip().split("\r\n")
    method, target, _ = request_line.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return AuthRequest(method, target, headers, body)
