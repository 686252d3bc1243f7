"""What becomes of lines on their way into a file: nothing, or gzip in whole members."""

import zlib
from typing import Protocol

_GZIP_WRAPPER = 16  # zlib: a gzip header and trailer around the deflate stream
_WINDOW_BITS = _GZIP_WRAPPER + zlib.MAX_WBITS


class Encoding(Protocol):
    def encode(self, data: bytes) -> bytes:
        """The bytes for the file that are known by now."""

    def complete(self) -> bytes:
        """The rest: with it all that was encoded can be read back."""


class Plain:
    def encode(self, data: bytes) -> bytes:
        return data

    def complete(self) -> bytes:
        return b""


class GzipMembers:
    """`complete` ends a member; the next data begins another. A file has at least one, maybe empty."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._member = self._new_member()
        self._is_pending = True

    def encode(self, data: bytes) -> bytes:
        if not self._is_pending:
            self._member = self._new_member()
            self._is_pending = True
        return self._member.compress(data)

    def complete(self) -> bytes:
        if not self._is_pending:
            return b""
        self._is_pending = False
        return self._member.flush(zlib.Z_FINISH)

    def _new_member(self) -> "zlib._Compress":
        return zlib.compressobj(self._level, zlib.DEFLATED, _WINDOW_BITS)
