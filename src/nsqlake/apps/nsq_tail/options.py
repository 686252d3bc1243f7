"""The flags of nsq_tail."""

import random
from typing import Annotated

import msgspec

from nsqlake.apps.tool_support.names import check_consumed
from nsqlake.apps.tool_support.option_types import (
    SOURCE,
    ConsumerOpt,
    LookupdHttpAddresses,
    MaxInFlight,
    NsqdTcpAddresses,
    ShowVersion,
)
from nsqlake.apps.tool_support.sources import check_lookupd_addresses, check_nsqd_addresses, check_one_source
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import BOOL, INT, STRING, STRING_LIST
from nsqlake.runtime.options import Option

OUTPUT = "What is shown"
CHANNEL_COUNT = 999_999  # NSQ


class NsqTailOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, and how to show it."""

    topics: Annotated[
        tuple[str, ...],
        Option("topic", STRING_LIST, "topic to read; may be given several times", group=SOURCE),
    ] = ()
    channel: Annotated[
        str,
        Option(
            "channel",
            STRING,
            "channel to read, the same of every topic; without it one that goes when nsq_tail ends",
            group=SOURCE,
        ),
    ] = ""
    nsqd_tcp_addresses: NsqdTcpAddresses = ()
    lookupd_http_addresses: LookupdHttpAddresses = ()

    n: Annotated[
        int, Option("n", INT, "end when a topic has shown as many messages; 0 for no end", group=OUTPUT)
    ] = 0
    print_topic: Annotated[
        bool, Option("print-topic", BOOL, "show the topic before every message", group=OUTPUT)
    ] = False

    max_in_flight: MaxInFlight = 200
    consumer_opts: ConsumerOpt = ()
    version: ShowVersion = False


def check(options: NsqTailOptions) -> NsqTailOptions:
    """In NSQ's order; what is left open is decided."""
    check_one_source(options.nsqd_tcp_addresses, options.lookupd_http_addresses)
    if not options.topics:
        raise ConfigurationError("topic", (), "--topic required")
    channel = options.channel or f"tail{random.randrange(CHANNEL_COUNT):06d}#ephemeral"  # noqa: S311
    for topic in options.topics:
        check_consumed(topic, channel)
    check_nsqd_addresses(options.nsqd_tcp_addresses)
    check_lookupd_addresses(options.lookupd_http_addresses)
    shown = min(options.n, options.max_in_flight) if options.n > 0 else options.max_in_flight
    return msgspec.structs.replace(options, channel=channel, max_in_flight=shown)
