"""One blocking connection, and the few answers a load waits for outside its hot loop."""

import socket
import struct

from bench.load import commands
from bench.load.errors import LoadError
from bench.load.frames import ERROR, HEADER_BYTES, HEARTBEAT

ANSWER_TIMEOUT_SECONDS = 60

Address = tuple[str, int]


def connect(address: Address, *hello: bytes) -> socket.socket:
    """Connect, say `V2` and then each of `hello`, which must be commands answered with OK."""
    sock = socket.create_connection(address, timeout=ANSWER_TIMEOUT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(commands.MAGIC)
    for command in hello:
        sock.sendall(command)
        expect(sock, b"OK")
    sock.settimeout(None)
    return sock


def expect(sock: socket.socket, wanted: bytes) -> None:
    """Read one response frame that must be `wanted`; heartbeats before it are answered."""
    while (data := _read_frame(sock)) == HEARTBEAT:
        sock.sendall(commands.NOP)
    if data != wanted:
        raise LoadError(f"expected {wanted!r}, got {data!r}")


def give_up_reading_after(sock: socket.socket, milliseconds: int) -> None:
    """Let a blocking `recv` raise BlockingIOError when nothing comes; settimeout would poll before each."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, milliseconds * 1000))


def _read_frame(sock: socket.socket) -> bytes:
    size, kind = struct.unpack(">ii", _read_exactly(sock, HEADER_BYTES))
    data = _read_exactly(sock, size - 4)
    if kind == ERROR:
        raise LoadError(data.decode(errors="backslashreplace"))
    return data


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        received = sock.recv(count - len(data))
        if not received:
            raise LoadError("the broker closed the connection")
        data += received
    return data
