"""Opening the socket to an nsqd: every address its name has, each in turn."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import Any, Final

from nsqlake.client.addresses import NsqdAddress, parse_local_address
from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import ConnectError
from nsqlake.runtime.addresses import address_text
from nsqlake.runtime.timers import Timers, deadline

Endpoint = tuple[socket.AddressFamily, Any]

# A peer that vanished without a word is noticed within two minutes, where the kernel lets us say so.
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


async def dial(address: NsqdAddress, config: ClientConfig, timers: Timers) -> socket.socket:
    """A connected socket within `dial_timeout`; ConnectError says what happened at each address."""
    ends_s = timers.now_s() + config.dial_timeout
    endpoints = await _resolve(address, config, timers)
    failures: list[str] = []
    for number, endpoint in enumerate(endpoints):
        # An address that does not answer leaves time for those after it.
        share_s = (ends_s - timers.now_s()) / (len(endpoints) - number)
        try:
            async with deadline(timers, max(share_s, 0.0)):
                return await _open(endpoint, config)
        except TimeoutError:
            failures.append(f"{_shown(endpoint)}: timed out")
        except OSError as error:
            failures.append(f"{_shown(endpoint)}: {_reason(error)}")
    raise ConnectError(str(address), f"cannot connect: {'; '.join(failures)}")


async def _resolve(address: NsqdAddress, config: ClientConfig, timers: Timers) -> Sequence[Endpoint]:
    if address.path:
        return [(socket.AF_UNIX, address.path)]
    if literal := _literal(address):
        return [literal]
    loop = asyncio.get_running_loop()
    try:
        async with deadline(timers, config.dial_timeout):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise ConnectError(str(address), "cannot resolve the name: timed out") from None
    except (OSError, UnicodeError) as error:
        raise ConnectError(str(address), f"cannot resolve the name: {_reason(error)}") from error
    return list(dict.fromkeys((family, endpoint) for family, _, _, _, endpoint in found))


def _literal(address: NsqdAddress) -> Endpoint | None:
    """An IP address needs no thread to be resolved; one with a zone does."""
    try:
        is_v6 = ipaddress.ip_address(address.host).version == 6
    except ValueError:
        return None
    if "%" in address.host:
        return None
    endpoint = (address.host, address.port, 0, 0) if is_v6 else (address.host, address.port)
    return (socket.AF_INET6 if is_v6 else socket.AF_INET), endpoint


async def _open(endpoint: Endpoint, config: ClientConfig) -> socket.socket:
    family, target = endpoint
    opened = socket.socket(family, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(opened.close)
        opened.setblocking(False)
        if family != socket.AF_UNIX:
            _tune(opened)
            _bind(opened, config.local_addr)
        await asyncio.get_running_loop().sock_connect(opened, target)
        undo.pop_all()
    return opened


def _tune(opened: socket.socket) -> None:
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _bind(opened: socket.socket, local_addr: str) -> None:
    if local_addr:
        opened.bind(parse_local_address(local_addr))


def _shown(endpoint: Endpoint) -> str:
    with contextlib.suppress(ValueError):
        return address_text(endpoint[1])
    return str(endpoint[1])


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
