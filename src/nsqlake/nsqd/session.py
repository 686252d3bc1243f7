"""The state machine of one TCP client: commands in, answers out, topics and channels in between.

`handle` does what can be done at once and returns None. What has to wait for the disk or for the auth
server comes back as a coroutine; the connection runs it before it reads the next command.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from nsqlake.nsqd.answers import Answers
from nsqlake.nsqd.authorisation import Authorisation
from nsqlake.nsqd.broker import CreationError
from nsqlake.nsqd.core.channel import Outcome
from nsqlake.nsqd.core.delivery import Frames
from nsqlake.nsqd.core.subscription import Locality, Subscription
from nsqlake.nsqd.core.watching import SAMPLED
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.server import Server
from nsqlake.topiclog.errors import AppendError, LogClosedError
from nsqlake.wire.command_reader import FIN_LINE_BYTES, Body, FinishRun, Item, Line, Messages
from nsqlake.wire.commands import (
    ClientState,
    invalid_command,
    parse_auth,
    parse_dpub,
    parse_message_id,
    parse_mpub_topic,
    parse_pub_topic,
    parse_rdy,
    parse_req,
    parse_sub,
    wrong_state,
)
from nsqlake.wire.errors import ClientError, printable
from nsqlake.wire.frames import CLOSE_WAIT_FRAME, OK_FRAME, FrameType, encode_frame
from nsqlake.wire.identify import ClientSettings, negotiate
from nsqlake.wire.identify_request import decode_identify

__all__ = ["Session", "SessionPort"]

logger = logging.getLogger(__name__)

_MS = 1_000_000
_INT32 = struct.Struct(">i")
_FINISHES_PER_TURN = 500  # of those that have to be looked at one by one
Pending = Coroutine[Any, Any, None] | None


class SessionPort(Protocol):
    """What a session needs of its connection."""

    remote_address: str
    remote_ip: str

    @property
    def common_name(self) -> str: ...
    def send(self, data: bytes) -> None: ...
    async def start_tls(self) -> None: ...
    def start_snappy(self) -> None: ...
    def start_deflate(self, level: int) -> None: ...
    def settings_changed(self) -> None: ...
    def flush_if_unready(self) -> None: ...
    def deliver(self, frames: Frames) -> None: ...
    def flush(self) -> None: ...
    def drop(self) -> None: ...


class Session:
    """One client from its first command on."""

    def __init__(self, port: SessionPort, server: Server) -> None:
        self.port, self.server = port, server
        self.state = ClientState.INIT
        self.settings = ClientSettings(
            client_id=port.remote_ip,
            hostname=port.remote_ip,
            msg_timeout_ms=server.options.msg_timeout_ns // _MS,
            output_buffer_timeout_ms=server.options.output_buffer_timeout_ns // _MS,
        )
        self.answers = Answers(port.send)
        self.authorisation = Authorisation(server.auth)
        self.subscription: Subscription | None = None
        self.channel: LiveChannel | None = None
        self.is_tls = False
        self.has_identified = False
        self.is_closed = False
        self.publish_counts: dict[str, int] = {}
        self._targets: dict[bytes, tuple[str, int]] = {}
        self._is_tls_demanded = server.is_tls_demanded
        self._is_open = server.auth is None
        self._last_topic: LiveTopic | None = None  # of a PUB on an open daemon, and the line it had
        self._last_line = b""
        self._max_msg_size = server.options.max_msg_size
        self._topics = server.broker.topics

    def __str__(self) -> str:
        return f"CLIENT({self.port.remote_address})"

    def handle(self, item: Item) -> Pending:
        """Raises ClientError for what the client did wrong."""
        if isinstance(item, Messages):
            return self._publish(item)
        if isinstance(item, FinishRun):
            return self._finish(item.lines)
        if isinstance(item, Line):
            return self._line(item)
        return self._identify(item) if item.name == b"IDENTIFY" else self._auth(item)

    def _line(self, line: Line) -> Pending:
        if self._is_tls_demanded and not self.is_tls and line.name != b"IDENTIFY":
            raise wrong_state(line.name, tls_required=True)
        handler = _LINES.get(line.name)
        if handler is None:
            raise invalid_command(line.name)
        return handler(self, line.params)

    def _require(self, name: bytes, *states: ClientState) -> None:
        if self.state not in states:
            raise wrong_state(name)

    # IDENTIFY and AUTH --------------------------------------------------------------------------------

    def _identify_line(self, _params: list[bytes]) -> Pending:
        self._require(b"IDENTIFY", ClientState.INIT)
        return None

    async def _identify(self, body: Body) -> None:
        await self.wait_answered()
        request = decode_identify(body.data)
        before = self.settings
        self.settings, response = negotiate(request, self.server.limits, before)
        self.has_identified = True
        self.port.send(encode_frame(FrameType.RESPONSE, response))
        logger.debug("%s = %s", self, self.settings)
        if self.settings.tls and not before.tls:
            await self.port.start_tls()
            self.is_tls = True
            self.port.send(OK_FRAME)
        if self.settings.snappy and not before.snappy:
            self.port.start_snappy()
            self.port.send(OK_FRAME)
        elif self.settings.deflate and not before.deflate:
            self.port.start_deflate(self.settings.deflate_level)
            self.port.send(OK_FRAME)
        self.port.settings_changed()

    def _auth_line(self, params: list[bytes]) -> Pending:
        self._require(b"AUTH", ClientState.INIT)
        parse_auth(params)
        return None

    async def _auth(self, body: Body) -> None:
        await self.wait_answered()
        answer = await self.authorisation.authenticate(body.data, self.port, is_tls=self.is_tls)
        self.port.send(encode_frame(FrameType.RESPONSE, answer))

    # SUB and what follows from it ---------------------------------------------------------------------

    def _sub(self, params: list[bytes]) -> Pending:
        self._require(b"SUB", ClientState.INIT)
        if not self.settings.heartbeat_interval_ms:
            raise ClientError("E_INVALID", "cannot SUB with heartbeats disabled")
        topic, channel = parse_sub(params)
        return self._subscribe(topic, channel)

    async def _subscribe(self, topic_name: str, channel_name: str) -> None:
        await self.authorisation.require("SUB", topic_name, channel_name, self.port, is_tls=self.is_tls)
        await self.wait_answered()
        try:
            topic = await self.server.broker.open_topic(topic_name)
            channel = await self.server.broker.open_channel(topic, channel_name)
        except CreationError as error:
            raise ClientError(error.code or "E_SUB_FAILED", f"SUB failed {error}") from error
        if self.is_closed:
            await self.server.broker.left_by_last(channel)
            return
        subscription = Subscription(
            self.port,
            msg_timeout_ns=self.settings.msg_timeout_ms * _MS,
            sample_rate=self.settings.sample_rate,
        )
        subscription.locality = self._locality()
        settings = self.settings
        subscription.is_buffered = settings.output_buffer_timeout_ms > 0 and not settings.is_unbuffered
        if not channel.core.subscribe(subscription):
            limit = channel.core.limits.max_consumers
            text = f"SUB failed consumers for {topic_name}:{channel_name} exceeds limit of {limit}"
            raise ClientError("E_SUB_FAILED", text)
        self.subscription, self.channel = subscription, channel
        self.state = ClientState.SUBSCRIBED
        self.port.send(OK_FRAME)

    def _locality(self) -> Locality:
        options = self.server.options
        if not self.has_identified:
            return Locality.ANYWHERE
        if self.settings.topology_zone == options.topology_zone:
            return Locality.ZONE
        is_near = self.settings.topology_region == options.topology_region
        return Locality.REGION if is_near else Locality.ANYWHERE

    def _rdy(self, params: list[bytes]) -> Pending:
        if self.state is ClientState.CLOSING:
            return None
        self._require(b"RDY", ClientState.SUBSCRIBED)
        count = parse_rdy(params, self.server.options.max_rdy_count)
        subscription, channel = self._held()
        channel.core.set_ready(subscription, count)
        self.port.flush_if_unready()
        self.server.turn.wake(channel)
        return None

    def _cls(self, _params: list[bytes]) -> Pending:
        self._require(b"CLS", ClientState.SUBSCRIBED)
        subscription, channel = self._held()
        subscription.is_closing = True
        channel.core.set_ready(subscription, 0)
        self.state = ClientState.CLOSING
        self.answers.append(CLOSE_WAIT_FRAME)
        return None

    def _held(self) -> tuple[Subscription, LiveChannel]:
        assert self.subscription is not None
        assert self.channel is not None
        return self.subscription, self.channel

    # FIN, REQ, TOUCH, NOP -----------------------------------------------------------------------------

    def _finish(self, lines: bytes) -> Pending:
        subscription, channel = self.subscription, self.channel
        if subscription is None or channel is None:
            raise wrong_state(b"FIN", tls_required=self._is_tls_demanded and not self.is_tls)
        turn = self.server.turn
        deadline_ns = subscription.runs[0][0] if subscription.runs else 0
        if not channel.core.finish_run(subscription, lines):
            if len(lines) > _FINISHES_PER_TURN * FIN_LINE_BYTES:
                return self._finish_in_turns(lines)
            self._finish_each(lines)
        elif len(lines) == FIN_LINE_BYTES:
            now_ns = self.server.clock.now_ns()
            if deadline_ns and not subscription.finish_count % SAMPLED:
                self._note_finish(now_ns, deadline_ns, SAMPLED)
            frame = channel.core.refill(subscription, now_ns)
            if frame is not None:
                self.port.deliver([frame])
                turn.progressed(channel)
                return None
        elif deadline_ns:
            self._note_finish(self.server.clock.now_ns(), deadline_ns, len(lines) // FIN_LINE_BYTES)
        self._progressed(channel)
        return None

    def _note_finish(self, now_ns: int, deadline_ns: int, count: int) -> None:
        """The oldest run that was out stands for all; its deadline tells when it was sent."""
        sent_ns = deadline_ns - self.settings.msg_timeout_ms * _MS
        self.server.broker.timings.finish.observe(now_ns - sent_ns, count)

    async def _finish_in_turns(self, lines: bytes) -> None:
        """A flood of wrong FINs must not stall the others."""
        step = _FINISHES_PER_TURN * FIN_LINE_BYTES
        for start in range(0, len(lines), step):
            if self.is_closed:
                return
            self._finish_each(lines[start : start + step])
            await asyncio.sleep(0)

    def _finish_each(self, lines: bytes) -> None:
        """Line by line, as they stand: an id may be wrong or even hold a space or a newline."""
        for line in lines.removesuffix(b"\n").split(b"\n"):
            name, *params = line.removesuffix(b"\r").split(b" ")
            self._line(Line(name, params))

    def _fin(self, params: list[bytes]) -> Pending:
        self._require(b"FIN", ClientState.SUBSCRIBED, ClientState.CLOSING)
        message_id = parse_message_id("FIN", params)
        subscription, channel = self._held()
        self._refuse(b"FIN", message_id, channel.core.finish(subscription, message_id))
        self._progressed(channel)
        return None

    def _req(self, params: list[bytes]) -> Pending:
        self._require(b"REQ", ClientState.SUBSCRIBED, ClientState.CLOSING)
        message_id, delay_ms = parse_req(params, self.server.options.max_req_timeout_ns // _MS)
        subscription, channel = self._held()
        outcome = channel.core.requeue(subscription, message_id, delay_ms * _MS, self.server.clock.now_ns())
        self._refuse(b"REQ", message_id, outcome)
        self._progressed(channel)
        return None

    def _touch(self, params: list[bytes]) -> Pending:
        self._require(b"TOUCH", ClientState.SUBSCRIBED, ClientState.CLOSING)
        message_id = parse_message_id("TOUCH", params)
        subscription, channel = self._held()
        outcome = channel.core.touch(subscription, message_id, self.server.clock.now_ns())
        self._refuse(b"TOUCH", message_id, outcome)
        self.server.turn.note(channel)
        return None

    def _refuse(self, name: bytes, message_id: bytes, outcome: Outcome) -> None:
        if outcome is Outcome.DONE:
            return
        command = name.decode()
        text = f"{command} {printable(message_id)} failed {outcome.value}"
        error = ClientError(f"E_{command}_FAILED", text, fatal=False)
        self.answers.append(encode_frame(FrameType.ERROR, error.payload))

    def _progressed(self, channel: LiveChannel) -> None:
        if channel.core.can_deliver:
            self.server.turn.wake(channel)
        else:
            self.server.turn.progressed(channel)

    def _nop(self, _params: list[bytes]) -> Pending:
        return None

    # Publishing ---------------------------------------------------------------------------------------

    def _pub_line(self, params: list[bytes]) -> Pending:
        self._targets[b"PUB"] = (parse_pub_topic(params), 0)
        return None

    def _dpub_line(self, params: list[bytes]) -> Pending:
        self._targets[b"DPUB"] = parse_dpub(params, self.server.options.max_req_timeout_ns // _MS)
        return None

    def _mpub_line(self, params: list[bytes]) -> Pending:
        topic = parse_mpub_topic(params)
        self._targets[b"MPUB"] = (topic, 0)
        if topic in self.server.broker.topics and self.authorisation.is_allowed("MPUB", topic, ""):
            return None
        return self._prepare_mpub(topic)

    async def _prepare_mpub(self, topic: str) -> None:
        await self.authorisation.require("MPUB", topic, "", self.port, is_tls=self.is_tls)
        try:
            await self.server.broker.open_topic(topic)
        except CreationError:
            # The body has to be read before the publish can be refused and the connection go on.
            return

    def _publish(self, messages: Messages) -> Pending:
        name = messages.name
        topic_name, _ = self._targets[name]
        topic = self._topics.get(topic_name)
        if topic is None or not (
            self._is_open or self.authorisation.is_allowed(name.decode(), topic_name, "")
        ):
            return self._publish_later(messages)
        self._publish_to(topic, messages)
        if name == b"PUB" and self._is_open and topic is not self._last_topic:
            self._last_topic, self._last_line = topic, b"PUB %b\n" % topic_name.encode()
        return None

    async def _publish_later(self, messages: Messages) -> None:
        name = messages.name
        topic_name, _ = self._targets[name]
        await self.authorisation.require(name.decode(), topic_name, "", self.port, is_tls=self.is_tls)
        try:
            topic = await self.server.broker.open_topic(topic_name)
        except CreationError as error:
            self.answers.expect(name, messages.commands).fail(error.reason, error.code)
            return
        self._publish_to(topic, messages)

    def publish_whole(self, data: bytes) -> bool:
        """Publish what is exactly one PUB with the last one's line. False: nothing was done, go the long way.

        For the lone publisher that waits for every OK: all checks in one place.
        """
        topic, line = self._last_topic, self._last_line
        if topic is None or not data.startswith(line):
            return False
        begin = len(line)
        size = len(data) - begin - 4
        turn = self.server.turn
        if (
            not 0 < size <= self._max_msg_size
            or data[begin : begin + 4] != _INT32.pack(size)
            or topic.core.is_closed
            or self.server.broker.refusal
        ):
            return False
        if topic.is_crowd_with(self):
            if not topic.gathering.blocks:
                turn.gather(topic)
            topic.gathering.add_one(data[begin:], self.answers.expect_one())
            self.publish_counts[topic.name] += 1
            return True
        if topic.gathering.blocks or self.answers.queue or turn.acks_after_sync:
            return False
        try:
            turn.publish_one(topic, data[begin:])
        except (AppendError, LogClosedError) as error:
            self.answers.expect(b"PUB", 1).fail(str(error))
            return True
        self.publish_counts[topic.name] += 1
        self.port.send(OK_FRAME)
        return True

    def _publish_to(self, topic: LiveTopic, messages: Messages) -> None:
        turn = self.server.turn
        counts = self.publish_counts
        counts[topic.name] = counts.get(topic.name, 0) + messages.count
        if topic.core.is_closed or self.server.broker.refusal:
            reason = self.server.broker.refusal or "exiting"
            self.answers.expect(messages.name, messages.commands).fail(reason)
        elif messages.name == b"PUB" and topic.is_crowd_with(self):
            topic.gathering.add(messages, self.answers.expect(b"PUB", messages.commands))
            turn.gather(topic)
        else:
            self._publish_at_once(topic, messages)

    def _publish_at_once(self, topic: LiveTopic, messages: Messages) -> None:
        """A block of its own: an MPUB or DPUB, or a PUB while nobody else publishes."""
        turn = self.server.turn
        delay_ms = self._targets[messages.name][1]
        due_ns = self.server.clock.now_ns() + delay_ms * _MS if delay_ms else 0
        try:
            turn.publish(topic, messages, due_ns)
        except (AppendError, LogClosedError) as error:
            self.answers.expect(messages.name, messages.commands).fail(str(error))
            return
        if self.answers or turn.acks_after_sync:
            turn.acknowledge(topic, [self.answers.expect(messages.name, messages.commands)])
        else:
            self.port.send(OK_FRAME if messages.commands == 1 else OK_FRAME * messages.commands)

    async def wait_answered(self) -> None:
        """Until every publish so far has its answer, so that answers stay in order."""
        if self.answers:
            emptied = asyncio.Event()
            self.answers.on_empty = emptied.set
            await emptied.wait()

    # The connection's events --------------------------------------------------------------------------

    def writable(self, is_writable: bool) -> None:
        """The client keeps up with what it is sent, or no longer does."""
        if self.subscription is None or self.channel is None:
            return
        self.subscription.is_writable = is_writable
        if is_writable:
            self.channel.core.offer(self.subscription)
            self.server.turn.wake(self.channel)

    def close(self) -> LiveChannel | None:
        """The client is gone: what it held is for others. Returns the channel it leaves."""
        self.is_closed = True
        subscription, channel = self.subscription, self.channel
        self.subscription = self.channel = None
        if subscription is None or channel is None:
            return None
        channel.core.unsubscribe(subscription)
        self.server.turn.wake(channel)
        self.server.turn.note(channel)
        return channel


_LINES: dict[bytes, Callable[[Session, list[bytes]], Pending]] = {
    b"IDENTIFY": Session._identify_line,
    b"AUTH": Session._auth_line,
    b"SUB": Session._sub,
    b"RDY": Session._rdy,
    b"CLS": Session._cls,
    b"FIN": Session._fin,
    b"REQ": Session._req,
    b"TOUCH": Session._touch,
    b"NOP": Session._nop,
    b"PUB": Session._pub_line,
    b"DPUB": Session._dpub_line,
    b"MPUB": Session._mpub_line,
}
