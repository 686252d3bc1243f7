"""An nsqlookupd on loopback that writes down what it is told and answers as the test wants."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

LIMIT_S = 10.0

DROP = b"the connection is dropped instead of a reply"
STALL = b"no reply ever comes"

T = TypeVar("T")


class Conversation:
    """One connection of an nsqd."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.magic = b""
        self.identity: dict[str, Any] = {}
        self.identify_body = b""
        self.commands: list[str] = []
        self.rest = b""  # what came behind the last whole command
        self.has_ended = False
        self._writer = writer

    def drop(self) -> None:
        self._writer.transport.abort()

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def registered(self) -> list[str]:
        """What it has registered and not taken back, without the word."""
        names: dict[str, None] = {}
        for command in self.commands:
            word, _, name = command.partition(" ")
            if word == "REGISTER":
                names[name] = None
            elif word == "UNREGISTER":
                names.pop(name, None)
        return sorted(names)


class FakeLookupd:
    """Replies: `answers` by whole command or by its first word, raw bytes, DROP or STALL; else OK.

    `channels` are served by HTTP, unless `http_reply` holds raw bytes or STALL.
    """

    def __init__(self) -> None:
        self.port = self.http_port = 0
        self.broadcast_address = "127.0.0.1"
        self.answers: dict[str, bytes] = {}
        self.conversations: list[Conversation] = []
        self.channels: dict[str, list[str]] = {}
        self.http_reply: bytes | None = None
        self.http_requests: list[str] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> "FakeLookupd":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    @property
    def latest(self) -> Conversation:
        return self.conversations[-1]

    async def start(self) -> None:
        """On the same ports as before, if it was stopped."""
        self._tcp = await asyncio.start_server(self._serve_tcp, "127.0.0.1", self.port)
        self._http = await asyncio.start_server(self._serve_http, "127.0.0.1", self.http_port)
        self.port = self._tcp.sockets[0].getsockname()[1]
        self.http_port = self._http.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        for server in (self._tcp, self._http):
            server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for server in (self._tcp, self._http):
            await server.wait_closed()
        while self._writers:
            await asyncio.sleep(0)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_for(self, *commands: str) -> None:
        """Until the latest connection has sent all of them."""
        await self.wait_until(lambda: bool(self.conversations) and set(commands) <= set(self.latest.commands))

    # Serving ------------------------------------------------------------------------------------------

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation(writer)
        self.conversations.append(conversation)
        self._writers.add(writer)
        try:
            conversation.magic = await reader.readexactly(4)
            while await self._serve_command(conversation, reader, writer):
                self._changed.set()
        except (OSError, asyncio.IncompleteReadError) as error:
            conversation.rest = getattr(error, "partial", b"")
        finally:
            conversation.has_ended = True
            self._changed.set()
            self._writers.discard(writer)
            writer.close()

    async def _serve_command(
        self, conversation: Conversation, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        command = (await reader.readuntil(b"\n")).decode().removesuffix("\n")
        if command == "IDENTIFY":
            size = int.from_bytes(await reader.readexactly(4), "big")
            conversation.identify_body = await reader.readexactly(size)
            conversation.identity = json.loads(conversation.identify_body)
        conversation.commands.append(command)
        answer = self._answer(command)
        if answer == DROP:
            writer.transport.abort()
            return False
        if answer != STALL:
            writer.write(answer[:4])  # in two pieces, as nsqlookupd does
            writer.write(answer[4:])
        return True

    def _answer(self, command: str) -> bytes:
        word = command.partition(" ")[0]
        for key in (command, word):
            if key in self.answers:
                return self.answers[key]
        return framed(self._description() if word == "IDENTIFY" else b"OK")

    def _description(self) -> bytes:
        fields = {
            "broadcast_address": self.broadcast_address,
            "hostname": "fake",
            "http_port": self.http_port,
            "tcp_port": self.port,
            "version": "1.3.0",
        }
        return json.dumps(fields).encode()

    async def _serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.http_requests.append(head)
            self._changed.set()
            if self.http_reply == STALL:
                await reader.read()
                return
            topic = parse_qs(urlsplit(head.split(" ")[1]).query)["topic"][0]
            body = json.dumps({"channels": self.channels.get(topic, [])}).encode()
            writer.write(self.http_reply or http_answer(body))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big", signed=True) + payload


def http_answer(body: bytes, *, status: int = 200, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class LookupdThread:
    """A `FakeLookupd` on a loop of its own, for tests that wait without one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="lookupd", daemon=True)
        self._thread.start()
        self.fake = self.call(FakeLookupd)
        self.call(self.fake.start)

    def close(self) -> None:
        self.call(self.fake.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def call(self, function: Callable[[], Any]) -> Any:
        async def run() -> Any:
            result = function()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(2 * LIMIT_S)

    def wait_for(self, *commands: str) -> None:
        self.call(lambda: self.fake.wait_for(*commands))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        self.call(lambda: self.fake.wait_until(condition))


@contextlib.contextmanager
def running_lookupd() -> Iterator[LookupdThread]:
    lookupd = LookupdThread()
    try:
        yield lookupd
    finally:
        lookupd.close()
