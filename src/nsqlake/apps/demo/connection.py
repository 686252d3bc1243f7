"""A blocking connection to nsqd: as little of a client as the demo needs."""

import socket
import time

from nsqlake.wire import commands
from nsqlake.wire.errors import RemoteError
from nsqlake.wire.frame_reader import Frame, FrameReader
from nsqlake.wire.frames import HEARTBEAT, FrameType

__all__ = ["Connection"]

_CONNECT_LIMIT_S = 10.0
_RECEIVE_BYTES = 65_536


class Connection:
    """One client of nsqd; for one thread."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._reader = FrameReader()
        self._socket = socket.create_connection(address, _CONNECT_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(commands.MAGIC_V2)

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.settimeout(_CONNECT_LIMIT_S)
        self._socket.sendall(data)

    def receive(self, wait_s: float) -> list[Frame]:
        """Frames that came, none after `wait_s`. Heartbeats are answered; ConnectionError when nsqd left."""
        self._socket.settimeout(wait_s)
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return []
        if not data:
            raise ConnectionError("nsqd closed the connection")
        frames = self._reader.feed(data)
        if any(frame.payload == HEARTBEAT for frame in frames):
            self.send(commands.nop())
        return [frame for frame in frames if frame.payload != HEARTBEAT]

    def ask(self, command: bytes, limit_s: float = _CONNECT_LIMIT_S) -> None:
        """Send a command and wait for its answer; RemoteError when it is refused."""
        self.send(command)
        deadline = time.monotonic() + limit_s
        frames: list[Frame] = []
        # Nothing may also mean that only a heartbeat came.
        while not frames:
            rest_s = deadline - time.monotonic()
            if rest_s <= 0:
                raise TimeoutError(f"nsqd did not answer within {limit_s} s")
            frames = self.receive(rest_s)
        if frames[0].type is FrameType.ERROR:
            raise RemoteError.decode(frames[0].payload)
