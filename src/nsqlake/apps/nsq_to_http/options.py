"""The flags of nsq_to_http."""

import re
from typing import Annotated

import msgspec

from nsqlake.apps.nsq_to_http.headers import parse_headers
from nsqlake.apps.tool_support.destinations import HOSTPOOL
from nsqlake.apps.tool_support.names import check_consumed
from nsqlake.apps.tool_support.option_types import (
    SOURCE,
    TUNING,
    ConsumerOpt,
    LookupdHttpAddresses,
    MaxInFlight,
    NsqdTcpAddresses,
    ShowVersion,
)
from nsqlake.apps.tool_support.sources import check_lookupd_addresses, check_nsqd_addresses, check_one_source
from nsqlake.runtime.durations import SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import DURATION, FLOAT, INT, STRING, STRING_LIST
from nsqlake.runtime.options import Option

DEFAULT_CONTENT_TYPE = "application/octet-stream"
PLACE_OF_BODY = "%s"
TARGET = "Where messages go"


class NsqToHttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, where to send it, and how."""

    topic: Annotated[str, Option("topic", STRING, "topic to read", group=SOURCE)] = ""
    channel: Annotated[str, Option("channel", STRING, "channel to read", group=SOURCE)] = "nsq_to_http"
    nsqd_tcp_addresses: NsqdTcpAddresses = ()
    lookupd_http_addresses: LookupdHttpAddresses = ()

    post: Annotated[
        tuple[str, ...],
        Option(
            "post",
            STRING_LIST,
            "URL to POST messages to, the body as it is; may be given several times",
            group=TARGET,
        ),
    ] = ()
    get: Annotated[
        tuple[str, ...],
        Option(
            "get",
            STRING_LIST,
            "URL to GET, in which %s stands for the body; may be given several times",
            group=TARGET,
        ),
    ] = ()
    mode: Annotated[
        str,
        Option(
            "mode",
            STRING,
            "which address gets a message: round-robin, hostpool, epsilon-greedy",
            group=TARGET,
        ),
    ] = HOSTPOOL
    sample: Annotated[
        float,
        Option(
            "sample", FLOAT, "share of the messages to send, 0 to 1; the others are dropped", group=TARGET
        ),
    ] = 1.0
    content_type: Annotated[str, Option("content-type", STRING, "Content-Type of a POST", group=TARGET)] = (
        DEFAULT_CONTENT_TYPE
    )
    header: Annotated[
        tuple[str, ...],
        Option(
            "header", STRING_LIST, "'Name: value' of every request; may be given several times", group=TARGET
        ),
    ] = ()

    n: Annotated[int, Option("n", INT, "requests at once", group=TUNING)] = 100
    max_in_flight: MaxInFlight = 200
    status_every: Annotated[
        int, Option("status-every", INT, "requests between two lines of statistics; 0 for none", group=TUNING)
    ] = 250
    connect_timeout_ns: Annotated[
        int, Option("http-client-connect-timeout", DURATION, "longest time to connect", group=TUNING)
    ] = 2 * SECOND_NS
    request_timeout_ns: Annotated[
        int, Option("http-client-request-timeout", DURATION, "longest time of a request", group=TUNING)
    ] = 20 * SECOND_NS
    consumer_opts: ConsumerOpt = ()
    version: ShowVersion = False

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.post or self.get


def check(options: NsqToHttpOptions) -> NsqToHttpOptions:
    """In NSQ's order."""
    parse_headers(options.header)
    _check_content_type(options)
    if not options.topic or not options.channel:
        raise ConfigurationError("topic", "", "--topic and --channel are required")
    check_one_source(options.nsqd_tcp_addresses, options.lookupd_http_addresses)
    _check_addresses(options)
    if not 0.0 <= options.sample <= 1.0:
        raise ConfigurationError("sample", options.sample, "ERROR: --sample must be between 0.0 and 1.0")
    check_consumed(options.topic, options.channel)
    if options.n < 1:
        raise ConfigurationError("n", options.n, "no handlers")
    check_nsqd_addresses(options.nsqd_tcp_addresses)
    check_lookupd_addresses(options.lookupd_http_addresses)
    return options


def _check_content_type(options: NsqToHttpOptions) -> None:
    if options.content_type == DEFAULT_CONTENT_TYPE:
        return
    if not options.post:
        reason = "--content-type only used with --post"
        raise ConfigurationError("content-type", options.content_type, reason)
    if not options.content_type:
        raise ConfigurationError("content-type", "", "--content-type requires a value when used")


def _check_addresses(options: NsqToHttpOptions) -> None:
    if not options.get and not options.post:
        raise ConfigurationError("post", (), "--get or --post required")
    if options.get and options.post:
        raise ConfigurationError("get", options.get, "use --get or --post not both")
    for address in options.get:
        if address.count(PLACE_OF_BODY) != 1:
            raise ConfigurationError("get", address, "invalid GET address - must be a printf string")
    flag = "get" if options.get else "post"
    for address in options.addresses:
        if re.match(r"https?://[^/?#]", address) is None:
            raise ConfigurationError(flag, address, f"--{flag} {address} is no URL with http:// or https://")
