"""What can be wrong with bytes on the wire.

ProtocolError
├── ClientError    the peer broke a rule: becomes an error frame
├── RemoteError    an error frame that we received
└── StreamError    the stream cannot be followed any further: close without a frame
"""

from __future__ import annotations

from collections.abc import Callable

from nsqlake.errors import NsqlakeError

MAX_REFLECTED_CHARACTERS = 64


class ProtocolError(NsqlakeError):
    """Bytes that break the protocol."""


class ClientError(ProtocolError):
    """A command the server refuses; `fatal` says that the connection closes after the frame."""

    def __init__(self, code: str, description: str = "", *, fatal: bool = True) -> None:
        super().__init__(f"{code} {description}" if description else code)
        self.code, self.description, self.fatal = code, description, fatal

    @property
    def payload(self) -> bytes:
        """The data of the error frame."""
        return str(self).encode("utf-8", "backslashreplace")


class RemoteError(ProtocolError):
    """An error frame from the server."""

    def __init__(self, code: str, description: str = "") -> None:
        super().__init__(f"{code} {description}" if description else code)
        self.code, self.description = code, description

    @classmethod
    def decode(cls, payload: bytes) -> RemoteError:
        code, _, description = payload.decode("utf-8", "replace").partition(" ")
        return cls(code, description)


class StreamError(ProtocolError):
    """A frame or a compressed stream that cannot be decoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def printable(raw: bytes, limit: int = MAX_REFLECTED_CHARACTERS) -> str:
    """`raw` as text that is safe in a frame or a log line: what cannot be printed becomes \\xNN."""
    return _escaped(raw, limit, _escape_bytes)


def quoted(raw: bytes, limit: int = MAX_REFLECTED_CHARACTERS) -> str:
    """`raw` between double quotes with the escapes of Go's %q; `limit` counts what stands between them."""
    return f'"{_escaped(raw, limit, _escape_like_go)}"'


def _escaped(raw: bytes, limit: int, escape: Callable[[str], str]) -> str:
    pieces: list[str] = []
    length = 0
    # A character has at most 4 bytes, so this prefix always holds `limit` whole ones.
    for character in raw[: 4 * limit].decode("utf-8", "surrogateescape"):
        piece = escape(character)
        length += len(piece)
        if length > limit:
            break
        pieces.append(piece)
    return "".join(pieces)


def _escape_bytes(character: str) -> str:
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


_GO_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def _escape_like_go(character: str) -> str:
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80 or 0xDC80 <= code <= 0xDCFF:  # the second range: bytes that are not UTF-8
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
