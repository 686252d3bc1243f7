"""Warnings at the start about listeners that anybody who can reach them may use."""

import logging

from nsqlake.nsqd.option_choices import HttpAuth, TLSRequired
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.addresses import is_local_address

__all__ = ["warn_if_open"]

logger = logging.getLogger(__name__)


def warn_if_open(options: NsqdOptions) -> None:
    """`--http-auth=off` is said in any case: it undoes what the auth server is there for."""
    has_auth = bool(options.auth_http_addresses)
    if has_auth and options.http_auth is HttpAuth.OFF:
        logger.warning("HTTP: --http-auth=off, the API asks nobody for credentials, as in NSQ")
    text = (
        "%s: %s is open to everybody who can reach it: neither --tls-required nor --auth-http-address is set"
    )
    if not is_local_address(options.tcp_address) and not has_auth and not options.tls_required:
        logger.warning(text, "TCP", options.tcp_address)
    is_tls_required = options.tls_required is TLSRequired.TRUE
    if (
        options.http_address
        and not is_local_address(options.http_address)
        and not has_auth
        and not is_tls_required
    ):
        logger.warning(text, "HTTP", options.http_address)
