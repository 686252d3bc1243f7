"""A connection that the calling thread reads and writes itself: one command, then its answer."""

from __future__ import annotations

import select
import socket
from time import monotonic
from typing import Final

from nsqlake.client.config import OFF, ClientConfig
from nsqlake.client.handshake import Handshake
from nsqlake.client.handshake_stream import MAX_ANSWER_BYTES
from nsqlake.wire.frame_runs import FrameRuns
from nsqlake.wire.frames import FRAME_HEADER, HEARTBEAT, OK_FRAME, FrameType

MAX_WAIT_S: Final = 3600.0  # poll counts milliseconds in an int
_SIZE_BYTES: Final = 4
_OK_BYTES: Final = len(OK_FRAME)

Frame = tuple[FrameType, bytes]


class DirectConnection:
    """Takes over a connected socket that does not block.

    Of the socket nothing is read beyond the frame that is waited for. OSError means that the connection is
    lost, TimeoutError that `ends_s` has come; after either, or an interrupt, it can only be closed.
    """

    __slots__ = ("_poll_readable", "_socket")

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        readable = select.poll()
        readable.register(opened, select.POLLIN)
        self._poll_readable = readable.poll

    def shake_hands(self, address: str, config: ClientConfig, ends_s: float) -> None:
        """ConnectError when nsqd refuses. Without heartbeats, which nobody would be there to answer."""
        handshake = Handshake(address, config.replace(heartbeat_interval=OFF))
        self.send(handshake.begin(), ends_s, config.write_timeout)
        while not handshake.is_done:
            _, data = handshake.receive(*self._read_frame(b"", ends_s))
            self.send(data, ends_s, config.write_timeout)

    @property
    def is_silent(self) -> bool:
        """False once nsqd has closed, or has said what nobody asked for."""
        return not self._poll_readable(0)

    def send(self, data: bytes, ends_s: float, stall_limit_s: float) -> None:
        """Whoever gets an error knows that nsqd has not got the last byte."""
        # A program that wants to die of a closed stdout must not die of a closed connection.
        sent = self._socket.send(data, socket.MSG_NOSIGNAL)
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:], ends_s, stall_limit_s)

    def _send_rest(self, rest: memoryview, ends_s: float, stall_limit_s: float) -> None:
        writable = select.poll()
        writable.register(self._socket, select.POLLOUT)
        while rest:
            limit_s = min(ends_s - monotonic(), stall_limit_s)
            if limit_s <= 0 or not writable.poll(limit_s * 1000):
                raise TimeoutError
            rest = rest[self._socket.send(rest, socket.MSG_NOSIGNAL) :]

    def read_answer(self, ends_s: float) -> Frame | None:
        """None is a plain OK, and the only answer after which the connection may be used again."""
        begun = self._read(FRAME_HEADER.size, _OK_BYTES, ends_s)
        if begun == OK_FRAME:
            return None
        frame = self._read_frame(begun, ends_s)
        while frame == (FrameType.RESPONSE, HEARTBEAT):
            frame = self._read_frame(b"", ends_s)
        return frame

    def _read_frame(self, begun: bytes, ends_s: float) -> Frame:
        frames = FrameRuns(max_frame_bytes=MAX_ANSWER_BYTES)
        begun = begun or self._read(FRAME_HEADER.size, FRAME_HEADER.size, ends_s)
        runs = frames.feed(begun)  # refuses a bad header before we wait for what it announces
        if not runs:
            left = _SIZE_BYTES + int.from_bytes(begun[:_SIZE_BYTES], "big") - len(begun)
            runs = frames.feed(self._read(left, left, ends_s))
        kind, payloads = runs[0]
        return kind, payloads[0]

    def _read(self, least: int, most: int, ends_s: float) -> bytes:
        data = b""
        while len(data) < least:
            left_s = ends_s - monotonic()
            if left_s <= 0:
                raise TimeoutError
            if self._poll_readable(min(left_s, MAX_WAIT_S) * 1000):
                piece = self._socket.recv(most - len(data))
                if not piece:
                    raise ConnectionResetError("closed by nsqd")
                data += piece
        return data

    def interrupt(self) -> None:
        """The one call for other threads: whoever waits here finds the connection lost."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
