"""The flags of nsq_to_nsq."""

from typing import Annotated

import msgspec

from nsqlake.apps.tool_support.destinations import HOSTPOOL
from nsqlake.apps.tool_support.names import is_name
from nsqlake.apps.tool_support.option_types import (
    SOURCE,
    TUNING,
    ConsumerOpt,
    LookupdHttpAddresses,
    MaxInFlight,
    NsqdTcpAddresses,
    ProducerOpt,
    ShowVersion,
)
from nsqlake.apps.tool_support.sources import check_lookupd_addresses, check_nsqd_addresses, check_one_source
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import INT, STRING, STRING_LIST
from nsqlake.runtime.options import Option

TARGET = "Where messages go"
JSON = "JSON messages"
DESTINATION = "destination-nsqd-tcp-address"


class NsqToNsqOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, what of it to pass on, and where to."""

    topics: Annotated[
        tuple[str, ...],
        Option("topic", STRING_LIST, "topic to read; may be given several times", group=SOURCE),
    ] = ()
    channel: Annotated[
        str, Option("channel", STRING, "channel to read, the same of every topic", group=SOURCE)
    ] = "nsq_to_nsq"
    nsqd_tcp_addresses: NsqdTcpAddresses = ()
    lookupd_http_addresses: LookupdHttpAddresses = ()

    destinations: Annotated[
        tuple[str, ...],
        Option(
            DESTINATION,
            STRING_LIST,
            "host:port of an nsqd to publish to; may be given several times",
            group=TARGET,
        ),
    ] = ()
    destination_topic: Annotated[
        str,
        Option("destination-topic", STRING, "topic to publish to, if not that of the message", group=TARGET),
    ] = ""
    mode: Annotated[
        str,
        Option(
            "mode", STRING, "which nsqd gets a message: round-robin, hostpool, epsilon-greedy", group=TARGET
        ),
    ] = HOSTPOOL

    require_json_field: Annotated[
        str, Option("require-json-field", STRING, "pass only messages with this field", group=JSON)
    ] = ""
    require_json_value: Annotated[
        str,
        Option(
            "require-json-value", STRING, "pass only messages whose required field has this value", group=JSON
        ),
    ] = ""
    whitelist_json_fields: Annotated[
        tuple[str, ...],
        Option(
            "whitelist-json-field",
            STRING_LIST,
            "pass only this field; may be given several times",
            group=JSON,
        ),
    ] = ()

    max_in_flight: MaxInFlight = 200
    status_every: Annotated[
        int, Option("status-every", INT, "answers between two lines of statistics; 0 for none", group=TUNING)
    ] = 250
    consumer_opts: ConsumerOpt = ()
    producer_opts: ProducerOpt = ()
    version: ShowVersion = False


def check(options: NsqToNsqOptions) -> NsqToNsqOptions:
    """In NSQ's order."""
    if not options.topics or not options.channel:
        raise ConfigurationError("topic", (), "--topic and --channel are required")
    for topic in options.topics:
        _check_name("topic", topic)
    if options.destination_topic:
        _check_name("destination-topic", options.destination_topic)
    _check_name("channel", options.channel)
    check_one_source(options.nsqd_tcp_addresses, options.lookupd_http_addresses)
    if not options.destinations:
        raise ConfigurationError(DESTINATION, (), f"--{DESTINATION} required")
    check_nsqd_addresses(options.destinations, DESTINATION)
    check_nsqd_addresses(options.nsqd_tcp_addresses)
    check_lookupd_addresses(options.lookupd_http_addresses)
    return options


def _check_name(flag: str, name: str) -> None:
    if not is_name(name):
        raise ConfigurationError(flag, name, f"--{flag} is invalid")
