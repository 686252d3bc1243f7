"""Answers that take more than one write: parts of files."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from nsqlake.runtime.http.response import FilePart, FileResponse

__all__ = ["HIGH_WATER_BYTES", "LOW_WATER_BYTES", "FileSender"]

logger = logging.getLogger(__name__)

HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024
COPY_BYTES = 128 * 1024
TURN_BYTES = 4 * 1024 * 1024  # for one client in one turn of the loop

OnEnd = Callable[[bool], None]  # whether all was sent


class FileSender:
    """By sendfile if the transport has a socket of its own, else by copying through the transport.

    `sent_bytes` grows while the client reads. After `stop` nothing more is sent and `on_end` is not called.
    """

    sent_bytes = 0

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
