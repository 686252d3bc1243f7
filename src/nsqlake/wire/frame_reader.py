"""Frames out of a byte stream, for clients."""

from __future__ import annotations

from typing import Final

import msgspec

from nsqlake.wire.errors import StreamError
from nsqlake.wire.frames import FRAME_HEADER, FRAME_TYPE_BYTES, FrameType

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024  # our guess: three times the largest body nsqd takes by default

_SIZE_BYTES: Final = 4
_TYPES: Final = tuple(FrameType)


class Frame(msgspec.Struct, frozen=True, gc=False):
    type: FrameType
    payload: bytes


class FrameReader:
    """Turns received bytes into frames.

    Frames that came before a bad one are still returned: `error` is set at once,
    and the next `feed` raises it. A size is checked before any byte behind it is kept.
    """

    __slots__ = ("_buffer", "_max_frame_bytes", "_needed", "error")

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.error: StreamError | None = None
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._needed = FRAME_HEADER.size

    def feed(self, data: bytes) -> list[Frame]:
        if self.error is not None:
            raise self.error
        self._buffer += data
        # Pieces of a long frame are only gathered until it is whole.
        if len(self._buffer) < self._needed:
            return []
        frames = self._take_frames()
        if self.error is not None:
            self._buffer.clear()
            if not frames:
                raise self.error
        return frames

    def _take_frames(self) -> list[Frame]:
        frames: list[Frame] = []
        buffer, start, available = bytes(self._buffer), 0, len(self._buffer)
        self._needed = FRAME_HEADER.size
        while available - start >= FRAME_HEADER.size:
            size, frame_type = FRAME_HEADER.unpack_from(buffer, start)
            self.error = self._check(size, frame_type)
            if self.error is not None:
                break
            end = start + _SIZE_BYTES + size
            if end > available:
                self._needed = end - start
                break
            frames.append(Frame(_TYPES[frame_type], buffer[start + FRAME_HEADER.size : end]))
            start = end
        del self._buffer[:start]
        return frames

    def _check(self, size: int, frame_type: int) -> StreamError | None:
        if size < FRAME_TYPE_BYTES:
            return StreamError(f"frame size {size} is below {FRAME_TYPE_BYTES}")
        if _SIZE_BYTES + size > self._max_frame_bytes:
            return StreamError(
                f"frame of {_SIZE_BYTES + size} bytes exceeds the limit of {self._max_frame_bytes}"
            )
        if not 0 <= frame_type < len(_TYPES):
            return StreamError(f"unknown frame type {frame_type}")
        return None
