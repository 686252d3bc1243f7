"""Commands on their way to nsqd: gathered, compressed once per batch, and watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from nsqlake.runtime.timers import Timer, Timers
from nsqlake.wire.compression import Encoder

HIGH_WATER_BYTES: Final = 256 * 1024


class Outgoing:
    """Everything written in one turn of the loop becomes one write.

    What nsqd is slow to take is gathered here, not in the transport, so that it leaves in one piece later.
    `on_stuck` is called when nsqd takes nothing for `limit_s` while something waits.
    """

    def __init__(
        self,
        transports: tuple[asyncio.Transport, asyncio.Transport],
        encoder: Encoder | None,
        *,
        timers: Timers,
        limit_s: float,
        on_stuck: Callable[[], None],
    ) -> None:
        self._transport, self._socket_transport = transports  # the same unless TLS lies between
        self._encoder = encoder
        self._timers, self._limit_s, self._on_stuck = timers, limit_s, on_stuck
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._is_scheduled = self._is_paused = self._has_ended = False
        self._room: asyncio.Future[None] | None = None
        self._watch: Timer | None = None
        self._watched_bytes = 0
        self._wrote_since_watch = False
        self.sent_bytes = 0
        for transport in transports:
            # Not 0: at 0 asyncio's TLS holds us back without anything waiting.
            transport.set_write_buffer_limits(high=1, low=0)

    @property
    def has_room(self) -> bool:
        return not self._is_paused or self._gathered_bytes < HIGH_WATER_BYTES

    def write(self, data: bytes) -> None:
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if not self._is_scheduled and not self._is_paused:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    async def wait_room(self) -> None:
        """Until there is room or nothing can be sent any more."""
        while not self.has_room and not self._has_ended:
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._flush()
        self._tell_room()

    def finish(self) -> None:
        """Send all there is and nothing after it."""
        self._is_paused = False
        self._flush()
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:  # TLS, which says goodbye itself
            self._transport.close()

    def end(self) -> None:
        """The transport is gone."""
        self._has_ended = True
        self._gathered.clear()
        if self._watch is not None:
            self._watch.cancel()
        self._tell_room()

    def _flush(self) -> None:
        self._is_scheduled = False
        if not self._gathered or self._is_paused or self._transport.is_closing():
            return
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        if self._encoder is not None:
            data = self._encoder.encode(data)
        self.sent_bytes += len(data)
        self._transport.write(data)
        self._wrote_since_watch = True
        if self._watch is None and self._unsent_bytes():
            self._start_watch()

    def _tell_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.set_result(None)

    def _unsent_bytes(self) -> int:
        unsent = self._transport.get_write_buffer_size()
        if self._socket_transport is not self._transport:
            unsent += self._socket_transport.get_write_buffer_size()
        return unsent

    def _start_watch(self) -> None:
        self._watched_bytes = self._unsent_bytes()
        self._wrote_since_watch = False
        self._watch = self._timers.call_later(self._limit_s, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._transport.is_closing() or not (unsent := self._unsent_bytes()):
            return
        if unsent >= self._watched_bytes and not self._wrote_since_watch:
            self._on_stuck()
        else:
            self._start_watch()
