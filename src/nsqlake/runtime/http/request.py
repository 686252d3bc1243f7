"""A request as handlers see it: what the client asked for, its body, and who the client is."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from nsqlake.runtime.http.errors import HttpError

if TYPE_CHECKING:
    from nsqlake.runtime.http.head import RequestHead

__all__ = ["Params", "Peer", "Request", "decode_escapes", "parse_query"]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Peer:
    """The other end of a connection."""

    ip: str = ""
    address: str = "@"
    is_tls: bool = False
    common_name: str = ""
    is_loopback: bool = True


class Params:
    """The parameters of a query: the first value of a name wins, a blank one counts."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def get(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self._values


class Request:
    """One request. `headers` has lower-case names, repeated ones joined; it is shared, so never change it."""

    __slots__ = ("_head", "body", "peer")

    def __init__(self, head: "RequestHead", body: bytes, peer: Peer) -> None:
        self._head, self.body, self.peer = head, body, peer

    @property
    def method(self) -> str:
        return self._head.method

    @property
    def path(self) -> str:
        return self._head.target.path

    @property
    def route_path(self) -> str:
        """As in the route table: safe to log."""
        return self._head.target.route.path

    @property
    def path_params(self) -> dict[str, str]:
        return self._head.target.path_params

    @property
    def headers(self) -> dict[str, str]:
        return self._head.headers

    @property
    def query(self) -> str:
        """As it was sent, behind the `?`."""
        return self._head.target.query

    @property
    def params(self) -> Params:
        """HttpError 400 INVALID_REQUEST for a bad escape or a `;`."""
        params = self._head.target.params
        if params is None:
            raise HttpError(400, "INVALID_REQUEST")
        return params

    def argument(self, name: str) -> str:
        """The value of a parameter that has to be there: else HttpError 400 MISSING_ARG_<NAME>."""
        value = self.params.get(name)
        if value is None:
            raise HttpError(400, f"MISSING_ARG_{name.upper()}")
        return value

    @property
    def remote_ip(self) -> str:
        """Empty for a unix socket."""
        return self.peer.ip

    @property
    def remote_address(self) -> str:
        return self.peer.address

    @property
    def is_tls(self) -> bool:
        return self.peer.is_tls

    @property
    def common_name(self) -> str:
        """Of the client's certificate, "" without one."""
        return self.peer.common_name

    @property
    def is_loopback(self) -> bool:
        """Whether the client is on this machine; so is one behind a unix socket."""
        return self.peer.is_loopback


def decode_escapes(text: str) -> str | None:
    """`text` without its `%` escapes, None if one is broken. What is not UTF-8 becomes U+FFFD."""
    if "%" not in text and text.isascii():
        return text
    if _BAD_ESCAPE.search(text):
        return None
    # The target came as bytes and is kept as latin-1: each character is a byte.
    return unquote_to_bytes(text.encode("latin-1")).decode("utf-8", "replace")


def parse_query(query: str) -> Params | None:
    """None when it is not one. A raw `#` is data, as it is to Go."""
    values: dict[str, str] = {}
    for part in query.split("&"):
        if ";" in part:
            return None
        name, _, value = part.replace("+", " ").partition("=")
        decoded_name, decoded_value = decode_escapes(name), decode_escapes(value)
        if decoded_name is None or decoded_value is None:
            return None
        if part:
            values.setdefault(decoded_name, decoded_value)
    return Params(values)
