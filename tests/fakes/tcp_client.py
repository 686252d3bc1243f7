"""A blocking client of protocol V2 that says exactly what a test tells it to say."""

import json
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Self

from nsqlake.wire import commands
from nsqlake.wire.compression import (
    Decoder,
    DeflateDecoder,
    DeflateEncoder,
    Encoder,
    SnappyDecoder,
    SnappyEncoder,
)
from nsqlake.wire.frame_reader import Frame, FrameReader
from nsqlake.wire.frames import CLOSE_WAIT, HEARTBEAT, OK, FrameType
from nsqlake.wire.received_message import Message, decode_message

LIMIT_S = 10.0
EOF = None


class TcpClient:
    """One connection. What it waits for must come within `limit_s`; heartbeats are kept apart."""

    def __init__(
        self,
        address: str,
        *,
        magic: bytes = commands.MAGIC_V2,
        receive_buffer: int = 0,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.limit_s = limit_s
        self.heartbeats: list[float] = []
        self._frames: deque[Frame] = deque()
        self._reader = FrameReader()
        self._encoder: Encoder | None = None
        self._decoder: Decoder | None = None
        self._has_ended = False
        self.socket = _open(address, receive_buffer)
        self.opened_at = time.monotonic()
        if magic:
            self.send(magic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def finish_sending(self) -> None:
        """Half-close: the server may still answer."""
        self.socket.shutdown(socket.SHUT_WR)

    # Sending ------------------------------------------------------------------------------------------

    def send(self, *data: bytes) -> None:
        joined = b"".join(data)
        self.socket.settimeout(self.limit_s)
        self.socket.sendall(joined if self._encoder is None else self._encoder.encode(joined))

    def sub(self, topic: str, channel: str, rdy: int | None = None) -> None:
        self.send(commands.sub(topic, channel))
        self.expect_ok()
        if rdy is not None:
            self.send(commands.rdy(rdy))

    def pub(self, topic: str, *bodies: bytes) -> None:
        for body in bodies:
            self.send(commands.pub(topic, body))
            self.expect_ok()

    def mpub(self, topic: str, bodies: Iterable[bytes]) -> None:
        self.send(commands.mpub(topic, bodies))
        self.expect_ok()

    def fin(self, *messages: Message) -> None:
        self.send(*(commands.fin(message.id) for message in messages))

    def req(self, message: Message, delay_ms: int = 0) -> None:
        self.send(commands.req(message.id, delay_ms))

    def touch(self, message: Message) -> None:
        self.send(commands.touch(message.id))

    def identify_raw(self, body: bytes) -> None:
        self.send(b"IDENTIFY\n", len(body).to_bytes(4, "big"), body)

    def identify(self, context: ssl.SSLContext | None = None, **fields: Any) -> dict[str, Any]:
        """Negotiate, and do every upgrade that the server grants; returns its answer."""
        self.identify_raw(json.dumps({"feature_negotiation": True, **fields}).encode())
        answer: dict[str, Any] = json.loads(self._exact_frame())
        if answer["tls_v1"]:
            assert context is not None
            self.start_tls(context)
            assert self._exact_frame() == OK
        if answer["snappy"]:
            self._encoder, self._decoder = SnappyEncoder(), SnappyDecoder()
            self.expect_ok()
        elif answer["deflate"]:
            self._encoder, self._decoder = DeflateEncoder(6), DeflateDecoder()
            self.expect_ok()
        return answer

    def _exact_frame(self) -> bytes:
        """The next frame without a byte of what follows it, which may come through another layer."""
        assert not self._frames
        size = int.from_bytes(self._exact_bytes(4), "big")
        (frame,) = self._reader.feed(size.to_bytes(4, "big") + self._exact_bytes(size))
        assert frame.type is FrameType.RESPONSE, frame
        return frame.payload

    def _exact_bytes(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "closed within a frame"
            data += piece
        return data

    def start_tls(self, context: ssl.SSLContext) -> None:
        self.socket.settimeout(self.limit_s)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    # Receiving ----------------------------------------------------------------------------------------

    def frame(self, limit_s: float | None = None) -> Frame | None:
        """The next frame that is no heartbeat, EOF when the server closed; TimeoutError when nothing came."""
        deadline = time.monotonic() + (self.limit_s if limit_s is None else limit_s)
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if frame != _HEARTBEAT:
                    return frame
                self.heartbeats.append(time.monotonic())
            if self._has_ended:
                return EOF
            self._receive(deadline)

    def heartbeat(self) -> float:
        """When the next heartbeat came."""
        deadline = time.monotonic() + self.limit_s
        while not self._frames:
            assert not self._has_ended, "closed instead of a heartbeat"
            self._receive(deadline)
        assert self._frames.popleft() == _HEARTBEAT
        return time.monotonic()

    def _receive(self, deadline: float) -> None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.socket.settimeout(left_s)
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        self._has_ended = not data
        for piece in self._decoded(data):
            self._frames.extend(self._reader.feed(piece))

    def _decoded(self, data: bytes) -> Iterable[bytes]:
        if self._decoder is None:
            yield data
            return
        self._decoder.feed(data)
        while piece := self._decoder.read(1 << 18):
            yield piece

    def response(self) -> bytes:
        return self._payload(FrameType.RESPONSE)

    def error(self) -> str:
        return self._payload(FrameType.ERROR).decode()

    def message(self, limit_s: float | None = None) -> Message:
        return decode_message(self._payload(FrameType.MESSAGE, limit_s))

    def messages(self, count: int) -> list[Message]:
        return [self.message() for _ in range(count)]

    def _payload(self, kind: FrameType, limit_s: float | None = None) -> bytes:
        frame = self.frame(limit_s)
        assert frame is not None, f"closed instead of a frame of type {kind.name}"
        assert frame.type is kind, f"{frame} instead of a frame of type {kind.name}"
        return frame.payload

    # Expecting ----------------------------------------------------------------------------------------

    def expect_ok(self) -> None:
        assert self.response() == OK

    def expect_close_wait(self) -> None:
        assert self.response() == CLOSE_WAIT

    def expect_end(self) -> None:
        """The server closed and sent nothing more."""
        assert self.frame() is EOF

    def expect_fatal(self, text: str) -> None:
        """This error, then the end."""
        assert self.error() == text
        self.expect_end()

    def expect_nothing_so_far(self) -> None:
        """Everything sent was handled without an answer and the connection is open."""
        self.send(commands.pub("fence", b"fence"))
        self.expect_ok()

    def expect_silence(self, limit_s: float) -> None:
        try:
            frame = self.frame(limit_s)
        except TimeoutError:
            return
        raise AssertionError(f"{frame or 'EOF'} instead of silence")


_HEARTBEAT = Frame(FrameType.RESPONSE, HEARTBEAT)


def _open(address: str, receive_buffer: int) -> socket.socket:
    is_path = "/" in address
    opened = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
    if receive_buffer:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    opened.settimeout(LIMIT_S)
    host, _, port = address.rpartition(":")
    opened.connect(address if is_path else (host, int(port)))
    if not is_path:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened
