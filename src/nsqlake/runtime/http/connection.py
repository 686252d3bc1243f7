"""One HTTP connection: bytes in, answers out, in order; deadlines and what happens when they pass."""

import asyncio
import enum
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from nsqlake.runtime.addresses import address_host, address_text
from nsqlake.runtime.http.encoding import CONTINUE
from nsqlake.runtime.http.errors import HttpError
from nsqlake.runtime.http.head import RequestHead
from nsqlake.runtime.http.reader import BodyTooBig, RequestReader
from nsqlake.runtime.http.request import Peer, Request
from nsqlake.runtime.http.response import FileResponse, Later, Response, error_response
from nsqlake.runtime.http.router import Handler
from nsqlake.runtime.http.sending import (
    HIGH_WATER_BYTES,
    LOW_WATER_BYTES,
    FileSender,
)

if TYPE_CHECKING:
    from nsqlake.runtime.http.server import HttpServer

__all__ = ["HttpConnection"]

logger = logging.getLogger(__name__)

LINGER_S = 1.0  # how long a refused client may go on sending before it is cut off
WAITING_INPUT_BYTES = 64 * 1024  # taken from a client whose last request is not answered yet
TURN_REQUESTS = 100  # of one client in one turn of the loop, so that a flood stalls nobody else
SHOWN_PATH_LENGTH = 64

INTERNAL_ERROR = error_response(HttpError(500, "INTERNAL_ERROR"))
TIMEOUT = error_response(HttpError(503, "TIMEOUT"))
REQUEST_TIMEOUT = error_response(HttpError(408, "REQUEST_TIMEOUT"))


# Why the next request has to wait; bits of a plain int, as every request asks for them.
ANSWER = 1  # the handler has not answered yet
SENDING = 2  # an answer that takes more than one write
UNREAD = 4  # the client does not read its answers
TURN = 8  # others first
ENDING = 16  # no more requests


class Stage(enum.Enum):
    """How far the client is with the next request."""

    IDLE = 0
    HEAD = 1
    BODY = 2


class HttpConnection(asyncio.Protocol):
    """A client from accept to close."""

    def __init__(self, server: "HttpServer", on_closed: Callable[[], None]) -> None:
        self._server, self._on_closed = server, on_closed
        self._gate, self._encoder, self._limits = server.gate, server.encoder, server.limits
        self._reader = RequestReader(server.heads)
        self._holds = 0
        self._stage = Stage.IDLE
        self._since_s = server.now_s  # of the stage, or of the wait for the handler
        self._is_reading = True
        self._is_processing = False
        self._has_eof = False
        self._asked: RequestHead | None = None  # its answer is being waited for
        self._ask_count = 0
        self._sender: FileSender | None = None
        self._unread_mark = (0, 0)
        self._unread_since_s = server.now_s

    # asyncio's events -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have asyncio's interface without being its subclasses.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        self._peer = _peer_of(transport)
        self._name = f"{self._server.name}({self._peer.address})"
        self._is_debug = logger.isEnabledFor(logging.DEBUG)
        self._since_s = self._unread_since_s = self._server.now_s
        self._server.add(self)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if not self._holds and reader.is_empty:
            head = reader.take_whole(data)
            if head is not None:
                self._since_s = self._server.now_s
                self._handle(head)
                return
        if self._holds & ENDING:
            return
        reader.feed(data)
        if not self._holds:
            self._process()
        elif reader.pending_bytes > WAITING_INPUT_BYTES:
            self._pause_reading()

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._holds & ENDING:
            self._transport.close()
        elif not self._holds:
            self._close()
        return True

    def pause_writing(self) -> None:
        self._holds |= UNREAD
        self._pause_reading()

    def resume_writing(self) -> None:
        self._holds &= ~UNREAD
        self._since_s = self._server.now_s
        if self._sender is not None:
            self._sender.resume()
        asyncio.get_running_loop().call_soon(self._process)

    def connection_lost(self, exc: Exception | None) -> None:
        self._holds |= ENDING
        self._asked = None
        if self._sender is not None:
            self._sender.stop()
        if self._server.budget is not None:
            self._server.budget.release(self)
        self._server.discard(self)
        self._on_closed()

    # Requests -------------------------------------------------------------------------------------------

    def _process(self) -> None:
        """Handle the requests at hand, until one has to wait."""
        if self._is_processing or self._transport.is_closing():
            return
        self._is_processing = True
        count = 0
        try:
            while not self._holds and count < TURN_REQUESTS:
                head = self._reader.next_request()
                if head is None:
                    break
                count += 1
                self._since_s = self._server.now_s
                self._handle(head)
        except BodyTooBig as refusal:
            self._refuse(refusal.head, self._too_big(refusal.head))
        except HttpError as error:
            self._refuse(None, error_response(error))
        finally:
            self._is_processing = False
        if not self._holds & ENDING:
            self._await_input(count)

    def _await_input(self, handled_count: int) -> None:
        """Note what is being waited for; only a step forward moves the deadline."""
        reader = self._reader
        budget = self._server.budget
        if budget is not None and not budget.note(self, reader.pending_bytes):
            logger.warning("%s: closed, too much unfinished input in all", self._name)
            self.drop()
            return
        if self._holds:
            return
        if handled_count == TURN_REQUESTS or reader.has_more:
            self._holds |= TURN
            asyncio.get_running_loop().call_soon(self._take_turn)
            return
        stage = Stage.IDLE if reader.is_empty else Stage.BODY if reader.is_in_body else Stage.HEAD
        if handled_count or stage is not self._stage:
            self._stage = stage
            self._since_s = self._server.now_s
            if stage is Stage.BODY and reader.awaits_continue:
                self._transport.write(CONTINUE)
        if self._has_eof:
            self._close()
        else:
            self._resume_reading()

    def _take_turn(self) -> None:
        self._holds &= ~TURN
        self._process()

    def _handle(self, head: RequestHead) -> None:
        answer = self._call(head.target.handler, Request(head, self._reader.body, self._peer))
        if isinstance(answer, Response):
            self._send(head, answer)
        else:
            self._ask(head, answer)

    def _call(self, handler: Handler, request: Request) -> Response | Later | Awaitable[Response]:
        try:
            refusal = None if self._gate is None else self._gate(request)
            return handler(request) if refusal is None else refusal
        except HttpError as error:
            return error_response(error)
        except Exception:
            # One client's request must never take the daemon down.
            logger.exception("%s: %s failed", self._name, request.route_path)
            return INTERNAL_ERROR

    def _ask(self, head: RequestHead, answer: Later | Awaitable[Response]) -> None:
        """The answer will come; until then the client's next request waits."""
        self._holds |= ANSWER
        self._asked = head
        self._ask_count += 1
        number = self._ask_count
        if isinstance(answer, Later):
            answer.hand_to(lambda response: self._answered(number, response))
        else:
            self._spawn(self._run(number, head, answer), head)

    async def _run(self, number: int, head: RequestHead, answer: Awaitable[Response]) -> None:
        try:
            response = await answer
        except HttpError as error:
            response = error_response(error)
        except Exception:
            logger.exception("%s: %s failed", self._name, head.target.route.path)
            response = INTERNAL_ERROR
        self._answered(number, response)

    def _spawn(self, work: Coroutine[Any, Any, None], head: RequestHead) -> asyncio.Task[None] | None:
        try:
            return self._server.tasks.spawn(work, f"{self._name} {head.target.route.path}")
        except RuntimeError:  # the daemon is going
            self.drop()
            return None

    def _answered(self, number: int, response: Response) -> None:
        head = self._asked
        if head is None or number != self._ask_count or self._transport.is_closing():
            response.discard()
            return
        self._asked = None
        self._holds &= ~ANSWER
        self._since_s = self._server.now_s
        self._send(head, response)
        if not (self._is_reading and self._stage is Stage.IDLE and self._reader.is_empty) or self._has_eof:
            self._process()

    def _too_big(self, head: RequestHead) -> Response:
        answer = self._call(lambda _: head.target.too_big, Request(head, b"", self._peer))
        return answer if isinstance(answer, Response) else head.target.too_big

    # Answers --------------------------------------------------------------------------------------------

    def _send(self, head: RequestHead, response: Response) -> None:
        if self._is_debug:
            path = head.target.path[:SHOWN_PATH_LENGTH]
            logger.debug("%s: %d %s %s", self._name, response.status, head.method, path)
        try:
            if type(response) is Response and head.keeps_alive and not self._server.is_closing:
                self._transport.write(self._encoder.encode(response, head))
            else:
                self._send_special(head, response)
        except ValueError:
            logger.exception("%s: the answer of %s cannot be sent", self._name, head.target.route.path)
            response.discard()
            self._refuse(head, INTERNAL_ERROR)

    def _send_special(self, head: RequestHead, response: Response) -> None:
        """An answer that ends the connection, takes more than one write, or both."""
        keeps_alive = head.keeps_alive and not self._server.is_closing
        start = self._encoder.encode_head(response, head, keeps_alive=keeps_alive)
        if head.method == "HEAD":
            self._transport.write(start)
            response.discard()
        elif isinstance(response, FileResponse):
            self._transport.write(start)
            self._start_sending(response, keeps_alive)
            return
        else:
            self._transport.write(start + response.body)
        if not keeps_alive:
            self._end()

    def _start_sending(self, response: FileResponse, keeps_alive: bool) -> None:
        self._holds |= SENDING
        self._sender = FileSender(
            self._transport, response, lambda is_complete: self._sent(is_complete, keeps_alive)
        )
        self._sender.start()

    def _sent(self, is_complete: bool, keeps_alive: bool) -> None:
        self._sender = None
        self._holds &= ~SENDING
        self._since_s = self._server.now_s
        if not is_complete:
            self.drop()
        elif not keeps_alive:
            self._end()
        else:
            self._process()

    def _refuse(self, head: RequestHead | None, response: Response) -> None:
        """Answer what is not read to its end; the connection cannot be used any more."""
        logger.info("%s: refused, closed status=%d", self._name, response.status)
        start = self._encoder.encode_head(response, head, keeps_alive=False)
        has_body = head is None or head.method != "HEAD"
        self._transport.write(start + response.body if has_body else start)
        self._end()

    # Reading --------------------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if self._is_reading and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._is_reading and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    # Time -----------------------------------------------------------------------------------------------

    def check(self, now_s: float) -> None:
        """End whatever takes too long; the server asks once per sweep."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if self._is_unread_for_long(unsent_bytes, now_s):
            logger.info("%s: closed, does not read its answers", self._name)
            self.drop()
            return
        if self._holds & (UNREAD | SENDING) or (unsent_bytes and self._asked is None):
            self._since_s = now_s
            return
        waited_s = now_s - self._since_s
        if self._holds & ENDING:
            if waited_s > LINGER_S:
                self.drop()
        elif self._asked is not None:
            if waited_s > self._asked.target.route.deadline_s:
                self._time_out(self._asked)
        elif self._stage is Stage.IDLE:
            if waited_s > self._limits.idle_s:
                self._close()
        elif waited_s > (self._limits.header_s if self._stage is Stage.HEAD else self._limits.body_s):
            self._refuse(None, REQUEST_TIMEOUT)

    def _is_unread_for_long(self, unsent_bytes: int, now_s: float) -> bool:
        sender = self._sender
        mark = (unsent_bytes, sender.sent_bytes if sender is not None else 0)
        is_waiting = unsent_bytes > 0 or sender is not None
        if mark != self._unread_mark or not is_waiting:
            self._unread_mark, self._unread_since_s = mark, now_s
        return now_s - self._unread_since_s > self._limits.unread_s

    def _time_out(self, head: RequestHead) -> None:
        logger.warning("%s: %s exceeded its deadline", self._name, head.target.route.path)
        self._answered(self._ask_count, TIMEOUT)

    # Endings --------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Close once the request at hand is answered."""
        if not self._holds & ~UNREAD and self._reader.is_empty:
            self._close()

    def _end(self) -> None:
        """Say no more, and give the client time to read: closing on unread input might reset it all."""
        self._holds |= ENDING
        self._since_s = self._server.now_s
        if self._transport.is_closing():
            return
        if self._has_eof or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._resume_reading()

    def _close(self) -> None:
        """Close once what was sent is written."""
        self._holds |= ENDING
        self._transport.close()

    def drop(self) -> None:
        """Close at once."""
        self._holds |= ENDING
        self._transport.abort()


def _peer_of(transport: asyncio.BaseTransport) -> Peer:
    address = transport.get_extra_info("peername")
    layer = transport.get_extra_info("tls_layer")
    ip = address_host(address)
    return Peer(
        ip=ip,
        address=address_text(address),
        is_tls=layer is not None,
        common_name="" if layer is None else layer.peer_common_name,
        is_loopback=not ip or ipaddress.ip_address(ip).is_loopback,
    )
