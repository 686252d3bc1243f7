"""Answers that take more than one write: parts of files, and streams."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from nsqlake.runtime.http.encoding import LAST_CHUNK, encode_chunk
from nsqlake.runtime.http.response import FilePart, FileResponse, StreamResponse

__all__ = ["HIGH_WATER_BYTES", "LOW_WATER_BYTES", "FileSender", "Sender", "StreamSender"]

logger = logging.getLogger(__name__)

HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024
COPY_BYTES = 128 * 1024
TURN_BYTES = 4 * 1024 * 1024  # for one client in one turn of the loop

OnEnd = Callable[[bool], None]  # whether all was sent


class Sender:
    """One such answer. `sent_bytes` grows while the client reads; `waits_for_client` if only it can go on."""

    sent_bytes = 0
    waits_for_client = False

    def resume(self) -> None:
        """The transport's buffer has room again."""

    def stop(self) -> None:
        """The connection is gone; nothing more is sent and `on_end` is not called."""


class FileSender(Sender):
    """By sendfile if the transport has a socket of its own, else by copying through the transport."""

    waits_for_client = True

    def __init__(self, transport: asyncio.Transport, response: FileResponse, on_end: OnEnd) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport, self._response, self._on_end = transport, response, on_end
        self._parts: deque[FilePart] = deque(part for part in response.parts if part[2] > 0)
        self._is_over = False
        self._socket = _duplicate(transport.get_extra_info("socket"))

    def start(self) -> None:
        if self._socket >= 0:
            self._loop.add_writer(self._socket, self._send_some)
        else:
            self._copy_some()

    def resume(self) -> None:
        if self._socket < 0 and not self._is_over:
            self._copy_some()

    def stop(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._socket >= 0:
            self._loop.remove_writer(self._socket)
            os.close(self._socket)
        self._response.discard()

    def _end(self, is_complete: bool) -> None:
        self.stop()
        self._on_end(is_complete)

    def _send_some(self) -> None:
        if self._transport.get_write_buffer_size():  # the head, or answers before it, are still to go
            return
        budget = TURN_BYTES
        try:
            while self._parts and budget > 0:
                descriptor, position, count = self._parts[0]
                sent = os.sendfile(self._socket, descriptor, position, min(count, budget))
                if not self._advance(sent):
                    return
                budget -= sent
        except BlockingIOError:
            return
        except OSError as error:
            logger.debug("file not sent: %s", error)
            self._end(False)
            return
        if not self._parts:
            self._end(True)

    def _copy_some(self) -> None:
        budget = TURN_BYTES
        while self._parts and self._transport.get_write_buffer_size() <= HIGH_WATER_BYTES:
            if budget <= 0:
                self._loop.call_soon(self.resume)
                return
            data = self._read_some()
            if not self._advance(len(data)):
                return
            budget -= len(data)
            self._transport.write(data)
        if not self._parts and not self._is_over:
            self._end(True)

    def _read_some(self) -> bytes:
        descriptor, position, count = self._parts[0]
        try:
            return os.pread(descriptor, min(count, COPY_BYTES), position)
        except OSError as error:
            logger.error("a file was not readable for its answer: %s", error)
            return b""

    def _advance(self, count: int) -> bool:
        """Note what was sent of the first part; False, and the end, if the file holds less than promised."""
        if count == 0:
            logger.error("a file was shorter than the answer that was to send it")
            self._end(False)
            return False
        descriptor, position, left = self._parts.popleft()
        if left > count:
            self._parts.appendleft((descriptor, position + count, left - count))
        self.sent_bytes += count
        return True


def _duplicate(socket: Any) -> int:
    """A descriptor to send by, -1 if there is none: the loop lets nobody watch a transport's own."""
    try:
        return -1 if socket is None else os.dup(socket.fileno())
    except OSError:
        return -1


class StreamSender(Sender):
    """Sends chunks as they come, and waits while the client does not read."""

    def __init__(
        self,
        transport: asyncio.Transport,
        response: StreamResponse,
        on_end: OnEnd,
        *,
        is_chunked: bool,
        chunk_limit_s: float,
    ) -> None:
        self._transport, self._response, self._on_end = transport, response, on_end
        self._is_chunked, self._chunk_limit_s = is_chunked, chunk_limit_s
        self._has_room = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def resume(self) -> None:
        self._has_room.set()

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        try:
            await self._pump()
        except Exception:
            logger.exception("HTTP: stream failed")
            self._on_end(False)
        else:
            self._on_end(True)

    async def _pump(self) -> None:
        chunks = self._response.chunks
        try:
            while True:
                async with asyncio.timeout(self._chunk_limit_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                if chunk:
                    await self._send(chunk)
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()
        if self._is_chunked:
            self._transport.write(LAST_CHUNK)

    async def _send(self, chunk: bytes) -> None:
        self._transport.write(encode_chunk(chunk) if self._is_chunked else chunk)
        self.sent_bytes += len(chunk)
        while self._transport.get_write_buffer_size() > HIGH_WATER_BYTES:
            self._has_room.clear()
            await self._has_room.wait()
