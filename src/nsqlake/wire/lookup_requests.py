"""Protocol V1 as nsqlookupd reads it: lines, the body of IDENTIFY, and the names in both.

Every refusal is a ClientError with NSQ's code and words; what a peer sent is repeated escaped and cut.
"""

import struct
from typing import Final

from nsqlake.wire.errors import ClientError, printable
from nsqlake.wire.json_object import REFUSALS, Fields, as_int64, as_text, decode_object
from nsqlake.wire.lookup_commands import NodeDescription
from nsqlake.wire.names import is_valid_name

__all__ = [
    "MAX_FIELD_CHARACTERS",
    "MAX_IDENTIFY_BYTES",
    "MAX_LINE_BYTES",
    "RequestReader",
    "decode_node",
    "parse_names",
    "split_line",
]

MAX_LINE_BYTES: Final = 16_384  # the newline included; NSQ has no limit
MAX_IDENTIFY_BYTES: Final = 1_048_576
MAX_FIELD_CHARACTERS: Final = 256  # of an IDENTIFY body: each is part of many answers
MAGIC_BYTES: Final = 4

_SIZE: Final = struct.Struct(">i")
_REQUIRED: Final = ("broadcast_address", "tcp_port", "http_port", "version")
_FIELDS: Final[Fields] = {
    **{
        name: (name, as_text)
        for name in ("broadcast_address", "hostname", "version", "topology_zone", "topology_region")
    },
    **{name: (name, as_int64) for name in ("tcp_port", "http_port")},
}


class RequestReader:
    """Cuts received bytes into what the session asks for; None while that is not whole."""

    __slots__ = ("_buffer", "_start")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0

    @property
    def pending_bytes(self) -> int:
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> None:
        del self._buffer[: self._start]
        self._start = 0
        self._buffer += data

    def take_magic(self) -> bytes | None:
        return self._take(MAGIC_BYTES) if self.pending_bytes >= MAGIC_BYTES else None

    def take_line(self) -> bytes | None:
        """Without the newline. ClientError when it is too long, whether its end came or not."""
        start = self._start
        newline = self._buffer.find(b"\n", start, start + MAX_LINE_BYTES)
        if newline < 0:
            if self.pending_bytes >= MAX_LINE_BYTES:
                raise ClientError("E_INVALID", f"line is longer than {MAX_LINE_BYTES} bytes")
            return None
        self._start = newline + 1
        return bytes(self._buffer[start:newline])

    def take_body(self) -> bytes | None:
        """The body behind its size. ClientError for a size that cannot be, before any of the body came."""
        if self.pending_bytes < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= MAX_IDENTIFY_BYTES:
            raise ClientError("E_BAD_BODY", "IDENTIFY failed to read body size")
        if self.pending_bytes < _SIZE.size + size:
            return None
        self._start += _SIZE.size
        return self._take(size)

    def broken_body(self) -> ClientError:
        """What to say when no more bytes will come."""
        what = "body size" if self.pending_bytes < _SIZE.size else "body"
        return ClientError("E_BAD_BODY", f"IDENTIFY failed to read {what}")

    def _take(self, count: int) -> bytes:
        start, self._start = self._start, self._start + count
        return bytes(self._buffer[start : start + count])


def split_line(line: bytes) -> list[bytes]:
    """The words: white space around the line does not count, two spaces make an empty word."""
    return line.strip().split(b" ")


def parse_names(words: list[bytes]) -> tuple[str, str]:
    """Topic and channel of a REGISTER or UNREGISTER; a channel that is missing or blank is ""."""
    command = words[0].decode()
    if len(words) < 2:
        raise ClientError("E_INVALID", f"{command} insufficient number of params")
    topic, channel = words[1], words[2] if len(words) > 2 else b""
    if not is_valid_name(topic):
        raise ClientError("E_BAD_TOPIC", f"{command} topic name '{printable(topic)}' is not valid")
    if channel and not is_valid_name(channel):
        raise ClientError("E_BAD_CHANNEL", f"{command} channel name '{printable(channel)}' is not valid")
    return topic.decode(), channel.decode()


def decode_node(body: bytes) -> NodeDescription:
    """Who an nsqd says it is, in the body of its IDENTIFY."""
    try:
        fields = decode_object(body, _FIELDS)
    except REFUSALS:
        raise ClientError("E_BAD_BODY", "IDENTIFY failed to decode JSON body") from None
    if not all(fields.get(name) for name in _REQUIRED):
        raise ClientError("E_BAD_BODY", "IDENTIFY missing fields")
    for name, value in fields.items():
        if isinstance(value, str) and len(value) > MAX_FIELD_CHARACTERS:
            limit = MAX_FIELD_CHARACTERS
            raise ClientError("E_BAD_BODY", f"IDENTIFY {name} is longer than {limit} characters")
    return NodeDescription(**{"hostname": "", **fields})  # type: ignore[arg-type]
