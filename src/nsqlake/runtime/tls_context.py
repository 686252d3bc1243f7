"""TLS settings from files: certificates, trust and policy of our servers, and trust for outgoing calls."""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from OpenSSL import SSL, crypto

from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.tls import TlsLayer
from nsqlake.runtime.tls_options import REQUIRE, REQUIRE_VERIFY

ServerKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey

DEFAULT_MIN_VERSION = "tls1.2"
VERSIONS = {
    "tls1.0": SSL.TLS1_VERSION,
    "tls1.1": SSL.TLS1_1_VERSION,
    "tls1.2": SSL.TLS1_2_VERSION,
    "tls1.3": SSL.TLS1_3_VERSION,
}
CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"
# OpenSSL speaks TLS 1.0 and 1.1 only at security level 0, and they know no AEAD.
LEGACY_CIPHERS = CIPHERS + b":ECDHE+AES:@SECLEVEL=0"
PARTIAL_WRITE_MODE = 1  # SSL_MODE_ENABLE_PARTIAL_WRITE, which pyOpenSSL sets but does not name
HTTP_PROTOCOL = b"http/1.1"


@dataclass(frozen=True)
class TlsContext:
    """What every connection of a server shares; `warnings` are for the log."""

    context: SSL.Context
    asks_client_certificate: bool
    warnings: tuple[str, ...] = ()

    def new_layer(self) -> TlsLayer:
        return TlsLayer(self.context)


class TlsContextHolder:
    """The context for new connections; those that exist keep the one they began with."""

    def __init__(self, build: Callable[[], TlsContext]) -> None:
        self._build = build
        self.current = build()

    def reload(self) -> TlsContext:
        """Read the files again. StartupError, and the old context stays, when they are not usable."""
        self.current = self._build()
        return self.current


def build_server_context(
    cert_file: str,
    key_file: str,
    *,
    client_auth_policy: str = "",
    root_ca_file: str = "",
    min_version: str = DEFAULT_MIN_VERSION,
) -> TlsContext:
    """Unknown words as policy ask for no certificate, as NSQ does; StartupError when a file is not usable."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    _set_protocol(context, min_version or DEFAULT_MIN_VERSION)
    _use_key_pair(context, cert_file, key_file)
    authorities = _load_authorities(root_ca_file) if root_ca_file else []
    asks = client_auth_policy in (REQUIRE, REQUIRE_VERIFY)
    if client_auth_policy == REQUIRE_VERIFY:
        _trust(context, authorities)
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _note_failure)
    elif client_auth_policy == REQUIRE:
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _accept_any)
    warning = key_file_warning(key_file)
    return TlsContext(context, asks, (warning,) if warning else ())


def build_client_context(
    root_ca_file: str = "", *, cert_file: str = "", key_file: str = ""
) -> ssl.SSLContext:
    """For outgoing calls: certificate and host name are verified; trust is the file, or else the system's.

    A certificate of our own is shown to servers that ask for one.
    """
    pem = _certificates_pem(_load_authorities(root_ca_file)) if root_ca_file else None
    context = ssl.create_default_context(cadata=pem)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file:
        _read(cert_file)  # these say which file is wrong, and why
        _load_key(_read(key_file))
        try:
            context.load_cert_chain(cert_file, key_file)
        except ssl.SSLError as error:
            raise _error("tls: the certificate or its key cannot be used") from error
    return context


def key_file_warning(key_file: str) -> str:
    """Text for the log when others may read the private key, else ""."""
    if not os.path.exists(key_file):  # `build_server_context` says so
        return ""
    mode = os.stat(key_file).st_mode & 0o777
    return f"TLS key {key_file} is open to group or others mode={mode:04o}" if mode & 0o077 else ""


def _set_protocol(context: SSL.Context, min_version: str) -> None:
    if min_version not in VERSIONS:
        raise _error(f"unknown TLS version {min_version}")
    context.set_min_proto_version(VERSIONS[min_version])
    context.set_cipher_list(LEGACY_CIPHERS if min_version in ("tls1.0", "tls1.1") else CIPHERS)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE)
    # No resumption: a resumed session would skip the check of a certificate that has expired since.
    context.set_options(SSL.OP_NO_TICKET)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"nsqlake")
    context.clear_mode(PARTIAL_WRITE_MODE)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_alpn_select_callback(
        lambda _, offered: HTTP_PROTOCOL if HTTP_PROTOCOL in offered else SSL.NO_OVERLAPPING_PROTOCOLS
    )


def _use_key_pair(context: SSL.Context, cert_file: str, key_file: str) -> None:
    cert_pem, key_pem = _read(cert_file), _read(key_file)
    try:
        certificate, *chain = x509.load_pem_x509_certificates(cert_pem)
    except ValueError as error:
        raise _error("tls: failed to find any PEM data in certificate input") from error
    key = _load_key(key_pem)
    try:
        if _public_bytes(key) != _public_bytes(certificate):
            raise _error("tls: private key does not match public key")
        context.use_certificate(certificate)
        for issuer in chain:
            context.add_extra_chain_cert(issuer)
        context.use_privatekey(key)
    except (SSL.Error, crypto.Error, ValueError) as error:
        raise _error("tls: the certificate or its key cannot be used") from error


def _load_key(key_pem: bytes) -> ServerKey:
    try:
        key = load_pem_private_key(key_pem, None)
    except ValueError as error:
        raise _error("tls: failed to find any PEM data in key input") from error
    except TypeError as error:
        raise _error("tls: the private key is encrypted") from error
    if not isinstance(key, ServerKey):
        raise _error("tls: unknown kind of private key")
    return key


def _public_bytes(owner: ServerKey | x509.Certificate) -> bytes:
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _trust(context: SSL.Context, authorities: list[x509.Certificate]) -> None:
    if not authorities:
        context.set_default_verify_paths()
        return
    store = context.get_cert_store()
    assert store is not None
    for authority in authorities:
        store.add_cert(crypto.X509.from_cryptography(authority))
        context.add_client_ca(authority)


def _load_authorities(root_ca_file: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_read(root_ca_file))
    except ValueError as error:
        raise _error("failed to append certificate to pool") from error


def _certificates_pem(certificates: list[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise _error(f"open {path}: {reason[:1].lower()}{reason[1:]}") from error


def _error(reason: str) -> StartupError:
    return StartupError(f"failed to build TLS config - {reason}")


def _accept_any(_connection: SSL.Connection, _certificate: object, _code: int, _depth: int, _ok: int) -> bool:
    return True


def _note_failure(connection: SSL.Connection, _certificate: object, code: int, _depth: int, ok: int) -> bool:
    if not ok:
        connection.set_app_data(code)  # OpenSSL's own error says only "certificate verify failed"
    return bool(ok)
