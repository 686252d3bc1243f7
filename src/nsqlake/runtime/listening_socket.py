"""Opening the socket that a daemon listens on."""

import errno
import os
import socket
import stat
from typing import Any

from nsqlake.runtime.addresses import (
    address_text,
    error_text,
    join_host_port,
    resolve_host,
    resolve_port,
    split_host_port,
)
from nsqlake.runtime.errors import StartupError

BACKLOG = 4_096  # the kernel lowers it to net.core.somaxconn
ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 - Go takes each of them for all addresses of both families


def open_listening_socket(address: str) -> socket.socket:
    """A non-blocking socket, bound and listening; StartupError with Go's wording when that fails."""
    host_port = split_host_port(address)
    if host_port is None:
        return _open(address, socket.AF_UNIX, address, f"unix {address}")
    host, port = host_port
    try:
        number = resolve_port(port)
        if host in ANY_HOST:
            family, target = _all_addresses(number)
            return _open(address, family, target, f"tcp {join_host_port(host, number)}")
        family, target = resolve_host(host, number)
        return _open(address, family, target, f"tcp {address_text(target)}")
    except ValueError as error:
        raise StartupError(f"listen ({address}) failed - listen tcp: {error}") from error


def _all_addresses(port: int) -> tuple[socket.AddressFamily, Any]:
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port)
    return socket.AF_INET, ("0.0.0.0", port)  # noqa: S104


def _open(address: str, family: socket.AddressFamily, target: Any, shown: str) -> socket.socket:
    try:
        if family == socket.AF_UNIX:
            _remove_stale(target)
        return _listen(family, target)
    except OSError as error:
        raise StartupError(
            f"listen ({address}) failed - listen {shown}: bind: {error_text(error)}"
        ) from error


def _listen(family: socket.AddressFamily, target: Any) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        if family != socket.AF_UNIX:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind(target)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def _remove_stale(path: str) -> None:
    """Remove a socket that a daemon left behind: nobody listens on it, so connections are refused."""
    if not os.path.lexists(path) or not stat.S_ISSOCK(os.lstat(path).st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)
