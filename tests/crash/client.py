"""A blocking NSQ client, no more than these tests need."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType

from nsqlake.wire.frame_reader import Frame, FrameReader
from nsqlake.wire.frames import HEARTBEAT, OK, FrameType
from nsqlake.wire.received_message import Message, decode_message

ANSWER_LIMIT_S = 30.0
NO_SUCH_ID = b"0" * 16


class DisconnectedError(Exception):
    """The daemon is gone, or has closed the connection."""


class RefusedError(Exception):
    """An error frame came instead of OK."""


class Client:
    """Messages that come while an answer is awaited are kept for `messages`."""

    def __init__(self, port: int) -> None:
        self._frames = FrameReader()
        self._waiting: deque[Frame] = deque()
        self.kept: list[Message] = []
        self.heartbeat_count = 0
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_LIMIT_S)
        except OSError as error:
            raise DisconnectedError(str(error)) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(b"  V2")

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Commands -----------------------------------------------------------------------------------------

    def identify(self, **settings: int) -> None:
        self._send_body(b"IDENTIFY", json.dumps({"feature_negotiation": True, **settings}).encode())
        self._answer()

    def publish(self, topic: str, body: bytes) -> None:
        self._send_body(b"PUB " + topic.encode(), body)
        self.expect_ok()

    def publish_many(self, topic: str, bodies: Sequence[bytes]) -> None:
        self._send_body(b"MPUB " + topic.encode(), encode_bodies(bodies))
        self.expect_ok()

    def publish_deferred(self, topic: str, delay_ms: int, body: bytes) -> None:
        self._send_body(b"DPUB %s %d" % (topic.encode(), delay_ms), body)
        self.expect_ok()

    def send_publish(self, topic: str, body: bytes) -> None:
        """PUB without waiting for its answer."""
        self._send_body(b"PUB " + topic.encode(), body)

    def subscribe(self, topic: str, channel: str, ready: int = 0) -> None:
        self.send(b"SUB %s %s\n" % (topic.encode(), channel.encode()))
        self.expect_ok()
        if ready:
            self.ready(ready)

    def ready(self, count: int) -> None:
        self.send(b"RDY %d\n" % count)

    def finish(self, *messages: Message) -> None:
        self.send(b"".join([b"FIN %s\n" % message.id for message in messages]))

    def requeue(self, message: Message, delay_ms: int) -> None:
        self.send(b"REQ %s %d\n" % (message.id, delay_ms))

    def barrier(self) -> None:
        """All that was sent so far has been handled, and journalled, when this returns."""
        # The answer to the first goes out in the turn of the loop that ends by writing journals.
        for _ in range(2):
            self.send(b"FIN " + NO_SUCH_ID + b"\n")
            frame = self._answer_frame()
            assert frame.payload.startswith(b"E_FIN_FAILED"), frame

    # Frames -------------------------------------------------------------------------------------------

    def expect_ok(self) -> None:
        answer = self._answer()
        assert answer == OK, answer

    def messages(self, wait_s: float) -> list[Message]:
        """Those at hand; if there are none, those that come within `wait_s`."""
        deadline = time.monotonic() + wait_s
        while not self.kept:
            left_s = deadline - time.monotonic()
            frame = self._next_frame(max(left_s, 0.001))
            if frame is None:
                if left_s <= 0:
                    break
                continue
            if frame.type is FrameType.ERROR:
                raise RefusedError(frame.payload.decode())
        kept, self.kept = self.kept, []
        return kept

    def gather(self, count: int, limit_s: float = ANSWER_LIMIT_S) -> list[Message]:
        """`count` messages, or as many as came in `limit_s`."""
        found: list[Message] = []
        deadline = time.monotonic() + limit_s
        while len(found) < count and time.monotonic() < deadline:
            found += self.messages(deadline - time.monotonic())
        return found

    def wait_closed(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        try:
            while time.monotonic() < deadline:
                self._next_frame(max(deadline - time.monotonic(), 0.001))
        except DisconnectedError:
            return True
        return False

    def send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(ANSWER_LIMIT_S)
            self._socket.sendall(data)
        except OSError as error:
            raise DisconnectedError(str(error)) from error

    def _send_body(self, line: bytes, body: bytes) -> None:
        self.send(b"%s\n%s%s" % (line, len(body).to_bytes(4, "big"), body))

    def _answer(self) -> bytes:
        frame = self._answer_frame()
        if frame.type is FrameType.ERROR:
            raise RefusedError(frame.payload.decode())
        return frame.payload

    def _answer_frame(self) -> Frame:
        frame: Frame | None = None
        deadline = time.monotonic() + ANSWER_LIMIT_S
        while frame is None:
            left_s = deadline - time.monotonic()
            assert left_s > 0, "no answer"
            frame = self._next_frame(left_s)
        return frame

    def _next_frame(self, wait_s: float) -> Frame | None:
        """An answer or an error; messages are kept, heartbeats answered."""
        if not self._waiting and not self._receive(wait_s):
            return None
        frame = self._waiting.popleft()
        if frame.type is FrameType.MESSAGE:
            self.kept.append(decode_message(frame.payload))
            while self._waiting and self._waiting[0].type is FrameType.MESSAGE:
                self.kept.append(decode_message(self._waiting.popleft().payload))
            return None
        if frame.payload == HEARTBEAT:
            self.heartbeat_count += 1
            self.send(b"NOP\n")
            return None
        return frame

    def _receive(self, wait_s: float) -> bool:
        try:
            self._socket.settimeout(wait_s)
            data = self._socket.recv(256 * 1024)
        except TimeoutError:
            return False
        except OSError as error:
            raise DisconnectedError(str(error)) from error
        if not data:
            raise DisconnectedError("end of stream")
        self._waiting.extend(self._frames.feed(data))
        return bool(self._waiting)


def encode_bodies(bodies: Sequence[bytes]) -> bytes:
    parts = [len(bodies).to_bytes(4, "big")]
    for body in bodies:
        parts += [len(body).to_bytes(4, "big"), body]
    return b"".join(parts)


def create_channels(port: int, topic: str, *channels: str) -> None:
    """A channel gets what is published after it was made."""
    for channel in channels:
        with Client(port) as client:
            client.subscribe(topic, channel)
