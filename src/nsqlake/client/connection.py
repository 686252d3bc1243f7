"""One connection to an nsqd that is ready: frames in, commands out."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import Final, Protocol

from nsqlake.client.addresses import parse_nsqd_address
from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import ConnectionLostError, NsqClientError, ServerError
from nsqlake.client.handshake import Handshake
from nsqlake.client.handshake_stream import HandshakeStream
from nsqlake.client.negotiation import negotiate
from nsqlake.client.outgoing import Outgoing
from nsqlake.client.server_description import ServerDescription
from nsqlake.client.silence import SilenceWatch
from nsqlake.client.tls import tls_reason
from nsqlake.runtime.timers import Timer, Timers
from nsqlake.wire.commands import nop
from nsqlake.wire.errors import StreamError
from nsqlake.wire.frame_runs import FrameRuns, Run
from nsqlake.wire.frames import HEARTBEAT, FrameType

__all__ = ["Connection", "ConnectionListener", "ServerDescription", "connect"]

logger = logging.getLogger(__name__)

DECODED_PIECE_BYTES: Final = 256 * 1024
DECODED_TURN_BYTES: Final = 1024 * 1024  # what a compressed read may grow to before others get their turn
_NOP: Final = nop()


class ConnectionListener(Protocol):
    """Called on the loop, in the order of the frames; must neither raise nor block."""

    def responses_received(self, connection: Connection, payloads: list[bytes]) -> None:
        """Everything but heartbeats: OK, CLOSE_WAIT."""

    def error_received(self, connection: Connection, error: ServerError) -> None:
        """After a fatal one the connection is not open; frames may still come until it is lost."""

    def messages_received(self, connection: Connection, payloads: list[bytes]) -> None:
        """The data of a run of message frames, each with its whole header."""

    def heartbeat_received(self, connection: Connection) -> None:
        """It was answered already."""

    def connection_lost(self, connection: Connection, error: NsqClientError | None) -> None:
        """Exactly once after a successful `connect`; None: we closed it."""


class Connection(asyncio.Protocol):
    """Made by `connect`; heartbeats are answered here, whatever the listener does."""

    def __init__(
        self,
        address: str,
        server: ServerDescription,
        stream: HandshakeStream,
        *,
        config: ClientConfig,
        listener: ConnectionListener,
        timers: Timers,
    ) -> None:
        self.address, self.server = address, server
        self.is_open = True
        self.last_received_s = timers.now_s()
        self.bytes_in = stream.bytes_in
        self._listener, self._timers, self._now_s = listener, timers, timers.now_s
        self._limit_s = config.write_timeout
        self._transport, self._decoder = stream.transport, stream.decoder
        self._frames = FrameRuns(max_frame_bytes=config.max_frame_bytes)
        self._outgoing = Outgoing(
            (stream.transport, stream.socket_transport),
            stream.encoder,
            timers=timers,
            limit_s=config.write_timeout,
            on_stuck=self._is_stuck,
        )
        self._handshake_bytes_out = stream.bytes_out
        self._silence = self._watch_silence(config)
        self._end_timer: Timer | None = None
        self._error: NsqClientError | None = None
        self._is_closing = self._is_reading_paused = False
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def bytes_out(self) -> int:
        return self._handshake_bytes_out + self._outgoing.sent_bytes

    # Writing ------------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        """Whether there is room: what nsqd is slow to take is below the high-water mark."""
        return self._outgoing.has_room

    def write(self, data: bytes) -> None:
        """Send whole commands with all others of this turn of the loop; nothing happens when not open."""
        if self.is_open:
            self._outgoing.write(data)

    async def wait_writable(self) -> None:
        """Until `is_writable`, or the connection is lost."""
        await self._outgoing.wait_room()

    async def close(self) -> None:
        """Send what was written, tell nsqd that no more comes, close; takes `write_timeout` at most."""
        if not self._is_closing and not self._lost.done():
            self._is_closing, self.is_open = True, False
            self._end_within(self._limit_s)
            self._outgoing.finish()
        await asyncio.shield(self._lost)

    def abort(self, error: NsqClientError | None = None) -> None:
        """Close at once; what was not sent is lost, and `connection_lost` gets `error`."""
        if self._lost.done():
            return
        self._error = self._error or error
        self._is_closing, self.is_open = True, False
        self._transport.abort()

    def _end_within(self, limit_s: float) -> None:
        if self._end_timer is None:
            self._end_timer = self._timers.call_later(limit_s, self._transport.abort)

    # asyncio.Protocol ---------------------------------------------------------------------------------

    def start(self, rest: bytes) -> None:
        """Take over from the handshake, with what it received beyond its last frame."""
        self._transport.set_protocol(self)
        if rest:
            self._take(rest)
        if self._decoder is not None:
            self._decode()

    def data_received(self, data: bytes) -> None:
        self.last_received_s = self._now_s()
        self.bytes_in += len(data)
        if self._decoder is None:
            self._take(data)
        else:
            self._decoder.feed(data)
            if not self._is_reading_paused:
                self._decode()

    def eof_received(self) -> None:
        # Nobody reads what we could still send.
        self._lose("closed by nsqd")

    def pause_writing(self) -> None:
        self._outgoing.pause()

    def resume_writing(self) -> None:
        self._outgoing.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost.done():
            return
        error = self._error
        if error is None and not self._is_closing:
            error = ConnectionLostError(self.address, _reason(exc))
        self.is_open = False
        self._outgoing.end()
        for timer in (self._silence, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._lost.set_result(None)
        logger.debug("NSQD(%s): connection ended reason=%s", self.address, error)
        self._listener.connection_lost(self, error)

    # Reading ------------------------------------------------------------------------------------------

    def _decode(self) -> None:
        """Hand out what the codec yields, so much in one turn of the loop."""
        assert self._decoder is not None
        left = DECODED_TURN_BYTES
        try:
            while left > 0 and not self._is_closing:
                piece = self._decoder.read(DECODED_PIECE_BYTES)
                if not piece:
                    self._resume_reading()
                    return
                left -= len(piece)
                self._take(piece)
        except StreamError as error:
            self._violated(error)
        if not self._is_closing:
            self._pause_reading()
            asyncio.get_running_loop().call_soon(self._decode)

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _take(self, data: bytes) -> None:
        try:
            for run in self._frames.feed(data):
                if self._is_closing:
                    return
                self._deliver(run)
            if self._frames.error is not None:
                self._violated(self._frames.error)
        except StreamError as error:
            self._violated(error)
        except Exception as error:
            logger.exception("NSQD(%s): a listener failed", self.address)
            self._lose(f"internal error: {error!r}")

    def _deliver(self, run: Run) -> None:
        kind, payloads = run
        if kind is FrameType.MESSAGE:
            self._listener.messages_received(self, payloads)
        elif kind is FrameType.ERROR:
            self._deliver_errors(payloads)
        elif HEARTBEAT in payloads:
            self.write(_NOP)
            self._listener.heartbeat_received(self)
            others = [payload for payload in payloads if payload != HEARTBEAT]
            if others:
                self._listener.responses_received(self, others)
        else:
            self._listener.responses_received(self, payloads)

    def _deliver_errors(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            error = ServerError.decode(self.address, payload)
            if error.fatal:
                # nsqd closes. Until it does it may still answer what it has read.
                self._error = self._error or error
                self.is_open = False
                self._end_within(self._limit_s)
            self._listener.error_received(self, error)

    # Ends ---------------------------------------------------------------------------------------------

    def _watch_silence(self, config: ClientConfig) -> SilenceWatch | None:
        if config.heartbeat_interval < 0:  # nsqd may rightly have nothing to say
            return None
        limit_s = max(config.read_timeout, 2 * config.heartbeat_interval)
        return SilenceWatch(
            self._timers,
            limit_s,
            last_received_s=lambda: self.last_received_s,
            on_silent=lambda: self._lose(f"heard nothing for {limit_s:g}s"),
        )

    def _is_stuck(self) -> None:
        self._lose(f"nsqd took nothing for {self._limit_s:g}s")

    def _violated(self, error: StreamError) -> None:
        logger.error("NSQD(%s): broke the protocol: %s", self.address, error)
        self._lose(f"broke the protocol: {error}")

    def _lose(self, reason: str) -> None:
        if not self._is_closing:
            self._error = self._error or ConnectionLostError(self.address, reason)
        self._is_closing, self.is_open = True, False
        self._transport.abort()


def _reason(exc: Exception | None) -> str:
    if isinstance(exc, ssl.SSLError):
        return f"TLS: {tls_reason(exc)}"
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    return str(exc) if exc else "closed by nsqd"


async def connect(
    address: str,
    config: ClientConfig,
    *,
    listener: ConnectionListener,
    timers: Timers,
    subscription: tuple[str, str] | None = None,
) -> Connection:
    """A connection that is ready: identified, encrypted, compressed, authorised, subscribed, as configured.

    ConnectError or HandshakeRefusedError otherwise; every step has a deadline.
    """
    target = parse_nsqd_address(address)
    handshake = Handshake(str(target), config, subscription)
    stream = await negotiate(target, handshake, config, timers)
    connection = Connection(
        str(target), handshake.server, stream, config=config, listener=listener, timers=timers
    )
    _log_ready(connection, handshake.warnings)
    connection.start(bytes(stream.rest))
    return connection


def _log_ready(connection: Connection, warnings: list[str]) -> None:
    server = connection.server
    logger.info(
        "NSQD(%s): connected version=%s tls=%s snappy=%s deflate=%s identity=%s",
        connection.address,
        server.version,
        server.tls,
        server.snappy,
        server.deflate,
        server.identity,
    )
    for warning in warnings:
        logger.warning("NSQD(%s): %s", connection.address, warning)
