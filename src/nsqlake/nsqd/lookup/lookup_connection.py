"""A connection to an nsqlookupd on which one command is out at a time."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from nsqlake.errors import NsqlakeError
from nsqlake.runtime.addresses import resolve_port, split_host_port
from nsqlake.wire.errors import StreamError
from nsqlake.wire.lookup_commands import ReplyReader

__all__ = ["LookupConnection", "LookupdError", "connect"]


class LookupdError(NsqlakeError):
    """An nsqlookupd cannot be reached, does not answer in time, or closed the connection."""

    retriable = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LookupConnection(asyncio.Protocol):
    """`on_lost` is called once, when the connection cannot be used any more; not after `close`."""

    def __init__(self, *, limit_s: float, max_reply_bytes: int, on_lost: Callable[[], None]) -> None:
        self.failure = ""
        self._limit_s, self._on_lost = limit_s, on_lost
        self._reader = ReplyReader(max_reply_bytes)
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[bytes] | None = None

    async def exchange(self, command: bytes) -> bytes:
        """The reply to `command`. LookupdError, also when the reply takes longer than the limit."""
        if self.failure:
            raise LookupdError(self.failure)
        assert self._transport is not None
        assert self._reply is None, "one command at a time"
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(command)
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._reply
        except TimeoutError as error:
            self.fail(f"no reply within {self._limit_s} s")
            raise LookupdError(self.failure) from error
        finally:
            self._reply = None

    def close(self) -> None:
        """Nothing more is sent; the peer sees the end of the stream."""
        self.failure = self.failure or "closed"
        if self._transport is not None:
            self._transport.close()

    def fail(self, reason: str) -> None:
        """Give the connection up at once."""
        if self.failure:
            return
        self.failure = reason
        if self._transport is not None:
            self._transport.abort()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(LookupdError(reason))
        self._on_lost()

    # What the event loop calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by name

    def data_received(self, data: bytes) -> None:
        try:
            replies = self._reader.feed(data)
        except StreamError as error:
            self.fail(error.reason)
            return
        for reply in replies:
            if self._reply is None or self._reply.done():
                self.fail("reply without a command")
                return
            self._reply.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(f"connection lost: {error}" if error else "connection closed by nsqlookupd")


async def connect(
    address: str,
    *,
    limit_s: float,
    max_reply_bytes: int,
    on_lost: Callable[[], None],
    tls: ssl.SSLContext | None = None,
) -> LookupConnection:
    """With `tls` from the first byte on. LookupdError when there is no connection within the limit."""
    parts = split_host_port(address)
    if parts is None:
        raise LookupdError("address has no port")

    def protocol() -> LookupConnection:
        return LookupConnection(limit_s=limit_s, max_reply_bytes=max_reply_bytes, on_lost=on_lost)

    try:
        host, port = parts[0] or "localhost", resolve_port(parts[1])
        async with asyncio.timeout(limit_s):
            _, connection = await asyncio.get_running_loop().create_connection(
                protocol, host, port, ssl=tls, server_hostname=host if tls else None
            )
    except TimeoutError as error:
        raise LookupdError(f"no connection within {limit_s} s") from error
    except (OSError, ValueError) as error:  # ValueError: the port, or a host that IDNA cannot encode
        raise LookupdError(f"cannot connect: {error}") from error
    return connection
