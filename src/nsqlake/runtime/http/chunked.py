"""A request body that comes in chunks."""

import re

from nsqlake.runtime.http.errors import HttpError

__all__ = ["ChunkedBody"]

MAX_LINE_BYTES = 1_024  # of a chunk's size with its extensions, and of a trailer
MAX_TRAILERS = 100
TURN_LINES = 2_000  # taken in one go, so that a body of tiny chunks stalls nobody else
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*")


class ChunkedBody:
    """Takes the chunks of one body out of a stream; extensions and trailers are read and dropped."""

    def __init__(self, limit_bytes: int) -> None:
        self.body = bytearray()
        self._limit_bytes = limit_bytes
        self._left = 0  # of the current chunk
        self._needs_line_end = False  # behind the current chunk
        self._trailer_count = -1  # before the last chunk
        self.is_done = False
        self.is_too_big = False
        self.has_more = False  # it stopped for others, not for want of bytes

    def feed(self, data: bytes, at: int) -> int:
        """Take what belongs to the body from `at` on and return where that ends.

        Stops for want of bytes, when the body is done, when it is too big, or after many chunks; HttpError if
        it is malformed.
        """
        line_count, self.has_more = 0, False
        while not (self.is_done or self.is_too_big):
            if line_count == TURN_LINES:
                self.has_more = True
                break
            if self._left:
                piece = data[at : at + self._left]
                self.body += piece
                self._left -= len(piece)
                at += len(piece)
                if self._left:
                    break
                self._needs_line_end = True
            line_end = data.find(b"\n", at, at + MAX_LINE_BYTES + 2)
            if line_end < 0:
                if len(data) - at > MAX_LINE_BYTES:
                    raise HttpError(400, "BAD_REQUEST")
                break
            self._take_line(_line(data, at, line_end))
            at = line_end + 1
            line_count += 1
        return at

    def _take_line(self, line: bytes) -> None:
        if self._needs_line_end:
            if line:
                raise HttpError(400, "BAD_REQUEST")
            self._needs_line_end = False
        elif self._trailer_count < 0:
            self._begin_chunk(line)
        elif not line:
            self.is_done = True
        else:
            self._trailer_count += 1
            if _TRAILER.fullmatch(line) is None or self._trailer_count > MAX_TRAILERS:
                raise HttpError(400, "BAD_REQUEST")

    def _begin_chunk(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise HttpError(400, "BAD_REQUEST")
        self._left = int(match[1], 16)
        if self._left == 0:
            self._trailer_count = 0
        self.is_too_big = len(self.body) + self._left > self._limit_bytes


def _line(data: bytes, start: int, end: int) -> bytes:
    if end == start or data[end - 1] != 0x0D:
        raise HttpError(400, "BAD_REQUEST")
    return data[start : end - 1]
