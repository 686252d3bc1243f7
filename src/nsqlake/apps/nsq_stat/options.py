"""The flags of `nsq_stat`."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec

from nsqlake.apps.tool_support.option_types import ShowVersion
from nsqlake.apps.tool_support.sources import check_one_source
from nsqlake.runtime.durations import SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import DURATION, STRING, STRING_LIST, IntKind
from nsqlake.runtime.options import Limit, Option, check_limits
from nsqlake.wire.names import is_valid_name

NSQD, NSQLOOKUPD = "nsqd-http-address", "lookupd-http-address"
POSITIVE = Limit(lambda value: value is None or value > 0, "should be positive")

_channel = partial(Option, group="Channel")
_source = partial(Option, group="Source")
_report = partial(Option, group="Report")


class CountKind(IntKind):
    """A number that need not be given; NSQ reads this one without 0x and the like."""

    def parse(self, text: str) -> int:
        return self.coerce(text)

    def show(self, value: object) -> str:
        return ""


class NsqStatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in nanoseconds; without `count` it goes on for ever."""

    topic: Annotated[str, _channel("topic", STRING, "name of the topic")] = ""
    channel: Annotated[str, _channel("channel", STRING, "name of the channel")] = ""
    lookupd_http_addresses: Annotated[
        tuple[str, ...],
        _source(
            NSQLOOKUPD,
            STRING_LIST,
            "host:port of an nsqlookupd that knows the nsqds; may be given several times",
        ),
    ] = ()
    nsqd_http_addresses: Annotated[
        tuple[str, ...],
        _source(NSQD, STRING_LIST, "host:port of an nsqd; may be given several times"),
    ] = ()
    http_client_connect_timeout_ns: Annotated[
        int, _source("http-client-connect-timeout", DURATION, "limit for connecting", POSITIVE)
    ] = 2 * SECOND_NS
    http_client_request_timeout_ns: Annotated[
        int, _source("http-client-request-timeout", DURATION, "limit for a whole request", POSITIVE)
    ] = 5 * SECOND_NS
    interval_ns: Annotated[int, _report("interval", DURATION, "time between two rows", POSITIVE)] = (
        2 * SECOND_NS
    )
    count: Annotated[
        int | None, _report("count", CountKind(), "rows to print; without it they go on", POSITIVE)
    ] = None
    version: ShowVersion = False


def check(options: NsqStatOptions) -> NsqStatOptions:
    """ConfigurationError with NSQ's text; of several problems the one that NSQ tells first."""
    if not options.topic or not options.channel:
        raise ConfigurationError("topic", options.topic, "--topic and --channel are required")
    check_limits(options, "interval_ns")
    check_limits(options)
    check_one_source(options.nsqd_http_addresses, options.lookupd_http_addresses, nsqd_flag=NSQD)
    _check_addresses(NSQD, options.nsqd_http_addresses)
    _check_addresses(NSQLOOKUPD, options.lookupd_http_addresses)
    _check_name("topic", options.topic)
    _check_name("channel", options.channel)
    return options


def _check_addresses(flag: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        if "://" in address:  # not just "http": a host may be called httpd1
            raise ConfigurationError(flag, address, f"--{flag} error - address should not contain scheme")


def _check_name(flag: str, name: str) -> None:
    if not is_valid_name(os.fsencode(name)):
        raise ConfigurationError(flag, name, f"invalid {flag} name")
