"""A TLS client in memory, from the standard library, that talks to one `TlsLayer`."""

import contextlib
import ssl

from nsqlake.runtime.tls import TlsLayer
from tests.fakes.certificates import KeyPair


def client_context(
    ca_file: str, pair: KeyPair | None = None, version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if pair:
        context.load_cert_chain(pair.cert_file, pair.key_file)
    if version:
        context.minimum_version = context.maximum_version = version
    return context


class TlsClient:
    """Bytes move only when `exchange` is called, whole or `step` bytes at a time."""

    def __init__(self, context: ssl.SSLContext, layer: TlsLayer, step: int = 0) -> None:
        self._layer = layer
        self._step = step
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def handshake(self) -> None:
        """Until both sides are done; what either side raises comes out here."""
        client_done = server_done = False
        while not (client_done and server_done):
            try:
                self.tls.do_handshake()
                client_done = True
            except ssl.SSLWantReadError:
                pass
            for piece in self._sent():
                self._layer.feed(piece)
                server_done = self._layer.handshake()
            self.incoming.write(self._layer.take_outgoing())

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        for piece in self._sent():
            self._layer.feed(piece)

    def receive(self, ciphertext: bytes) -> bytes:
        self.incoming.write(ciphertext)
        received = b""
        try:
            while chunk := self.tls.read(65_536):
                received += chunk
        except ssl.SSLWantReadError:
            pass
        return received

    def close(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        self._layer.feed(self.outgoing.read())

    def _sent(self) -> list[bytes]:
        data = self.outgoing.read()
        step = self._step or len(data) or 1
        return [data[start : start + step] for start in range(0, len(data), step)]
