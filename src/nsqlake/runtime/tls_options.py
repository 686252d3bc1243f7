"""The options for TLS that every daemon has."""

import enum
from typing import Protocol

from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.go_text import go_quote
from nsqlake.runtime.option_kinds import ChoiceKind

__all__ = ["REQUIRE", "REQUIRE_VERIFY", "TLS_MIN_VERSION", "TLSVersion", "TlsOptions", "check_key_pair"]

REQUIRE, REQUIRE_VERIFY = "require", "require-verify"  # policies about certificates of clients


class TLSVersion(enum.IntEnum):
    """The numbers of the TLS protocol; equal to those of `ssl.TLSVersion`."""

    TLS1_0 = 769
    TLS1_1 = 770
    TLS1_2 = 771
    TLS1_3 = 772


TLS_MIN_VERSION = ChoiceKind(
    "tls1.0|tls1.1|tls1.2|tls1.3",
    {
        "": TLSVersion.TLS1_2,
        "tls1.0": TLSVersion.TLS1_0,
        "tls1.1": TLSVersion.TLS1_1,
        "tls1.2": TLSVersion.TLS1_2,
        "tls1.3": TLSVersion.TLS1_3,
    },
    error=lambda text: f"unknown tlsVersionOption {go_quote(text.lower())}",
)


class TlsOptions(Protocol):
    """The options every daemon has."""

    @property
    def tls_cert(self) -> str: ...
    @property
    def tls_key(self) -> str: ...
    @property
    def tls_client_auth_policy(self) -> str: ...
    @property
    def tls_root_ca_file(self) -> str: ...
    @property
    def tls_min_version(self) -> TLSVersion: ...


def check_key_pair(options: TlsOptions) -> None:
    """ConfigurationError when only one of certificate and key is given."""
    if bool(options.tls_cert) != bool(options.tls_key):
        missing = "tls-key" if options.tls_cert else "tls-cert"
        raise ConfigurationError(missing, "", f"failed to build TLS config - --{missing} is not set")
