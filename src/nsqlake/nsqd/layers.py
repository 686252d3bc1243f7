"""What lies between a socket and the protocol: nothing, TLS, snappy or deflate, or one of these in TLS."""

from nsqlake.runtime.tls import TlsLayer
from nsqlake.wire.compression import (
    Decoder,
    DeflateDecoder,
    DeflateEncoder,
    Encoder,
    SnappyDecoder,
    SnappyEncoder,
)

__all__ = ["LAYER_READ_BYTES", "Layers"]

LAYER_READ_BYTES = 64 * 1024


class Layers:
    """The layers of one connection: bytes of the socket on one side, bytes of the protocol on the other."""

    def __init__(self) -> None:
        self.tls: TlsLayer | None = None
        self._decoder: Decoder | None = None
        self._encoder: Encoder | None = None
        self.are_none = True  # asked for every read and write

    def start_tls(self, layer: TlsLayer) -> None:
        self.tls = layer
        self.are_none = False

    def give_up_tls(self) -> None:
        """The handshake failed: what is said now is said in the clear."""
        self.tls = None
        self.are_none = self._decoder is None

    def start_snappy(self) -> None:
        self._decoder, self._encoder = SnappyDecoder(), SnappyEncoder()
        self.are_none = False

    def start_deflate(self, level: int) -> None:
        self._decoder, self._encoder = DeflateDecoder(), DeflateEncoder(level)
        self.are_none = False

    def feed(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.feed(data)
        elif self._decoder is not None:
            self._decoder.feed(data)

    def read(self) -> bytes:
        """The next bytes of the protocol, b"" when more input is needed; raises StreamError."""
        if self._decoder is None:
            return b"" if self.tls is None else self.tls.read(LAYER_READ_BYTES)
        while True:
            data = self._decoder.read(LAYER_READ_BYTES)
            if data or self.tls is None:
                return data
            received = self.tls.read(LAYER_READ_BYTES)
            if not received:
                return b""
            self._decoder.feed(received)

    def encode(self, data: bytes) -> bytes:
        """Bytes for the socket; raises StreamError."""
        if self._encoder is not None:
            data = self._encoder.encode(data)
        return data if self.tls is None else self.tls.encode(data)

    def take_outgoing(self) -> bytes:
        """What TLS has to say of its own."""
        return b"" if self.tls is None else self.tls.take_outgoing()

    def farewell(self) -> bytes:
        """What the socket gets last."""
        return b"" if self.tls is None else self.tls.close()

    @property
    def has_peer_closed(self) -> bool:
        """Whether the peer ended the TLS stream."""
        return self.tls is not None and self.tls.peer_closed

    @property
    def common_name(self) -> str:
        """Of the client's certificate, "" without one."""
        return "" if self.tls is None else self.tls.peer_common_name
