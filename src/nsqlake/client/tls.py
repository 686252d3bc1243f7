"""The TLS settings of a client, from its configuration."""

from __future__ import annotations

import ssl
from typing import Final

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import InvalidArgumentError

_VERSIONS: Final = {
    "tls1.0": ssl.TLSVersion.TLSv1,
    "tls1.1": ssl.TLSVersion.TLSv1_1,
    "tls1.2": ssl.TLSVersion.TLSv1_2,
    "tls1.3": ssl.TLSVersion.TLSv1_3,
}
_LEGACY: Final = ("tls1.0", "tls1.1")


def build_tls_context(config: ClientConfig) -> ssl.SSLContext:
    """The context that is configured, or one that verifies certificate and name unless told not to.

    Reads files, so it blocks; InvalidArgumentError names the option whose file is not usable.
    """
    if config.ssl_context is not None:
        return config.ssl_context
    context = _trusting(config)
    _set_version(context, config.tls_min_version)
    if config.tls_insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if config.tls_cert:
        _present_certificate(context, config)
    return context


def _trusting(config: ClientConfig) -> ssl.SSLContext:
    if config.tls_insecure_skip_verify and not config.tls_root_ca_file:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=config.tls_root_ca_file or None)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidArgumentError("tls_root_ca_file", config.tls_root_ca_file, _reason(error)) from error
    # Python 3.13 sets it; private authorities whose certificates every other client takes would be refused.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _set_version(context: ssl.SSLContext, name: str) -> None:
    if name in _LEGACY:  # OpenSSL speaks them only at security level 0
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = _VERSIONS[name]


def _present_certificate(context: ssl.SSLContext, config: ClientConfig) -> None:
    try:
        # Without a password OpenSSL would ask on the terminal for that of an encrypted key.
        context.load_cert_chain(config.tls_cert, config.tls_key or None, config.tls_key_password)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError("tls_cert", config.tls_cert, _reason(error)) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def tls_reason(error: ssl.SSLError) -> str:
    """What OpenSSL says, without the names of its source files."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
