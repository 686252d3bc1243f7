"""Addresses as Go writes and reads them: `host:port`, `[::1]:4150`, or the path of a unix socket."""

import ipaddress
import os
import re
import socket
from typing import Any

_HOST_PORT = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([^:\[\]/]*)")
MAX_PORT = 65_535
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def split_host_port(address: str) -> tuple[str, str] | None:
    """Host and port of `host:port`; None for anything else, which is then the path of a unix socket."""
    match = _HOST_PORT.fullmatch(address)
    if match is None or "/" in (match[2] or ""):
        return None
    return match[1] if match[1] is not None else match[2], match[3]


def host_name() -> str:
    return os.uname().nodename


def is_local_address(address: str) -> bool:
    """Whether only this machine can reach who listens there. A unix socket is guarded by its permissions."""
    host_port = split_host_port(address)
    return host_port is None or host_port[0] in _LOCAL_HOSTS


def address_text(address: Any) -> str:
    """What `getsockname` or `getpeername` returned, as Go prints it; `@` for a unix socket without a name."""
    if not isinstance(address, tuple):
        name = address.decode("utf-8", "backslashreplace") if isinstance(address, bytes) else address
        return name or "@"
    return join_host_port(address_host(address), address[1])


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_host(address: Any) -> str:
    """The IP alone, "" for unix sockets; IPv4 seen through an IPv6 socket is IPv4."""
    if not isinstance(address, tuple):
        return ""
    parsed = ipaddress.ip_address(address[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(parsed)


def resolve_port(port: str) -> int:
    """ValueError, worded as Go does, when it is neither a number in range nor a known service."""
    if re.fullmatch(r"[0-9]{0,9}", port):
        number = int(port or "0")
        if number > MAX_PORT:
            raise ValueError(f"address {port}: invalid port")
        return number
    try:
        return socket.getservbyname(port, "tcp")
    except (OSError, ValueError) as error:
        raise ValueError(f"lookup tcp/{port}: unknown port") from error


def resolve_host(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Family and socket address of `host`, IPv4 if it has one; blocking. ValueError when it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise ValueError(f"lookup {host}: no such host") from error
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, address


def error_text(error: OSError) -> str:
    """As Go words it: `address already in use`."""
    text = os.strerror(error.errno) if error.errno else "invalid argument"
    return text[:1].lower() + text[1:]
