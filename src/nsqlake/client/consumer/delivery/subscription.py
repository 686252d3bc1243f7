"""One subscribed connection: messages out of frames, answers into commands, CLS and the end."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from nsqlake.client.connection import Connection
from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.rate.flow import Window
from nsqlake.client.consumer.rate.rdy_control import RdyControl
from nsqlake.client.errors import ConnectionLostError, NsqClientError, ServerError
from nsqlake.client.message import Delay, Message
from nsqlake.wire import commands
from nsqlake.wire.frames import CLOSE_WAIT
from nsqlake.wire.received_message import MESSAGE_HEADER

if TYPE_CHECKING:
    from nsqlake.client.consumer.delivery.answers import Answers
    from nsqlake.client.consumer.delivery.deadlines import Deadlines

logger = logging.getLogger(__name__)

REMEMBERED_BYTES: Final = 4 * 1024 * 1024  # of answered messages, to know which one an error is about
MESSAGE_OVERHEAD_BYTES: Final = 256
# nsqd may send a little more than RDY, as messages time out there before they do here; but not so many.
FLOOD_FACTOR: Final = 4
FLOOD_MESSAGES: Final = 1000
LATE_CODES: Final = frozenset({"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"})

_ANSWERED_ID: Final = re.compile(r"(?:FIN|REQ|TOUCH) (\S{16}) failed")
_HEADER_BYTES: Final = MESSAGE_HEADER.size
_unpack_header = MESSAGE_HEADER.unpack_from


class Intake(Protocol):
    """Where messages go that have arrived."""

    def add(self, messages: list[Message]) -> None: ...


class Subscription:
    """Listens to one connection; `in_flight` are the messages that nsqd counts as ours.

    Ids go back as they came: an nsqd that puts commands into them sends these to itself.
    """

    def __init__(
        self,
        address: str,
        context: Context,
        *,
        control: RdyControl,
        answers: Answers,
        deadlines: Deadlines,
        intake: Intake,
        on_lost: Callable[[Subscription, NsqClientError | None], None],
    ) -> None:
        self.address = address
        self.topic, self.channel = context.topic, context.channel
        self._context, self._control, self._answers = context, control, answers
        self._deadlines, self._intake, self._on_lost = deadlines, intake, on_lost
        self._loop = asyncio.get_running_loop()
        self.connection: Connection | None = None
        self.in_flight: set[Message] = set()
        self.overdue: set[Message] = set()  # nsqd gave up on them, their holders did not
        self.window = Window(self.in_flight, 1)
        self.msg_timeout_s = self.max_msg_timeout_s = 0.0
        self.received = 0
        self._most = FLOOD_MESSAGES
        self.is_closing = self.is_lost = False
        self.ended = asyncio.Event()
        self._is_drained = self._has_close_wait = False
        self._finished: list[Message] = []  # of this turn of the loop
        self._remembered: deque[tuple[list[Message], int]] = deque()
        self._remembered_bytes = 0
        self._closing: asyncio.Task[None] | None = None

    def open(self, connection: Connection, *, is_one_of_many: bool = False) -> None:
        """`connection` is subscribed: nsqd may deliver."""
        self._use(connection)
        max_rdy = connection.server.max_rdy_count
        if max_rdy < self._control.max_in_flight:
            logger.warning("NSQD(%s): max_rdy_count=%s limits max_in_flight", self.address, max_rdy)
        self.window = Window(self.in_flight, max_rdy, is_new=is_one_of_many)
        self._control.join(self)

    def _use(self, connection: Connection) -> None:
        self.connection = connection
        self.msg_timeout_s = connection.server.msg_timeout_s
        self.max_msg_timeout_s = connection.server.max_msg_timeout_s

    # From nsqd ----------------------------------------------------------------------------------------

    def messages_received(self, connection: Connection, payloads: list[bytes]) -> None:
        if self.connection is None:  # nsqd was faster than `open`
            self._use(connection)
        now_s = self._context.timers.now_s()
        deadline_s = now_s + self.msg_timeout_s
        messages = [
            Message(self, *_unpack_header(payload), payload[_HEADER_BYTES:], now_s, deadline_s)  # type: ignore[call-arg]
            for payload in payloads
        ]
        self.in_flight.update(messages)
        if len(self.in_flight) > self._most:
            self._refuse_flood()
        self.received += len(messages)
        self._context.counters.received += len(messages)
        self.window.last_message_s = now_s
        if self.window.is_new:
            self._control.first_message(self)
        self._deadlines.watch(self, deadline_s)
        if self._context.hooks.on_message is not None:
            for message in messages:
                self._context.tell(self._context.hooks.on_message, message)
        self._intake.add(messages)

    def responses_received(self, connection: Connection, payloads: list[bytes]) -> None:
        for payload in payloads:
            if payload == CLOSE_WAIT and self.is_closing:
                self._has_close_wait = True
                self.close_if_drained()
            else:
                logger.warning("NSQD(%s): unexpected response %.64r", self.address, payload)

    def error_received(self, connection: Connection, error: ServerError) -> None:
        if error.code in LATE_CODES:
            self._answered_late(error)
        else:
            logger.error("NSQD(%s): %s %s", self.address, error.code, error.text, extra=self._log_fields)
        self._context.tell(self._context.hooks.on_error, error)

    def heartbeat_received(self, connection: Connection) -> None:
        self._context.counters.heartbeats += 1
        self._context.tell(self._context.hooks.on_heartbeat, self.address)

    def connection_lost(self, connection: Connection, error: NsqClientError | None) -> None:
        self.is_lost = True
        self._context.counters.disconnects += 1
        for held in (self.in_flight, self.overdue, self._finished, self._remembered):
            held.clear()
        self._control.leave(self)
        self.ended.set()
        self._on_lost(self, error)

    def _answered_late(self, error: ServerError) -> None:
        logger.warning("NSQD(%s): late answer: %s", self.address, error.text, extra=self._log_fields)
        self._answers.came_late(self, self._find(error.text))

    def _find(self, text: str) -> Message | None:
        found = _ANSWERED_ID.search(text)
        if found is None:
            return None
        wanted = found[1].encode()
        held = (self.in_flight, self.overdue, self._finished, *(batch for batch, _ in self._remembered))
        return next((message for group in held for message in group if message.id == wanted), None)

    def _refuse_flood(self) -> None:
        if self.connection is not None and not self.is_lost:
            reason = f"sent {len(self.in_flight)} messages, far more than RDY allows"
            self.connection.abort(ConnectionLostError(self.address, reason))

    # To nsqd ------------------------------------------------------------------------------------------

    def send_rdy(self, count: int) -> None:
        logger.debug("NSQD(%s) > RDY %s", self.address, count)
        self._most = max(self._most, FLOOD_FACTOR * count)
        self.send(b"RDY %d\n" % count)

    def send(self, command: bytes) -> None:
        """After the FINs that were decided before."""
        if self._finished:
            self._flush()
        if self.connection is not None:
            self.connection.write(command)

    def send_fin(self, message: Message) -> None:
        """With all others of this turn."""
        if not self._finished:
            self._loop.call_soon(self._flush)
        self._finished.append(message)
        if self.is_closing:
            self.close_if_drained()

    def send_answer(self, message: Message, command: bytes) -> None:
        self.send(command)
        self._remember([message])
        if self.is_closing:
            self.close_if_drained()

    def _flush(self) -> None:
        finished = self._finished
        if finished and self.connection is not None:
            self._finished = []
            self.connection.write(b"FIN %b\n" % b"\nFIN ".join([message.id for message in finished]))
            self._remember(finished)

    def _remember(self, messages: list[Message]) -> None:
        size = sum([len(message.body) for message in messages]) + MESSAGE_OVERHEAD_BYTES * len(messages)
        self._remembered.append((messages, size))
        self._remembered_bytes += size
        while self._remembered_bytes > REMEMBERED_BYTES:
            self._remembered_bytes -= self._remembered.popleft()[1]

    # The end ------------------------------------------------------------------------------------------

    def begin_close(self) -> None:
        """Ask nsqd for no more; the connection closes when nothing is in flight."""
        if self.is_closing or self.is_lost:
            return
        self._control.leave(self)
        self.is_closing = True
        self.send(commands.cls())

    def close_if_drained(self) -> None:
        """Once nsqd has confirmed CLS no message is on its way any more."""
        if self.is_closing and self._has_close_wait and not self._is_drained:
            self._answers.when_all_are_sent(self, self._close_drained)

    def _close_drained(self) -> None:
        if not self.in_flight and not self._is_drained:
            self._is_drained = True
            self.close_now()

    def close_now(self) -> None:
        """Send what was decided, and close."""
        self._flush()
        if self.connection is not None and self._closing is None and not self.is_lost:
            self._closing = self._loop.create_task(self.connection.close())

    # For messages -------------------------------------------------------------------------------------

    def finish(self, message: Message) -> bool:
        return self._answers.finish(message)

    def requeue(self, message: Message, delay: Delay, *, backoff: bool) -> bool:
        return self._answers.requeue(message, delay, backoff=backoff)

    def put_back(self, message: Message) -> bool:
        return self._answers.put_back(message)

    def touch(self, message: Message) -> bool:
        return self._answers.touch(message)

    def keep_alive(self, message: Message) -> None:
        self._deadlines.keep_alive(message)

    def let_expire(self, message: Message) -> None:
        self._deadlines.let_expire(message)

    @property
    def _log_fields(self) -> dict[str, str]:
        return self._context.log_fields(self.address)
