"""Protocol V1, spoken between nsqd and nsqlookupd: what nsqd sends and what it is answered.

| direction | bytes |
|---|---|
| first of all | the magic |
| command | a line of words parted by spaces; IDENTIFY is followed by a 4-byte size and a JSON body |
| reply | a 4-byte size and that many bytes, one reply for each command, without a frame type |
"""

import json
import re
import struct
from typing import Final

import msgspec

from nsqlake.wire.errors import RemoteError, StreamError, printable

MAGIC_V1: Final = b"  V1"
PING: Final = b"PING\n"
OK: Final = b"OK"
TOO_MANY_REGISTRATIONS: Final = "E_TOO_MANY_REGISTRATIONS"  # ours, and the only error that is not fatal

_SIZE: Final = struct.Struct(">i")
_ERROR_PREFIX: Final = b"E_"
_MAX_ERROR_CHARACTERS: Final = 200
_MAX_PORT: Final = 65_535
_HOST: Final = re.compile(r"[A-Za-z0-9._:%-]+")


class NodeDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What an nsqd says about itself, in the order of NSQ's keys."""

    broadcast_address: str
    hostname: str
    http_port: int
    tcp_port: int
    topology_region: str = ""
    topology_zone: str = ""
    version: str


class LookupdDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What an nsqlookupd answers to IDENTIFY; all of it may be missing."""

    broadcast_address: str | None = None
    http_port: int | None = None
    https_port: int | None = None  # ours: NSQ's nsqlookupd has no HTTPS
    tcp_port: int | None = None
    version: str | None = None

    @property
    def has_http(self) -> bool:
        """Whether host and port of its HTTP API are known, and can be part of a URL."""
        return self._is_usable(self.http_port)

    @property
    def has_https(self) -> bool:
        return self._is_usable(self.https_port)

    def _is_usable(self, port: int | None) -> bool:
        return 0 < (port or 0) <= _MAX_PORT and _HOST.fullmatch(self.broadcast_address or "") is not None


def identify(node: NodeDescription) -> bytes:
    # json, because a host name that is not UTF-8 must not keep a node from being announced.
    body = json.dumps(msgspec.structs.asdict(node), separators=(",", ":")).encode()
    return b"IDENTIFY\n" + _SIZE.pack(len(body)) + body


def register(topic: str, channel: str = "") -> bytes:
    return _line("REGISTER", topic, channel)


def unregister(topic: str, channel: str = "") -> bytes:
    return _line("UNREGISTER", topic, channel)


def is_unregister(command: bytes) -> bool:
    return command.startswith(b"UNREGISTER ")


def _line(*words: str) -> bytes:
    return " ".join(word for word in words if word).encode() + b"\n"


def encode_reply(payload: bytes) -> bytes:
    return _SIZE.pack(len(payload)) + payload


def check_reply(payload: bytes) -> None:
    """RemoteError when the reply is an error; nsqlookupd closes the connection after every one."""
    if payload.startswith(_ERROR_PREFIX):
        raise RemoteError.decode(printable(payload, _MAX_ERROR_CHARACTERS).encode())


def decode_description(payload: bytes) -> LookupdDescription:
    """The reply to IDENTIFY: RemoteError when it is an error, StreamError when it makes no sense."""
    check_reply(payload)
    try:
        found = msgspec.json.decode(payload, type=LookupdDescription | None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StreamError(f"reply to IDENTIFY is not understood: {printable(payload)}") from error
    return found or LookupdDescription()


class ReplyReader:
    """Turns received bytes into replies. A size is checked before any byte behind it is kept."""

    __slots__ = ("_buffer", "_max_reply_bytes")

    def __init__(self, max_reply_bytes: int) -> None:
        self._max_reply_bytes = max_reply_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The replies that are whole now; StreamError when a size cannot be, and nothing can follow."""
        self._buffer += data
        replies: list[bytes] = []
        start = 0
        while len(self._buffer) - start >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer, start)
            if not 0 <= size <= self._max_reply_bytes:
                raise StreamError(f"reply of {size} bytes is outside [0, {self._max_reply_bytes}]")
            end = start + _SIZE.size + size
            if end > len(self._buffer):
                break
            replies.append(bytes(self._buffer[start + _SIZE.size : end]))
            start = end
        del self._buffer[:start]
        return replies
