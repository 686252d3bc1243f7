"""The arguments of a consumer, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nsqlake.client.addresses import parse_nsqd_address
from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.wire.names import is_valid_name

Addresses = str | Sequence[str]


def checked_name(argument: str, name: str) -> str:
    if not isinstance(name, str) or not is_valid_name(name.encode("utf-8", "surrogatepass")):
        raise InvalidArgumentError(argument, name, "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_', '-'")
    return name


def address_list(argument: str, addresses: Addresses) -> list[str]:
    """One address or several, each once."""
    several = [addresses] if isinstance(addresses, str) else list(addresses)
    for address in several:
        if not isinstance(address, str) or not address:
            raise InvalidArgumentError(argument, address, "must be an address")
    return list(dict.fromkeys(several))


def nsqd_addresses(addresses: Addresses) -> list[str]:
    argument = "nsqd_tcp_addresses"
    several = address_list(argument, addresses)
    return list(dict.fromkeys(str(parse_nsqd_address(address, argument=argument)) for address in several))


def consumer_config(config: ClientConfig | None, options: dict[str, Any]) -> ClientConfig:
    """`config` with `options`; what no consumer can do is refused."""
    made = (config or ClientConfig()).replace(**options) if options else config or ClientConfig()
    if made.heartbeat_interval < 0:
        raise InvalidArgumentError("heartbeat_interval", -1, "nsqd refuses consumers without heartbeats")
    return made


def checked_count(argument: str, count: int, at_least: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < at_least:
        raise InvalidArgumentError(argument, count, f"must be an integer, at least {at_least}")
    return count
