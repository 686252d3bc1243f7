"""The server's side of TLS as a transformer of bytes: ciphertext in and out, no socket.

pyOpenSSL rather than `ssl`: the standard library cannot ask for a client certificate without verifying it,
which the policy `require` needs.
"""

import ssl
from functools import cache

from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from nsqlake.wire.errors import StreamError

RECORD_BYTES = 16_384  # TLS: the most one record holds
ENCODE_CHUNK_BYTES = 8 * RECORD_BYTES  # OpenSSL's buffers never shrink, so no call may make them large
OUTGOING_CHUNK_BYTES = ENCODE_CHUNK_BYTES + 4_096

_VERIFY_REASONS = {
    SSL.X509VerificationCodes.ERR_CERT_NOT_YET_VALID: "certificate is not yet valid",
    SSL.X509VerificationCodes.ERR_CERT_HAS_EXPIRED: "certificate has expired",
    SSL.X509VerificationCodes.ERR_DEPTH_ZERO_SELF_SIGNED_CERT: "certificate is self-signed",
    SSL.X509VerificationCodes.ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "certificate of an unknown authority",
    SSL.X509VerificationCodes.ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: "certificate of an unknown authority",
    SSL.X509VerificationCodes.ERR_SELF_SIGNED_CERT_IN_CHAIN: "certificate of an unknown authority",
    SSL.X509VerificationCodes.ERR_INVALID_PURPOSE: "certificate is not meant for clients",
}
_CIPHER_NAMES = {
    "AES128-GCM-SHA256": "AES_128_GCM_SHA256",
    "AES256-GCM-SHA384": "AES_256_GCM_SHA384",
    "CHACHA20-POLY1305": "CHACHA20_POLY1305_SHA256",
    "AES128-SHA": "AES_128_CBC_SHA",
    "AES256-SHA": "AES_256_CBC_SHA",
    "AES128-SHA256": "AES_128_CBC_SHA256",
    "AES256-SHA384": "AES_256_CBC_SHA384",
}


@cache
def _suite_numbers() -> dict[str, int]:
    """By OpenSSL's names. pyOpenSSL tells a suite's name only, the standard library all of them at once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return {str(suite["name"]): int(suite["id"]) & 0xFFFF for suite in context.get_ciphers()}


class TlsError(StreamError):
    """The handshake failed or the stream is broken; `take_outgoing` may hold an alert for the peer."""


class TlsLayer:
    """One connection: feed ciphertext, shake hands, then `read` and `encode`.

    `handshake` and `read` may leave records to send (alerts, key updates): take them after each call.
    """

    def __init__(self, context: SSL.Context) -> None:
        self._connection = SSL.Connection(context, None)
        self._connection.set_accept_state()
        self._handshake_done = False
        self._failed = ""
        self.peer_closed = False

    def feed(self, data: bytes) -> None:
        if data:
            self._connection.bio_write(data)

    def handshake(self) -> bool:
        """Go on with the handshake; True once it is complete."""
        self._check()
        if not self._handshake_done:
            try:
                self._connection.do_handshake()
            except SSL.WantReadError:
                return False
            except SSL.Error as error:
                raise self._failure(error) from error
            self._handshake_done = True
        return True

    def take_outgoing(self) -> bytes:
        """Ciphertext to send, b"" when there is none."""
        chunks = []
        try:
            while True:
                chunk = self._connection.bio_read(OUTGOING_CHUNK_BYTES)
                chunks.append(chunk)
                if len(chunk) < OUTGOING_CHUNK_BYTES:
                    break
        except SSL.WantReadError:
            pass
        return b"".join(chunks)

    def read(self, max_bytes: int) -> bytes:
        """Decrypted bytes; b"" when more input is needed or, see `peer_closed`, none will follow."""
        self._check()
        chunks = []
        try:
            while max_bytes > 0:
                chunk = self._connection.recv(min(max_bytes, RECORD_BYTES))
                chunks.append(chunk)
                max_bytes -= len(chunk)
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self.peer_closed = True
        except SSL.Error as error:
            failure = self._failure(error)
            if not chunks:  # what came before the damage is authentic; the next call reports it
                raise failure from error
        return b"".join(chunks)

    def encode(self, data: bytes) -> bytes:
        """Ciphertext for `data`, behind whatever else was waiting to be sent."""
        self._check()
        assert self._handshake_done
        chunks = []
        try:
            for start in range(0, len(data), ENCODE_CHUNK_BYTES):
                self._connection.sendall(data[start : start + ENCODE_CHUNK_BYTES])
                chunks.append(self.take_outgoing())
        except SSL.Error as error:
            raise self._failure(error) from error
        return b"".join(chunks) if chunks else self.take_outgoing()

    def close(self) -> bytes:
        """Ciphertext that tells the peer, by a close_notify, that nothing follows."""
        if self._handshake_done and not self._failed:
            try:
                self._connection.shutdown()
            except SSL.Error as error:
                self._failure(error)
        return self.take_outgoing()

    @property
    def peer_common_name(self) -> str:
        """Common name of the client's certificate, "" without one."""
        try:
            certificate = self._connection.get_peer_certificate(as_cryptography=True)
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME) if certificate else []
            return str(names[-1].value) if names else ""
        except ValueError:  # policy `require` lets in certificates that only OpenSSL finds readable
            return ""

    @property
    def peer_names(self) -> frozenset[str]:
        """Every name in the client's certificate: hosts, IP addresses, and the common name."""
        names = {self.peer_common_name} - {""}
        try:
            certificate = self._connection.get_peer_certificate(as_cryptography=True)
            if certificate is not None:
                found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
                names.update(found.get_values_for_type(DNSName))
                names.update(map(str, found.get_values_for_type(IPAddress)))
        except (ValueError, ExtensionNotFound):
            pass
        return frozenset(names)

    @property
    def version(self) -> str:
        """As NSQ writes it: TLS1.2, TLS1.3."""
        return self._connection.get_protocol_version_name().replace("v", "")

    @property
    def cipher(self) -> str:
        """The suite's registered name, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."""
        name = self._connection.get_cipher_name() or ""
        exchange, _, rest = name.partition("-")
        authentication, _, suite = rest.partition("-")
        if suite not in _CIPHER_NAMES:
            return name
        return f"TLS_{exchange}_{authentication}_WITH_{_CIPHER_NAMES[suite]}"

    @property
    def cipher_number(self) -> int:
        """The suite's registered number, 0 when it has none that OpenSSL tells."""
        return _suite_numbers().get(self._connection.get_cipher_name() or "", 0)

    @property
    def negotiated_protocol(self) -> str:
        return self._connection.get_alpn_proto_negotiated().decode("ascii", "replace")

    def _check(self) -> None:
        if self._failed:
            raise TlsError(self._failed)

    def _failure(self, error: SSL.Error) -> TlsError:
        details = error.args[0] if error.args and isinstance(error.args[0], list) else []
        reasons = [reason for library, _, reason in details if library == "SSL routines"]
        verify_code = self._connection.get_app_data()
        reason = _VERIFY_REASONS.get(verify_code) or (reasons[0] if reasons else "connection broken")
        self._failed = f"tls: {reason}"
        return TlsError(self._failed)
