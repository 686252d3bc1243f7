"""TLS of a daemon: built from its options, read again on SIGHUP."""

import logging
from typing import Protocol

from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.tls_context import TlsContextHolder, build_server_context, key_file_warning
from nsqlake.runtime.tls_options import TLS_MIN_VERSION, TlsOptions

__all__ = ["open_server_tls", "reload_certificates"]

logger = logging.getLogger(__name__)


def open_server_tls(options: TlsOptions) -> TlsContextHolder | None:
    """None without a certificate; StartupError when a file is not usable."""
    if not options.tls_cert and not options.tls_key:
        return None
    warning = key_file_warning(options.tls_key)
    if warning:
        logger.warning("%s", warning)
    return TlsContextHolder(
        lambda: build_server_context(
            options.tls_cert,
            options.tls_key,
            client_auth_policy=options.tls_client_auth_policy,
            root_ca_file=options.tls_root_ca_file,
            min_version=TLS_MIN_VERSION.show(options.tls_min_version),
        )
    )


class Reloadable(Protocol):
    """Certificates that can be read again: StartupError, and the old ones stay, when they are not usable."""

    def reload(self) -> object: ...


def reload_certificates(*each: Reloadable | None) -> None:
    """New connections get the certificates that are on disk now; without TLS nothing happens."""
    holders = [holder for holder in each if holder is not None]
    if not holders:
        return
    try:
        for holder in holders:
            holder.reload()
    except StartupError as error:
        logger.error("TLS: certificates not reloaded, the old ones stay: %s", error)
    else:
        logger.info("TLS: certificates reloaded")
