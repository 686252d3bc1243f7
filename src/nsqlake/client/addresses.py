"""Addresses of nsqds as people write them: `host`, `host:4150`, `[::1]:4150`, `unix:///run/nsqd.sock`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from nsqlake.client.errors import InvalidArgumentError

DEFAULT_NSQD_PORT: Final = 4150  # NSQ
MAX_HOST_LENGTH: Final = 253
MAX_PATH_BYTES: Final = 107  # of a unix socket on Linux

_UNIX: Final = "unix://"
_HOST_PORT: Final = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
_NAME: Final = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_.-]*[0-9A-Za-z_.])?")


@dataclass(frozen=True)
class NsqdAddress:
    """Where an nsqd listens: host and port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        """One spelling for each address: what logs show and what tells two nsqds apart."""
        if self.path:
            return f"{_UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_nsqd_address(address: str, *, argument: str = "address") -> NsqdAddress:
    """InvalidArgumentError for what is no address; `argument` names it there."""
    try:
        if not isinstance(address, str):
            raise TypeError("must be text")
        return _parse(address)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(argument, address, str(error)) from None


def parse_local_address(address: str) -> tuple[str, int]:
    """`ip` or `ip:port` to connect from; port 0 is any. ValueError for what is no address."""
    if _is_ipv6(address):
        return address, 0
    host, port = _split(address, default_port=0)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError("must be an IP address, with a port or without") from None
    return host, port


def _parse(address: str) -> NsqdAddress:
    if address.startswith((_UNIX, "/")):
        return NsqdAddress(path=_checked_path(address.removeprefix(_UNIX)))
    if "/" in address:
        raise ValueError("must be host:port or unix:///path")
    if _is_ipv6(address):
        return NsqdAddress(_canonical_host(address), DEFAULT_NSQD_PORT)
    host, port = _split(address, default_port=DEFAULT_NSQD_PORT)
    if port == 0:
        raise ValueError("port 0 cannot be connected to")
    return NsqdAddress(host, port)


def _split(address: str, *, default_port: int) -> tuple[str, int]:
    match = _HOST_PORT.fullmatch(address)
    if match is None or not address:
        raise ValueError("must be host:port")
    port = int(match["port"]) if match["port"] else default_port
    if port > 65_535:
        raise ValueError(f"port {port} exceeds 65535")
    if match["v6"] is not None:
        if not _is_ipv6(match["v6"]):
            raise ValueError("no IPv6 address between the brackets")
        return _canonical_host(match["v6"]), port
    # As in Go, no host is this one.
    return _checked_name(match["host"] or "localhost"), port


def _checked_name(host: str) -> str:
    if len(host) > MAX_HOST_LENGTH or not _NAME.fullmatch(host):
        raise ValueError("not a host name")
    return host.lower()


def _checked_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("the path of a unix socket must be absolute")
    if "\0" in path or len(path.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES:
        raise ValueError("not the path of a unix socket")
    return path


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _canonical_host(text: str) -> str:
    return str(ipaddress.IPv6Address(text))
