"""One TCP connection of an nsqd: bytes and deadlines. What they mean is the session's business."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from time import perf_counter_ns
from typing import cast

from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.nsqlookupd.session import Session
from nsqlake.runtime.addresses import address_text
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.runtime.sweeping_server import SweepingServer
from nsqlake.runtime.tls_context import TlsContextHolder
from nsqlake.runtime.tls_protocol import TlsProtocol

__all__ = ["PeerConnection", "PeerServer"]

logger = logging.getLogger(__name__)

MAGIC_LIMIT_S = 5.0
COMMAND_LIMIT_S = 30.0  # for the rest of a command
UNIDENTIFIED_LIMIT_S = 60.0  # of silence
UNREAD_LIMIT_S = 30.0
LINGER_S = 1.0  # how long a refused peer may go on sending before it is cut off
HIGH_WATER_BYTES = 64 * 1024
LOW_WATER_BYTES = 16 * 1024
TURN_NS = 1_000_000  # for one peer's commands in one turn of the loop: a flood stalls nobody else
BATCH_COMMANDS = 20
LOGGED_CHANGES = 20


class PeerServer(SweepingServer):
    """What the connections share, and the figures about them."""

    def __init__(
        self,
        db: RegistrationDb,
        clock: Clock,
        *,
        tls: TlsContextHolder | None,
        must_certify_address: bool,
        budget: InputBudget,
    ) -> None:
        super().__init__()
        self.db, self.clock, self.budget = db, clock, budget
        self.description = b""  # the answer to IDENTIFY
        self.must_certify_address = must_certify_address
        self.command_count = 0
        self.error_counts: Counter[str] = Counter()
        self._tls = tls

    def protocol_factory(self, on_closed: Callable[[], None]) -> asyncio.BaseProtocol:
        """For a `Listener`."""
        connection = PeerConnection(self, on_closed)
        if self._tls is None:
            return connection
        return TlsProtocol(self, self._tls.current.new_layer(), connection, on_closed, name="TCP")


class PeerConnection(asyncio.Protocol):
    """From accept to close."""

    def __init__(self, server: PeerServer, on_closed: Callable[[], None]) -> None:
        self._server, self._on_closed = server, on_closed
        self._is_ending = False
        self._is_reading = True
        self._is_choked = False  # by replies it does not read
        self._is_scheduled = False
        self._has_eof = False
        self._since_s = server.now_s  # of the last whole command, or of what it has to do now
        self._has_part = False  # of a command

    # asyncio's events -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have asyncio's interface without being its subclasses.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        server = self._server
        address = address_text(transport.get_extra_info("peername"))
        self._name = f"client({address})"
        layer = transport.get_extra_info("tls_layer")
        certified = layer.peer_names if server.must_certify_address else None
        self.session = Session(address, server.db, server.description, certified_addresses=certified)
        self._since_s = server.now_s
        server.add(self)
        logger.info("TCP: new %s", self._name)

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self.session.feed(data)
        if not (self._is_choked or self._is_scheduled):
            self._work()

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._is_ending:
            self._transport.close()
        elif not (self._is_choked or self._is_scheduled):
            self._end_of_input()
        return True

    def pause_writing(self) -> None:
        self._is_choked = True
        self._since_s = self._server.now_s
        self._set_reading(False)

    def resume_writing(self) -> None:
        self._is_choked = False
        self._since_s = self._server.now_s
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ending = True
        self.session.close()
        self._server.budget.release(self)
        self._server.discard(self)
        self._on_closed()
        logger.info("TCP: %s closed", self._name)

    # Commands -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Answer the commands at hand, for as long as others can wait."""
        session, server = self.session, self._server
        until_ns = perf_counter_ns() + TURN_NS
        while not (session.is_waiting or self._is_choked):
            self._transport.write(session.handle(server.clock.now_ns(), BATCH_COMMANDS))
            if perf_counter_ns() >= until_ns:
                break
        self._report()
        if session.is_over:
            self._end()
        elif self._is_choked:
            return
        elif not session.is_waiting:
            self._set_reading(False)
            self._schedule()
        elif self._has_eof:
            self._end_of_input()
        else:
            self._await_input()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        if not (self._is_ending or self._is_choked):
            self._work()

    def _await_input(self) -> None:
        """The time for the rest of a command runs from its first byte."""
        pending_bytes = self.session.pending_bytes
        if not self._server.budget.note(self, pending_bytes):
            logger.warning("TCP: %s closed, too much unfinished input in all", self._name)
            self.drop()
            return
        if pending_bytes and not self._has_part:
            self._since_s = self._server.now_s
        self._has_part = pending_bytes > 0
        self._set_reading(True)

    def _end_of_input(self) -> None:
        self._transport.write(self.session.end_of_input())
        self._report()
        self._end()

    def _report(self) -> None:
        """Take what the session tells into the figures and the log."""
        session, server = self.session, self._server
        if session.command_count:
            server.command_count += session.command_count
            session.command_count = 0
            self._since_s = server.now_s
            self._has_part = False
        if session.changes:
            for word, (category, key, subkey) in session.changes[:LOGGED_CHANGES]:
                text = "DB: %s %s category:%s key:%s subkey:%s"
                logger.info(text, self._name, word, category, key, subkey)
            if len(session.changes) > LOGGED_CHANGES:
                logger.info("DB: %s and %d more changes", self._name, len(session.changes) - LOGGED_CHANGES)
            session.changes.clear()
        for error in session.errors:
            server.error_counts[error.code] += 1
            logger.warning("TCP: %s %s%s", self._name, error, ", closed" if error.fatal else "")
        session.errors.clear()

    # Time -----------------------------------------------------------------------------------------------

    def check(self, now_s: float) -> None:
        """End whatever takes too long; the server asks once per sweep."""
        waited_s = now_s - self._since_s
        if self._is_ending:
            if waited_s > LINGER_S:
                self.drop()
        elif waited_s > self._limit_s():
            logger.info("TCP: %s closed, %s", self._name, self._what_is_late())
            self.drop()

    def _limit_s(self) -> float:
        if self._is_choked:
            return UNREAD_LIMIT_S
        if not self.session.has_magic:
            return MAGIC_LIMIT_S
        if self._has_part:
            return COMMAND_LIMIT_S
        return UNIDENTIFIED_LIMIT_S if self.session.peer is None else float("inf")

    def _what_is_late(self) -> str:
        if self._is_choked:
            return "does not read its replies"
        return "nothing but part of a command came" if self._has_part else "said nothing"

    # Endings --------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Close once what was answered is sent."""
        self._is_ending = True
        self._transport.close()

    def drop(self) -> None:
        """Close at once."""
        self._is_ending = True
        self._transport.abort()

    def _end(self) -> None:
        """Say no more, and give the peer time to read: closing on unread input might reset it all."""
        self._is_ending = True
        self.session.close()
        self._since_s = self._server.now_s
        if self._transport.is_closing():
            return
        if self._has_eof or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._set_reading(True)

    def _set_reading(self, is_reading: bool) -> None:
        if is_reading != self._is_reading and not self._transport.is_closing():
            self._is_reading = is_reading
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
