"""Checks of the addresses a tool reads from."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from nsqlake.runtime.addresses import split_host_port
from nsqlake.runtime.errors import ConfigurationError


def check_one_source(
    nsqd_addresses: Sequence[str],
    lookupd_addresses: Sequence[str],
    *,
    nsqd_flag: str = "nsqd-tcp-address",
    end: str = "",
) -> None:
    """ConfigurationError unless exactly one of the two is given; `end` closes the first sentence."""
    if not nsqd_addresses and not lookupd_addresses:
        reason = f"--{nsqd_flag} or --lookupd-http-address required{end}"
        raise ConfigurationError(nsqd_flag, (), reason)
    if nsqd_addresses and lookupd_addresses:
        reason = f"use --{nsqd_flag} or --lookupd-http-address not both"
        raise ConfigurationError(nsqd_flag, nsqd_addresses, reason)


def check_lookupd_addresses(addresses: Sequence[str]) -> None:
    """Each `host:port`, or a URL with a port."""
    for address in addresses:
        if not has_port(address):
            raise ConfigurationError("lookupd-http-address", address, "missing port")


def check_nsqd_addresses(addresses: Sequence[str], flag: str = "nsqd-tcp-address") -> None:
    """Each `host:port`, or the path of a unix socket."""
    for address in addresses:
        if "/" not in address and split_host_port(address) is None:
            reason = f"dial tcp: address {address}: missing port in address"
            raise ConfigurationError(flag, address, reason)


def has_port(address: str) -> bool:
    try:
        return urlsplit(address if "://" in address else f"//{address}").port is not None
    except ValueError:
        return False
