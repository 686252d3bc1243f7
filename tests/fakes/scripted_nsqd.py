"""An nsqd that says what the test tells it to say and writes down every command it gets.

async with ScriptedNsqd() as nsqd:
    ... a client connects to nsqd.address ...
    connection = await nsqd.connection(0)
    await nsqd.wait_commands("IDENTIFY", "SUB", "RDY 5")
    connection.send_message(b"body")
    await nsqd.wait_commands("IDENTIFY", "SUB", "RDY 5", "FIN")

IDENTIFY, AUTH, SUB, the publishes and CLS are answered by themselves, as `answers` says: a frame, None for
silence, or a list of these of which each is used once and the last one stays.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from nsqlake.wire.compression import (
    Decoder,
    DeflateDecoder,
    DeflateEncoder,
    Encoder,
    SnappyDecoder,
    SnappyEncoder,
)
from nsqlake.wire.frames import CLOSE_WAIT_FRAME, HEARTBEAT_FRAME, OK_FRAME, FrameType, encode_frame
from nsqlake.wire.received_message import MESSAGE_HEADER
from tests.fakes.certificates import KeyPair

LIMIT_S = 10.0
WITH_BODY = {b"IDENTIFY", b"AUTH", b"PUB", b"MPUB", b"DPUB"}
WITH_NUMBER = {"RDY"}  # the transcript shows it
READ_BYTES = 65_536

Answer = bytes | None
Answers = dict[str, Answer | list[Answer]]


@dataclass(frozen=True)
class ReceivedCommand:
    """One command; `body` is what followed the line."""

    name: str
    params: tuple[str, ...] = ()
    body: bytes = b""

    def __str__(self) -> str:
        """As transcripts have it: the name alone, RDY with its count."""
        return " ".join((self.name, *self.params)) if self.name in WITH_NUMBER else self.name

    @property
    def fields(self) -> dict[str, Any]:
        """The body as JSON."""
        return json.loads(self.body)


def response(payload: bytes) -> bytes:
    return encode_frame(FrameType.RESPONSE, payload)


def error(text: str) -> bytes:
    return encode_frame(FrameType.ERROR, text.encode())


def message(
    body: bytes, *, message_id: bytes = b"0123456789abcdef", attempts: int = 1, timestamp_ns: int = 1
) -> bytes:
    return encode_frame(FrameType.MESSAGE, MESSAGE_HEADER.pack(timestamp_ns, attempts, message_id) + body)


class ScriptedNsqd:
    """`identify` is the answer to IDENTIFY besides the defaults, or bytes: a payload to send as it is.

    It grants TLS when it has a `pair`, and of the codecs those in `grants`. `glues` sends the first OK of a
    codec in one piece with the answer that grants it. `host` may be the path of a unix socket.
    """

    def __init__(
        self,
        *,
        identify: Mapping[str, Any] | bytes | None = None,
        answers: Mapping[str, Answer | list[Answer]] | None = None,
        pair: KeyPair | None = None,
        grants: Sequence[str] = (),
        glues: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.identify = identify
        self.answers: Answers = {**_default_answers(), **(answers or {})}
        self.grants, self.glues = tuple(grants), glues
        self.tls = _server_tls(pair) if pair else None
        self.connections: list[ScriptedConnection] = []
        self._host, self.port = host, port
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_id = 0
        self._failures: list[AssertionError] = []

    async def __aenter__(self) -> Self:
        if "/" in self._host:
            self._server = await asyncio.start_unix_server(self._accept, self._host)
            self.address = f"unix://{self._host}"
        else:
            self._server = await asyncio.start_server(self._accept, self._host, self.port)
            self.port = self._server.sockets[0].getsockname()[1]
            self.address = f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop_listening()
        for connection in self.connections:
            connection.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failures:
            raise self._failures[0]

    def stop_listening(self) -> None:
        """New connections are refused, those that exist stay."""
        self._server.close()

    # What came ----------------------------------------------------------------------------------------

    @property
    def commands(self) -> list[ReceivedCommand]:
        """Of all connections, one connection after the other."""
        return [command for connection in self.connections for command in connection.commands]

    async def connection(self, number: int = 0) -> "ScriptedConnection":
        """The connection that came as this one, counted from 0."""
        await self.wait_for(lambda: len(self.connections) > number)
        return self.connections[number]

    async def ready_connection(self, number: int = 0, after: str = "IDENTIFY") -> "ScriptedConnection":
        """The same, when it has sent the command `after`."""
        connection = await self.connection(number)
        await connection.wait_command(after)
        return connection

    async def wait_commands(self, *transcript: str, number: int = 0) -> None:
        """Until connection `number` has sent exactly this; AssertionError shows what it sent instead."""
        connection = await self.connection(number)
        await connection.wait_transcript(*transcript)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until `condition` holds; looked at whenever a command, a connection or an end came."""
        async with asyncio.timeout(LIMIT_S), self._changed:
            await self._changed.wait_for(condition)

    # Plumbing -----------------------------------------------------------------------------------------

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def next_message_id(self) -> bytes:
        self._next_id += 1
        return b"%016x" % self._next_id

    def answer_to(self, name: str) -> Answer:
        answer = self.answers.get(name)
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        return answer

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = ScriptedConnection(self, reader, writer)
        self.connections.append(connection)
        try:
            await self.notify()
            await connection.serve()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except AssertionError as failure:
            self._failures.append(failure)
        finally:
            connection.has_ended = True
            connection.abort()
            self._tasks.discard(task)
            await self.notify()


class ScriptedConnection:
    """One client: `commands` is what it sent, the `send_…` are what it gets."""

    def __init__(
        self, nsqd: ScriptedNsqd, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._nsqd, self._reader, self.writer = nsqd, reader, writer
        self._encoder: Encoder | None = None
        self._decoder: Decoder | None = None
        self._plain = bytearray()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.commands: list[ReceivedCommand] = []
        self.has_ended = False

    @property
    def transcript(self) -> list[str]:
        return [str(command) for command in self.commands if command.name != "NOP"]

    def count(self, name: str) -> int:
        return sum(command.name == name for command in self.commands)

    async def wait_command(self, name: str, count: int = 1) -> ReceivedCommand:
        """The `count`th command of this name."""
        await self._nsqd.wait_for(lambda: self.count(name) >= count)
        return [command for command in self.commands if command.name == name][count - 1]

    async def wait_transcript(self, *expected: str) -> None:
        with contextlib.suppress(TimeoutError):  # the comparison shows what is missing
            await self._nsqd.wait_for(lambda: len(self.transcript) >= len(expected))
        assert self.transcript == list(expected)

    async def wait_ended(self) -> None:
        """Until the client has closed."""
        await self._nsqd.wait_for(lambda: self.has_ended)

    # Saying -------------------------------------------------------------------------------------------

    def send_raw(self, data: bytes) -> None:
        """These bytes, through the codec and TLS when they are on."""
        self.writer.write(data if self._encoder is None else self._encoder.encode(data))

    def send_wire(self, data: bytes) -> None:
        """These bytes past the codec."""
        self.writer.write(data)

    def send_response(self, payload: bytes) -> None:
        self.send_raw(response(payload))

    def send_error(self, text: str) -> None:
        self.send_raw(error(text))

    def send_heartbeat(self) -> None:
        self.send_raw(HEARTBEAT_FRAME)

    def send_message(
        self, body: bytes, *, message_id: bytes = b"", attempts: int = 0, timestamp_ns: int = 1
    ) -> bytes:
        """Returns the id, a fresh one unless it is given."""
        message_id = message_id or self._nsqd.next_message_id()
        self.send_raw(message(body, message_id=message_id, attempts=attempts, timestamp_ns=timestamp_ns))
        return message_id

    def pause_reading(self) -> None:
        """Be stuck: take nothing more from the socket."""
        self._may_read.clear()
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume_reading(self) -> None:
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]
        self._may_read.set()

    def close(self) -> None:
        """Send what is written, then close."""
        self.writer.close()

    def abort(self) -> None:
        """Close at once."""
        self.writer.transport.abort()

    # Listening ----------------------------------------------------------------------------------------

    async def serve(self) -> None:
        magic = await self._read_exactly(4)
        assert magic == b"  V2", magic
        while True:
            command = await self._read_command()
            self.commands.append(command)
            await self._nsqd.notify()
            if command.name == "IDENTIFY":
                await self._answer_identify(command)
            elif (answer := self._nsqd.answer_to(command.name)) is not None:
                self.send_raw(answer)

    async def _read_command(self) -> ReceivedCommand:
        while b"\n" not in self._plain:
            await self._read_more()
        line, _, rest = bytes(self._plain).partition(b"\n")
        self._plain[:] = rest
        name, *params = line.split(b" ")
        body = b""
        if name in WITH_BODY:
            body = await self._read_exactly(int.from_bytes(await self._read_exactly(4), "big"))
        return ReceivedCommand(name.decode("latin-1"), tuple(p.decode("latin-1") for p in params), body)

    async def _read_exactly(self, size: int) -> bytes:
        while len(self._plain) < size:
            await self._read_more()
        taken = bytes(self._plain[:size])
        del self._plain[:size]
        return taken

    async def _read_more(self) -> None:
        await self._may_read.wait()
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise asyncio.IncompleteReadError(b"", None)
        if self._decoder is None:
            self._plain += data
            return
        self._decoder.feed(data)
        while piece := self._decoder.read(READ_BYTES):
            self._plain += piece

    async def _answer_identify(self, command: ReceivedCommand) -> None:
        scripted = self._nsqd.answer_to("IDENTIFY")
        if scripted is not None:
            self.send_raw(scripted)
            return
        if isinstance(self._nsqd.identify, bytes):
            self.send_response(self._nsqd.identify)
            return
        answer = self._identify_answer(command.fields)
        codec = next((name for name in ("snappy", "deflate") if answer[name]), None)
        frame = response(json.dumps(answer).encode())
        if not (codec and self._nsqd.glues):
            self.send_raw(frame)
            frame = b""
        if answer["tls_v1"]:
            assert self._nsqd.tls is not None
            await self.writer.start_tls(self._nsqd.tls)
            self.send_response(b"OK")
        if codec:
            self._start_codec(codec)
            assert self._encoder is not None
            self.writer.write(frame + self._encoder.encode(OK_FRAME))

    def _identify_answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert not isinstance(self._nsqd.identify, bytes)
        return {
            "max_rdy_count": 2500,
            "version": "1.3.0",
            "max_msg_timeout": 900_000,
            "msg_timeout": 60_000,
            "tls_v1": bool(asked.get("tls_v1")) and self._nsqd.tls is not None,
            "deflate": bool(asked.get("deflate")) and "deflate" in self._nsqd.grants,
            "deflate_level": 6,
            "max_deflate_level": 6,
            "snappy": bool(asked.get("snappy")) and "snappy" in self._nsqd.grants,
            "sample_rate": asked.get("sample_rate", 0),
            "auth_required": False,
            "output_buffer_size": 16_384,
            "output_buffer_timeout": 250,
            "topology_region": "",
            "topology_zone": "",
            **(self._nsqd.identify or {}),
        }

    def _start_codec(self, codec: str) -> None:
        if codec == "snappy":
            self._encoder, self._decoder = SnappyEncoder(), SnappyDecoder()
        else:
            self._encoder, self._decoder = DeflateEncoder(6), DeflateDecoder()
        assert not self._plain, "sent before the codec was agreed"


def _default_answers() -> Answers:
    return {
        "IDENTIFY": None,
        "AUTH": response(b'{"identity":"me","identity_url":"","permission_count":1}'),
        "SUB": OK_FRAME,
        "PUB": OK_FRAME,
        "MPUB": OK_FRAME,
        "DPUB": OK_FRAME,
        "CLS": CLOSE_WAIT_FRAME,
    }


def _server_tls(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    return context
