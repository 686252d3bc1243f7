"""From an address to a socket on which nsqd has agreed to everything."""

from __future__ import annotations

import asyncio
import ssl

from nsqlake.client.addresses import NsqdAddress
from nsqlake.client.config import ClientConfig
from nsqlake.client.dialing import dial
from nsqlake.client.errors import ConnectError, HandshakeRefusedError, InvalidArgumentError
from nsqlake.client.handshake import Handshake
from nsqlake.client.handshake_stream import HandshakeStream
from nsqlake.client.tls import build_tls_context
from nsqlake.runtime.timers import Timers, deadline


async def negotiate(
    target: NsqdAddress, handshake: Handshake, config: ClientConfig, timers: Timers
) -> HandshakeStream:
    """Dial within `dial_timeout`, shake hands within `handshake_timeout`; ConnectError otherwise."""
    tls = await _tls_context(target, config)
    stream = await _open(target, handshake, config, timers)
    try:
        async with deadline(timers, config.handshake_timeout):
            await stream.perform(tls, _server_hostname(target, config))
    except TimeoutError:
        stream.abort()
        reason = f"timed out waiting for {handshake.step.value}"
        raise ConnectError(str(target), reason) from None
    except BaseException:
        stream.abort()
        raise
    return stream


async def _tls_context(target: NsqdAddress, config: ClientConfig) -> ssl.SSLContext | None:
    """Made anew for each connection, so that renewed certificates are used."""
    if not config.tls_v1:
        return None
    try:
        return await asyncio.get_running_loop().run_in_executor(None, build_tls_context, config)
    except InvalidArgumentError as error:
        raise HandshakeRefusedError(str(target), "TLS_FAILED", str(error), permanent=True) from error


async def _open(
    target: NsqdAddress, handshake: Handshake, config: ClientConfig, timers: Timers
) -> HandshakeStream:
    opened = await dial(target, config, timers)
    try:
        _, stream = await asyncio.get_running_loop().create_connection(
            lambda: HandshakeStream(str(target), handshake), sock=opened
        )
    except BaseException:
        opened.close()
        raise
    return stream


def _server_hostname(target: NsqdAddress, config: ClientConfig) -> str:
    return config.server_hostname or target.host.partition("%")[0] or "localhost"
