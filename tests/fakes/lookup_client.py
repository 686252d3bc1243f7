"""A blocking client of protocol V1 that says exactly what a test tells it to say."""

import json
import socket
import ssl
import struct
from typing import Self

from nsqlake.wire.lookup_commands import MAGIC_V1, ReplyReader

LIMIT_S = 10.0
MAX_REPLY_BYTES = 1024 * 1024


def identify(**fields: object) -> bytes:
    """The command and its body, for a node that has all it needs unless told otherwise."""
    node = {"broadcast_address": "h1", "hostname": "host", "tcp_port": 4150, "http_port": 4151}
    return identify_with(json.dumps({**node, "version": "1.3.0", **fields}).encode())


def identify_with(body: bytes) -> bytes:
    return b"IDENTIFY\n" + struct.pack(">i", len(body)) + body


class LookupClient:
    """One connection, with the magic sent unless told otherwise."""

    def __init__(
        self,
        address: str,
        *,
        magic: bytes = MAGIC_V1,
        context: ssl.SSLContext | None = None,
        receive_buffer: int = 0,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        self.socket.settimeout(LIMIT_S)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((host, int(port)))
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self._reader = ReplyReader(MAX_REPLY_BYTES)
        self._replies: list[bytes] = []
        self.send(magic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    @property
    def local_address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def finish_sending(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def reply(self) -> bytes | None:
        """The next one; None when the server has closed instead."""
        while not self._replies:
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._replies += self._reader.feed(data)
        return self._replies.pop(0)

    def ask(self, *commands: bytes) -> list[bytes | None]:
        """Send all in one piece; a reply to each."""
        self.send(b"".join(commands))
        return [self.reply() for _ in commands]

    def identify(self, **fields: object) -> None:
        (reply,) = self.ask(identify(**fields))
        assert reply is not None
        assert reply.startswith(b"{"), reply

    def expect_ok(self, *commands: bytes) -> None:
        assert self.ask(*commands) == [b"OK"] * len(commands)

    def expect_end(self) -> None:
        assert self.reply() is None
