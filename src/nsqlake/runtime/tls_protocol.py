"""TLS from the first byte: between a socket and a connection, which sees a transport like any other."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

from nsqlake.runtime.addresses import address_text
from nsqlake.runtime.sweeping_server import SweepingServer
from nsqlake.runtime.tls import TlsError, TlsLayer

__all__ = ["TlsProtocol", "TlsTransport"]

logger = logging.getLogger(__name__)

HANDSHAKE_LIMIT_S = 5.0
READ_BYTES = 64 * 1024


class TlsProtocol(asyncio.Protocol):
    """Shakes hands, then hands decrypted bytes to the connection.

    Who begins with letters, as a request does and no handshake, gets `plain_answer`, if there is one.
    """

    def __init__(
        self,
        server: SweepingServer,
        layer: TlsLayer,
        connection: asyncio.Protocol,
        on_closed: Callable[[], None],
        *,
        name: str,
        plain_answer: bytes = b"",
    ) -> None:
        self._server, self._layer, self._connection, self._on_closed = server, layer, connection, on_closed
        self._name, self._plain_answer = name, plain_answer
        self._is_established = False
        self._is_ending = False
        self._is_paused = False
        self._has_said_goodbye = False
        self._is_first_input = True
        self._started_s = server.now_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._remote_address = address_text(transport.get_extra_info("peername"))
        self._server.add(self)

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        try:
            self._layer.feed(data)
            if not self._is_established:
                self._shake_hands(data)
            if self._is_established:
                self._pull()
        except TlsError as error:
            self._break_off(error)

    def eof_received(self) -> bool:
        if not self._is_established:
            self.drop()
            return True
        return bool(self._connection.eof_received())

    def pause_writing(self) -> None:
        if self._is_established:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._is_established:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ending = True
        self._server.discard(self)
        if self._is_established:
            self._connection.connection_lost(exc)
        else:
            self._on_closed()

    # As the connection's transport asks -----------------------------------------------------------------

    def write(self, data: bytes) -> None:
        try:
            self._transport.write(self._layer.encode(data))
        except TlsError as error:
            self._break_off(error)

    def say_goodbye(self) -> None:
        if not (self._has_said_goodbye or self._transport.is_closing()):
            self._has_said_goodbye = True
            self._transport.write(self._layer.close())

    def pause_reading(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._transport.resume_reading()
        asyncio.get_running_loop().call_soon(self._pull_safely)

    # As the server asks, during the handshake -----------------------------------------------------------

    def check(self, now_s: float) -> None:
        if now_s - self._started_s > HANDSHAKE_LIMIT_S:
            logger.info("%s(%s): closed, TLS handshake timed out", self._name, self._remote_address)
            self.drop()

    def finish(self) -> None:
        self.drop()

    def drop(self) -> None:
        self._is_ending = True
        self._transport.abort()

    def _shake_hands(self, data: bytes) -> None:
        is_first, self._is_first_input = self._is_first_input, False
        if is_first and self._plain_answer and data[:1].isalpha():
            self._transport.write(self._plain_answer)
            self._is_ending = True
            self._transport.close()
            return
        is_done = self._layer.handshake()
        self._transport.write(self._layer.take_outgoing())
        if is_done:
            self._is_established = True
            self._server.discard(self)
            self._connection.connection_made(TlsTransport(self, self._transport, self._layer))

    def _pull_safely(self) -> None:
        try:
            self._pull()
        except TlsError as error:
            self._break_off(error)

    def _pull(self) -> None:
        while not (self._is_paused or self._is_ending or self._transport.is_closing()):
            data = self._layer.read(READ_BYTES)
            if not data:
                break
            self._connection.data_received(data)
        rest = self._layer.take_outgoing()
        if rest and not (self._has_said_goodbye or self._transport.is_closing()):
            self._transport.write(rest)
        if self._layer.peer_closed and not self._is_paused:
            self._connection.eof_received()

    def _break_off(self, error: TlsError) -> None:
        if self._is_ending:
            return
        logger.info("%s(%s): closed: %s", self._name, self._remote_address, error)
        self._is_ending = True
        if not (self._has_said_goodbye or self._transport.is_closing()):
            self._transport.write(self._layer.take_outgoing())
        self._transport.close()


class TlsTransport(asyncio.Transport):
    """Writes through TLS. It has no socket to give away: what goes around it would not be encrypted."""

    def __init__(self, protocol: TlsProtocol, transport: asyncio.Transport, layer: TlsLayer) -> None:
        super().__init__()
        self._protocol, self._transport, self._layer = protocol, transport, layer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return default
        return self._layer if name == "tls_layer" else self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._transport.is_closing():
            self._protocol.write(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._protocol.say_goodbye()
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def close(self) -> None:
        self._protocol.say_goodbye()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._protocol.pause_reading()

    def resume_reading(self) -> None:
        self._protocol.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)
