"""A raw HTTP client: sends exactly the bytes it is given, reads one answer at a time."""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field

LIMIT_S = 10.0


@dataclass
class Answer:
    """As received; header names in lower case, in order."""

    status: int
    headers: dict[str, str]
    body: bytes
    version: str = "HTTP/1.1"
    head: bytes = field(default=b"", repr=False)


def request_bytes(
    method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None, version: str = "1.1"
) -> bytes:
    lines = [f"{method} {target} HTTP/{version}", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class HttpClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, address: int | str, context: ssl.SSLContext | None = None) -> "HttpClient":
        """By port on this machine, or by the path of a unix socket."""
        if isinstance(address, str):
            return cls(*await asyncio.open_unix_connection(address, limit=2**24))
        name = "localhost" if context else None
        return cls(
            *await asyncio.open_connection(
                "127.0.0.1", address, ssl=context, server_hostname=name, limit=2**24
            )
        )

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(
        self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        self.send(request_bytes(method, target, body, headers))
        return await self.answer(has_body=method != "HEAD")

    async def answer(self, *, has_body: bool = True) -> Answer:
        async with asyncio.timeout(LIMIT_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
            version, status, _ = line.split(" ", 2)
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await self._body(headers) if has_body and int(status) >= 200 else b""
        return Answer(int(status), headers, body, version, head)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            chunks = []
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                chunks.append((await self._reader.readexactly(size + 2))[:-2])
            await self._reader.readexactly(2)
            return b"".join(chunks)
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        return await self._reader.read()

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(LIMIT_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()
