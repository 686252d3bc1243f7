"""The socket during the handshake: one frame at a time, because layers change between two frames."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from nsqlake.client.errors import ConnectError, HandshakeRefusedError
from nsqlake.client.handshake import Handshake, Upgrade
from nsqlake.client.tls import tls_reason
from nsqlake.wire.compression import (
    Decoder,
    DeflateDecoder,
    DeflateEncoder,
    Encoder,
    SnappyDecoder,
    SnappyEncoder,
)
from nsqlake.wire.errors import StreamError
from nsqlake.wire.frame_runs import FrameRuns
from nsqlake.wire.frames import FRAME_HEADER, FRAME_TYPE_BYTES, FrameType

MAX_ANSWER_BYTES: Final = 256 * 1024  # no answer in a handshake comes near it
MAX_HANDSHAKE_BYTES: Final = 512 * 1024
_SIZE_BYTES: Final = 4


class HandshakeStream(asyncio.Protocol):
    """Bytes behind the last frame stay in `rest` and in the decoder, for whoever reads next."""

    def __init__(self, address: str, handshake: Handshake) -> None:
        self._address, self._handshake = address, handshake
        self._error: ConnectError | None = None
        self._news: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport
        self.socket_transport: asyncio.Transport
        self.encoder: Encoder | None = None
        self.decoder: Decoder | None = None
        self.rest = bytearray()  # decoded and not used
        self.bytes_in = self.bytes_out = 0

    async def perform(self, tls: ssl.SSLContext | None, server_hostname: str) -> None:
        """Until nsqd has agreed to everything; ConnectError otherwise."""
        self._write(self._handshake.begin())
        while not self._handshake.is_done:
            upgrade, data = self._handshake.receive(*await self._next_frame())
            if upgrade is Upgrade.TLS:
                assert tls is not None
                await self._start_tls(tls, server_hostname)
            elif upgrade is not None:
                self._start_codec(upgrade)
            self._write(data)
        if self._error is not None:
            raise self._error

    def abort(self) -> None:
        for transport in {self.transport, self.socket_transport}:
            transport.abort()

    # asyncio.Protocol ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = self.socket_transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        if self.bytes_in > MAX_HANDSHAKE_BYTES:
            self.rest.clear()
            self._end("too much data")
            self.transport.abort()
        elif self.decoder is not None:
            self.decoder.feed(data)
        else:
            self.rest += data
        self._tell()

    def eof_received(self) -> None:
        self._end("closed by nsqd")

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            self._error = self._error or self._tls_failed(exc)
        self._end(f"connection lost: {exc}" if exc else "closed by nsqd")

    def _end(self, reason: str) -> None:
        if self._error is None:
            self._error = ConnectError(
                self._address, f"{reason} while waiting for {self._handshake.step.value}"
            )
        self._tell()

    # Bytes --------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if data:
            encoded = data if self.encoder is None else self.encoder.encode(data)
            self.bytes_out += len(encoded)
            self.transport.write(encoded)

    async def _next_frame(self) -> tuple[FrameType, bytes]:
        frames = FrameRuns(max_frame_bytes=MAX_ANSWER_BYTES)
        try:
            header = await self._take(FRAME_HEADER.size)
            runs = frames.feed(header)  # refuses a bad header before we wait for what it announces
            if not runs:
                size = int.from_bytes(header[:_SIZE_BYTES], "big")
                runs = frames.feed(await self._take(size - FRAME_TYPE_BYTES))
        except StreamError as error:
            step = self._handshake.step.value
            raise ConnectError(self._address, f"{error} while waiting for {step}") from None
        ((kind, (payload,)),) = runs
        return kind, payload

    async def _take(self, size: int) -> bytes:
        """Exactly `size` plain bytes; no more is decoded than these."""
        while len(self.rest) < size:
            if self.decoder is not None and (piece := self.decoder.read(size - len(self.rest))):
                self.rest += piece
            elif self._error is not None:
                raise self._error
            else:
                await self._wait_news()
        taken = bytes(self.rest[:size])
        del self.rest[:size]
        return taken

    async def _wait_news(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # Layers -------------------------------------------------------------------------------------------

    async def _start_tls(self, context: ssl.SSLContext, server_hostname: str) -> None:
        if self.rest:  # it would have come around the encryption
            raise ConnectError(self._address, "data in clear where TLS begins")
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(self.transport, self, context, server_hostname=server_hostname)
        except ssl.SSLError as error:
            raise self._tls_failed(error) from error
        except OSError as error:
            raise ConnectError(self._address, f"connection lost during TLS: {error}") from error
        if transport is None:
            raise self._error or ConnectError(self._address, "closed by nsqd during TLS")
        self.transport = transport

    def _tls_failed(self, error: ssl.SSLError) -> HandshakeRefusedError:
        return HandshakeRefusedError(self._address, "TLS_FAILED", tls_reason(error), permanent=True)

    def _start_codec(self, upgrade: Upgrade) -> None:
        if upgrade is Upgrade.SNAPPY:
            self.encoder, self.decoder = SnappyEncoder(), SnappyDecoder()
        else:
            level = self._handshake.server.deflate_level
            self.encoder, self.decoder = DeflateEncoder(level), DeflateDecoder()
        self.decoder.feed(bytes(self.rest))
        self.rest.clear()
