"""Deflate and framed snappy, layered over a connection after IDENTIFY.

Encoders return bytes that the peer can decode at once. Decoders keep what they are fed and decode it
only when read, never more than asked for: a bomb costs nothing until someone wants its output.

A snappy stream is a row of chunks, of which the first is the stream identifier:

| bytes | field                                                                    |
|-------|--------------------------------------------------------------------------|
| 1     | type: 0x00 compressed, 0x01 plain, 0x80-0xfe skippable, 0xff identifier  |
| 3     | length of the rest, little-endian                                        |
| 4     | types 0x00 and 0x01: masked CRC-32C of the plain data, little-endian     |
| ...   | data, at most 65536 bytes when plain                                     |
"""

import struct
import zlib
from abc import ABC, abstractmethod
from typing import Final, Protocol

import cramjam
import google_crc32c

from nsqlake.wire.errors import StreamError

RAW_DEFLATE: Final = -15  # zlib's wbits: no header, a window of 32 KiB
MAX_SNAPPY_BLOCK: Final = 65_536

# Input in a row that decodes to nothing. No sane peer comes near it, and it is cheap to refuse.
MAX_IDLE_DEFLATE_BYTES: Final = 1024 * 1024
MAX_IDLE_SNAPPY_CHUNKS: Final = 1_000

_DEFLATE_PIECE: Final = 16_384

_CHUNK_HEADER: Final = struct.Struct("<I")  # type in the low byte, length above it
_CHECKSUM: Final = struct.Struct("<I")
_COMPRESSED: Final = 0x00
_PLAIN: Final = 0x01
_SKIPPABLE: Final = 0x80
_IDENTIFIER: Final = 0xFF
_STREAM_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
# Snappy's own bound for the compressed size of a full block.
_MAX_COMPRESSED_BLOCK: Final = 32 + MAX_SNAPPY_BLOCK + MAX_SNAPPY_BLOCK // 6
_LONGEST_CHUNK: Final = {
    _COMPRESSED: _CHECKSUM.size + _MAX_COMPRESSED_BLOCK,
    _PLAIN: _CHECKSUM.size + MAX_SNAPPY_BLOCK,
}


class Encoder(Protocol):
    def encode(self, data: bytes) -> bytes:
        """Complete, flushed wire bytes for `data`."""


class Decoder(Protocol):
    def feed(self, data: bytes) -> None:
        """Hand over received bytes."""

    def read(self, max_bytes: int) -> bytes:
        """The next decoded bytes, at most `max_bytes`; none means that more input is needed."""


class _PullDecoder(ABC):
    """Gathers what `_next` yields; bytes that precede an error are handed out before it is raised."""

    def __init__(self) -> None:
        self._input = bytearray()
        self._error: StreamError | None = None

    def feed(self, data: bytes) -> None:
        if self._error is None:
            self._input += data

    def read(self, max_bytes: int) -> bytes:
        if self._error is not None:
            raise self._error
        pieces: list[bytes] = []
        wanted = max_bytes
        try:
            while wanted > 0 and (piece := self._next(wanted)):
                pieces.append(piece)
                wanted -= len(piece)
        except StreamError as error:
            self._error = error
            self._input.clear()
            if not pieces:
                raise
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @abstractmethod
    def _next(self, max_bytes: int) -> bytes:
        """Some decoded bytes, none if more input is needed."""


class DeflateEncoder:
    def __init__(self, level: int) -> None:
        self._compressor = zlib.compressobj(level, zlib.DEFLATED, RAW_DEFLATE)

    def encode(self, data: bytes) -> bytes:
        return self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class DeflateDecoder(_PullDecoder):
    def __init__(self) -> None:
        super().__init__()
        self._decompressor = zlib.decompressobj(RAW_DEFLATE)
        self._idle_bytes = 0

    def _next(self, max_bytes: int) -> bytes:
        while True:
            if self._decompressor.eof:
                raise StreamError("the deflate stream ended")
            # Small pieces, because zlib copies what it leaves unconsumed. An empty one is needed too:
            # zlib may still hold output when it has taken all input.
            piece = bytes(self._input[:_DEFLATE_PIECE])
            try:
                output = self._decompressor.decompress(piece, max_bytes)
            except zlib.error as error:
                raise StreamError(f"corrupt deflate stream: {error}") from None
            taken = len(piece) - len(self._decompressor.unconsumed_tail)
            del self._input[:taken]
            if output:
                self._idle_bytes = 0
                return output
            self._idle_bytes += taken
            if self._idle_bytes > MAX_IDLE_DEFLATE_BYTES:
                raise StreamError("deflate stream without data")
            if not self._input and not self._decompressor.eof:
                return b""


class SnappyEncoder:
    def __init__(self) -> None:
        self._prefix = _STREAM_IDENTIFIER

    def encode(self, data: bytes) -> bytes:
        chunks = [self._prefix]
        self._prefix = b""
        for start in range(0, len(data), MAX_SNAPPY_BLOCK):
            chunks.append(_encode_chunk(data[start : start + MAX_SNAPPY_BLOCK]))
        return b"".join(chunks)


def _encode_chunk(plain: bytes) -> bytes:
    kind, data = _COMPRESSED, bytes(cramjam.snappy.compress_raw(plain))
    if len(data) >= len(plain) - len(plain) // 8:
        kind, data = _PLAIN, plain
    length = _CHECKSUM.size + len(data)
    return _CHUNK_HEADER.pack(length << 8 | kind) + _CHECKSUM.pack(_masked_crc(plain)) + data


def _masked_crc(plain: bytes) -> int:
    crc: int = google_crc32c.value(plain)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class SnappyDecoder(_PullDecoder):
    def __init__(self) -> None:
        super().__init__()
        self._plain = b""
        self._position = 0  # in `_plain`
        self._skip = 0  # bytes of a skippable chunk that are still to come
        self._idle_chunks = 0
        self._is_identified = False

    def _next(self, max_bytes: int) -> bytes:
        while self._position == len(self._plain):
            if not self._take_chunk():
                return b""
        output = self._plain[self._position : self._position + max_bytes]
        self._position += len(output)
        return output

    def _take_chunk(self) -> bool:
        """Go past the next chunk; False if it is not complete."""
        if self._skip and not self._skip_input():
            return False
        if len(self._input) < _CHUNK_HEADER.size:
            return False
        (header,) = _CHUNK_HEADER.unpack_from(self._input)
        kind, length = header & 0xFF, header >> 8
        self._check_chunk(kind, length)
        end = _CHUNK_HEADER.size + length
        if _SKIPPABLE <= kind < _IDENTIFIER:
            self._skip = end
            self._count_idle()
            return self._skip_input()
        if len(self._input) < end:
            return False
        data = bytes(self._input[_CHUNK_HEADER.size : end])
        del self._input[:end]
        if kind == _IDENTIFIER:
            self._is_identified = True
            self._count_idle()
        else:
            self._set_plain(_decode_chunk(kind, data))
        return True

    def _check_chunk(self, kind: int, length: int) -> None:
        """Refuse a chunk by its header, before any of its data is kept."""
        if kind == _IDENTIFIER:
            if not self._input.startswith(_STREAM_IDENTIFIER[: len(self._input)]):
                raise StreamError("wrong snappy stream identifier")
        elif not self._is_identified:
            raise StreamError("snappy stream without identifier")
        elif kind in _LONGEST_CHUNK:
            if not _CHECKSUM.size <= length <= _LONGEST_CHUNK[kind]:
                raise StreamError(f"snappy chunk of {length} bytes")
        elif kind < _SKIPPABLE:
            raise StreamError(f"unknown snappy chunk type {kind:#04x}")

    def _skip_input(self) -> bool:
        """Drop what is there of a skippable chunk; False if more of it is to come."""
        dropped = min(self._skip, len(self._input))
        del self._input[:dropped]
        self._skip -= dropped
        return self._skip == 0

    def _set_plain(self, plain: bytes) -> None:
        self._plain, self._position = plain, 0
        if plain:
            self._idle_chunks = 0
        else:
            self._count_idle()

    def _count_idle(self) -> None:
        self._idle_chunks += 1
        if self._idle_chunks > MAX_IDLE_SNAPPY_CHUNKS:
            raise StreamError("snappy stream without data")


def _decode_chunk(kind: int, data: bytes) -> bytes:
    (checksum,) = _CHECKSUM.unpack_from(data)
    plain = data[_CHECKSUM.size :]
    if kind == _COMPRESSED:
        plain = _decompress_block(plain)
    if _masked_crc(plain) != checksum:
        raise StreamError("wrong checksum of a snappy chunk")
    return plain


def _decompress_block(block: bytes) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > MAX_SNAPPY_BLOCK:
            raise StreamError(f"snappy chunk of {size} bytes when decompressed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise StreamError(f"corrupt snappy chunk: {error}") from None
