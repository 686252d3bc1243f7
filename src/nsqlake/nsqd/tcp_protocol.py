"""One TCP (or unix socket) connection: bytes, layers, deadlines. What they mean is the session's business.

Input goes through the layers that were negotiated: TLS, then snappy or deflate, then the command reader.
Output goes the other way. Without layers, the common case, both are one call.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from time import monotonic_ns
from typing import Any, cast

from nsqlake.nsqd.core.delivery import Frames
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.layers import Layers
from nsqlake.nsqd.server import Server
from nsqlake.nsqd.session import Session
from nsqlake.runtime.addresses import address_host, address_text
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.wire.command_reader import CommandReader, Item
from nsqlake.wire.commands import MAGIC_V2
from nsqlake.wire.errors import ClientError, StreamError
from nsqlake.wire.frames import HEARTBEAT_FRAME, FrameType, encode_frame

__all__ = ["TcpConnection"]

logger = logging.getLogger(__name__)

MAGIC_LIMIT_S = 5.0
TLS_LIMIT_S = 5.0
COMMAND_LIMIT_S = 60.0  # for the rest of a command, when heartbeats are off
READ_GRACE_S = 0.05  # so that the second heartbeat is out before the silence after it counts
LINGER_S = 1.0  # how long a refused client may go on sending before it is cut off
HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024
MAX_UNREAD_ANSWERS_BYTES = 1024 * 1024
PROCESS_TURN_NS = 5_000_000  # one client's commands in one turn of the loop: a flood stalls nobody else
LAYER_TURN_BYTES = 1024 * 1024  # decoded in one turn of the loop, so that a bomb stalls nobody


class TcpConnection(asyncio.Protocol):
    """A client's connection from accept to close."""

    def __init__(
        self,
        server: Server,
        connections: "set[TcpConnection]",
        budget: InputBudget,
        on_closed: Callable[[], None],
    ) -> None:
        self._server, self._connections, self._budget, self._on_closed = (
            server,
            connections,
            budget,
            on_closed,
        )
        self._loop = asyncio.get_running_loop()
        self._input_came = server.turn.input_came
        self.remote_address = ""
        self.remote_ip = ""
        self.connected_ns = server.clock.timestamp_ns()
        self.layers = Layers()
        self._handshake: asyncio.Future[None] | None = None
        self._magic = b""
        self._has_magic = False
        self._is_busy = False
        self._is_ending = False
        self._is_shut = False
        self._is_reading = True
        self._has_eof = False
        self._is_writable = True
        self._is_choked = False  # by answers it does not read: until then no more commands are handled
        self._holds_back = False
        self._held: Frames = []
        self._held_bytes = 0
        self._heartbeat: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._command_at = self._loop.time()

    # asyncio's events ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have asyncio's interface without being its subclasses.
        self._transport = transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.remote_address, self.remote_ip = address_text(peer), address_host(peer)
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        options = self._server.options
        self._reader = CommandReader(max_msg_size=options.max_msg_size, max_body_size=options.max_body_size)
        self.session = Session(self, self._server)
        self._connections.add(self)
        self._deadline = self._loop.call_later(MAGIC_LIMIT_S, self._magic_late)
        self._arm_heartbeat()
        logger.debug("%s: connected", self.session)

    def data_received(self, data: bytes) -> None:
        self._input_came()
        if self._is_ending:
            return
        if self.layers.are_none:
            subscription = self.session.subscription
            if subscription is not None and data == subscription.only_fin and self._swap(subscription):
                return
            is_between_commands = self._has_magic and not self._is_busy and self._reader.is_empty
            if is_between_commands and self.session.publish_whole(data):
                self._command_at = self._loop.time()
                return
            item = self._reader.take_whole(data) if self._has_magic and not self._is_busy else None
            if item is None:
                self._take(data)
            else:
                self._handle(item)
                self._command_at = self._loop.time()
            return
        try:
            self.layers.feed(data)
            if self._handshake is not None:
                self._shake_hands()
            self._pull()
        except StreamError as error:
            self._break_off(error)

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._is_shut:
            self._transport.close()
        elif self._handshake is not None or not self._has_magic:
            self.drop()
        elif not (self._is_busy or self._is_ending or self._is_choked):
            self._end_of_input()
        return True

    def pause_writing(self) -> None:
        self._is_writable = False
        self.session.writable(False)
        interval_s = self.session.settings.heartbeat_interval_ms / 1000 or COMMAND_LIMIT_S
        self._write_deadline = self._loop.call_later(interval_s, self._write_late)

    def resume_writing(self) -> None:
        self._is_writable = True
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
        self.session.writable(True)
        if self._is_choked:
            self._is_choked = False
            self._loop.call_soon(self._go_on)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ending = True
        self._connections.discard(self)
        for timer in (self._heartbeat, self._deadline, self._write_deadline):
            if timer is not None:
                timer.cancel()
        if self._handshake is not None and not self._handshake.done():
            self._handshake.cancel()
        self._budget.release(self)
        self._held.clear()
        self._leave_channel()
        logger.debug("%s: disconnected", self.session)
        self._on_closed()

    def _leave_channel(self) -> None:
        channel, broker = self.session.close(), self._server.broker
        if channel is not None and channel.core.is_ephemeral and not broker.is_exiting:
            self._server.tasks.spawn(broker.left_by_last(channel), f"leave {channel}")

    def _swap(self, subscription: Subscription) -> bool:
        """A lone FIN of the only message that is out, answered by the next message."""
        channel, turn = self.session.channel, self._server.turn
        # Amid a command these bytes may be anything, even a message that looks like a FIN.
        if channel is None or self._holds_back or self._is_busy or not self._reader.is_empty:
            return False
        frame = channel.core.swap(subscription, self._server.clock.now_ns())
        if frame is None:
            return False
        if channel.core.is_crowded:
            turn.post(self._transport, frame)
        else:
            self._transport.write(frame)
        self._command_at = self._loop.time()
        turn.progressed(channel)
        return True

    # Input --------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Plain bytes of the protocol."""
        if not self._has_magic:
            self._magic += data
            if len(self._magic) < len(MAGIC_V2):
                return
            data, self._magic = self._magic[len(MAGIC_V2) :], self._magic[: len(MAGIC_V2)]
            if self._magic != MAGIC_V2:
                self._end_with(encode_frame(FrameType.ERROR, b"E_BAD_PROTOCOL"))
                return
            self._has_magic = True
            self._arm_deadline()
        self._reader.feed(data)
        self._process()

    def _process(self) -> None:
        """Handle the commands at hand, until one has to wait."""
        reader = self._reader
        has_progressed = False
        started_ns = monotonic_ns()
        try:
            while not (self._is_busy or self._is_ending or self._is_choked):
                item = reader.next_item()
                if item is None:
                    break
                has_progressed = True
                self._handle(item)
                if monotonic_ns() - started_ns > PROCESS_TURN_NS and not (self._is_busy or self._is_ending):
                    self._wait_for(_next_turn())
        except ClientError as error:
            self._refuse(error)
        except StreamError as error:
            self._break_off(error)
        if has_progressed or not reader.is_amid_command:
            self._command_at = self._loop.time()
        if not self._budget.note(self, reader.pending_bytes):
            logger.warning("%s: closed, too much unfinished input in all", self.session)
            self.drop()

    def _handle(self, item: Item) -> None:
        try:
            pending = self.session.handle(item)
            if pending is not None:
                self._wait_for(pending)
        except ClientError as error:
            self._refuse(error)
        except Exception:
            # One client's command must never take the daemon down.
            logger.exception("%s: command failed", self.session)
            self.drop()

    def _wait_for(self, pending: Coroutine[Any, Any, None]) -> None:
        """Run what takes time; the client's next command is read after it."""
        self._is_busy = True
        self._pause_reading()
        self._server.tasks.spawn(self._run(pending), f"{self.session}")

    async def _run(self, pending: Coroutine[Any, Any, None]) -> None:
        try:
            await pending
        except ClientError as error:
            self._refuse(error)
        except StreamError as error:
            self._break_off(error)
        except Exception:
            logger.exception("%s: command failed", self.session)
            self.drop()
        finally:
            self._is_busy = False
            self._command_at = self._loop.time()
        self._go_on()

    def _go_on(self) -> None:
        """Take up reading and handling again after something had to wait."""
        if self._is_busy or self._is_ending:
            return
        self._resume_reading()
        self._process()
        if not self.layers.are_none:
            self._pull_safely()
        if self._has_eof and not (self._is_busy or self._is_ending or self._is_choked):
            self._end_of_input()

    @property
    def is_busy(self) -> bool:
        """Whether a command waits for something; the next one is read after it."""
        return self._is_busy

    def _pause_reading(self) -> None:
        if self._is_reading and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        may_read = not (self._is_busy or self._is_choked) or self._handshake is not None
        if may_read and not self._is_reading and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    def _end_of_input(self) -> None:
        """The client will send no more: answer what it sent, then close."""
        error = self._reader.end_of_input()
        if error is not None:
            self._refuse(error)
        elif self.session.answers:
            self.session.answers.on_empty = self.close
        else:
            self.close()

    # Layers -------------------------------------------------------------------------------------------

    def _pull_safely(self) -> None:
        try:
            self._pull()
        except StreamError as error:
            self._break_off(error)

    def _pull(self) -> None:
        """Decode and process what the layers hold, a bounded piece per turn of the loop."""
        budget = LAYER_TURN_BYTES
        while not (self._is_busy or self._is_ending or self._is_choked):
            if budget <= 0:
                self._pause_reading()
                self._loop.call_soon(self._pull_more)
                return
            data = self.layers.read()
            if not data:
                break
            budget -= len(data)
            self._take(data)
        if not self._is_ending:
            rest = self.layers.take_outgoing()
            if rest:
                self._transport.write(rest)
            if self.layers.has_peer_closed and not (self._is_busy or self._is_choked):
                self._end_of_input()

    def _pull_more(self) -> None:
        self._resume_reading()
        if not self._is_ending:
            self._pull_safely()

    async def start_tls(self) -> None:
        """Shake hands on this connection; ClientError, sent in the clear, if that fails."""
        assert self._server.tls is not None
        self._require_no_input()
        self.layers.start_tls(self._server.tls.current.new_layer())
        self._handshake = self._loop.create_future()
        self._resume_reading()
        try:
            async with asyncio.timeout(TLS_LIMIT_S):
                await self._handshake
        except TimeoutError:
            self.layers.give_up_tls()
            raise ClientError("E_IDENTIFY_FAILED", "IDENTIFY failed TLS handshake timed out") from None
        except StreamError as error:
            self.layers.give_up_tls()
            raise ClientError("E_IDENTIFY_FAILED", f"IDENTIFY failed {error}") from error
        finally:
            self._handshake = None
        self._pause_reading()

    def _shake_hands(self) -> None:
        assert self.layers.tls is not None
        assert self._handshake is not None
        try:
            is_done = self.layers.tls.handshake()
        except StreamError as error:
            self._transport.write(self.layers.take_outgoing())
            if not self._handshake.done():
                self._handshake.set_exception(error)
            return
        self._transport.write(self.layers.take_outgoing())
        if is_done and not self._handshake.done():
            self._handshake.set_result(None)

    def _require_no_input(self) -> None:
        # Whoever can put plain bytes before the new layer must not have them taken for what came through it.
        if self._reader.pending_bytes:
            raise StreamError("bytes behind an IDENTIFY that changes the layers")

    def start_snappy(self) -> None:
        self._require_no_input()
        self.layers.start_snappy()

    def start_deflate(self, level: int) -> None:
        self._require_no_input()
        self.layers.start_deflate(level)

    @property
    def common_name(self) -> str:
        """Of the client's certificate, "" without one."""
        return self.layers.common_name

    # Output -------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """An answer, an error or a heartbeat: goes out at once, behind messages that were held back."""
        if self._is_shut or self._transport.is_closing():
            return
        if self._held:
            data = b"".join([*self._take_held(), data])
        if self.layers.are_none:
            self._transport.write(data)
        else:
            self._write(data)
        if not self._is_writable and self._transport.get_write_buffer_size() > MAX_UNREAD_ANSWERS_BYTES:
            self._is_choked = True
            self._pause_reading()

    def deliver(self, frames: Frames) -> None:
        """Messages; without a timed flush they wait until the buffer is full or the client has to act."""
        if self._transport.is_closing():
            return
        if self._holds_back:
            self._hold(frames)
            return
        if self.layers.are_none:
            if len(frames) == 1:
                self._transport.write(frames[0])
            else:
                self._transport.writelines(frames)
        else:
            self._write(b"".join(frames))

    def _hold(self, frames: Frames) -> None:
        self._held.extend(frames)
        self._held_bytes += sum(map(len, frames))
        if self._held_bytes >= self.session.settings.output_buffer_size:
            self.flush()
        else:
            self.flush_if_unready()

    def flush_if_unready(self) -> None:
        """A client that may get no more messages has to have those it got."""
        subscription = self.session.subscription
        if subscription is None or subscription.room <= 0:
            self.flush()

    def flush(self) -> None:
        if self._held and not self._transport.is_closing():
            self._write(b"".join(self._take_held()))

    def _take_held(self) -> Frames:
        frames, self._held, self._held_bytes = self._held, [], 0
        return frames

    def _write(self, data: bytes) -> None:
        try:
            data = self.layers.encode(data)
        except StreamError as error:
            self._break_off(error)
            return
        self._transport.write(data)

    # Time ---------------------------------------------------------------------------------------------

    def settings_changed(self) -> None:
        settings = self.session.settings
        self._holds_back = settings.output_buffer_timeout_ms == 0 and not settings.is_unbuffered
        self._command_at = self._loop.time()
        self._arm_heartbeat()
        self._arm_deadline()

    @property
    def _interval_s(self) -> float:
        return self.session.settings.heartbeat_interval_ms / 1000

    def _arm_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        interval_s = self._interval_s
        self._beat_at = self._loop.time() + interval_s
        self._heartbeat = self._loop.call_at(self._beat_at, self._beat) if interval_s else None

    def send_heartbeat(self) -> None:
        if self._has_magic and self._is_writable and self._handshake is None and not self._is_ending:
            self.send(HEARTBEAT_FRAME)

    def _beat(self) -> None:
        self.send_heartbeat()
        self._beat_at = max(self._beat_at, self._loop.time() - self._interval_s) + self._interval_s
        self._heartbeat = self._loop.call_at(self._beat_at, self._beat)

    def _arm_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_at(self._command_at + self._read_limit_s, self._read_late)

    @property
    def _read_limit_s(self) -> float:
        interval_s = self._interval_s
        return 2 * interval_s + READ_GRACE_S if interval_s else COMMAND_LIMIT_S

    def _read_late(self) -> None:
        """The deadline moves with every command; it is looked at again only when the old one has passed."""
        self._deadline = None
        if self._is_ending:
            self.drop()
            return
        is_waiting = bool(self._interval_s) or self._reader.is_amid_command
        if self._is_busy or not is_waiting:
            self._command_at = self._loop.time()
        if self._command_at + self._read_limit_s > self._loop.time() + 0.001:
            self._arm_deadline()
            return
        error = self._reader.end_of_input()
        if error is None:
            self.drop()
        else:
            self._refuse(error)

    def _magic_late(self) -> None:
        self.drop()

    def _write_late(self) -> None:
        logger.warning("%s: closed, does not read what it is sent", self.session)
        self.drop()

    # Endings ------------------------------------------------------------------------------------------

    def _refuse(self, error: ClientError) -> None:
        logger.log(logging.WARNING if error.fatal else logging.DEBUG, "%s: %s", self.session, error)
        if not error.fatal:
            self.send(encode_frame(FrameType.ERROR, error.payload))
        elif self.session.answers:
            self._is_ending = True
            frame = encode_frame(FrameType.ERROR, error.payload)
            self.session.answers.on_empty = lambda: self._end_with(frame)
        else:
            self._end_with(encode_frame(FrameType.ERROR, error.payload))

    def _end_with(self, frame: bytes) -> None:
        """Send a last frame and close, giving the client time to read it."""
        self.send(frame)
        self._is_ending = True
        self._leave_channel()
        if self._transport.is_closing():
            return
        if not self.layers.are_none:
            self._transport.write(self.layers.farewell())
        if self._has_eof or not self._transport.can_write_eof():
            self._transport.close()
            return
        # Closing with unread input would reset the connection and the frame might be lost.
        self._is_shut = True
        self._transport.write_eof()
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(LINGER_S, self.drop)

    def _break_off(self, error: StreamError) -> None:
        logger.info("%s: closed: %s", self.session, error)
        self.close()

    def close(self) -> None:
        """Close once what was sent is written."""
        self._is_ending = True
        if not self.layers.are_none and not self._transport.is_closing() and self._handshake is None:
            self._transport.write(self.layers.farewell())
        self._transport.close()

    def drop(self) -> None:
        """Close at once."""
        self._is_ending = True
        self._transport.abort()


async def _next_turn() -> None:
    await asyncio.sleep(0)
