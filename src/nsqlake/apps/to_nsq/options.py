"""The flags of to_nsq."""

import os
from typing import Annotated

import msgspec

from nsqlake.apps.tool_support.option_types import ProducerOpt
from nsqlake.apps.tool_support.sources import check_nsqd_addresses
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import INT, STRING, STRING_LIST
from nsqlake.runtime.options import Option


class ToNsqOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to publish, and where to."""

    topic: Annotated[str, Option("topic", STRING, "topic to publish to")] = ""
    nsqd_tcp_addresses: Annotated[
        tuple[str, ...],
        Option(
            "nsqd-tcp-address",
            STRING_LIST,
            "host:port of an nsqd; may be given several times: each gets every message",
        ),
    ] = ()
    delimiter: Annotated[str, Option("delimiter", STRING, "byte at which the input is cut")] = "\n"
    rate: Annotated[int, Option("rate", INT, "messages per second at most; 0 for as fast as it goes")] = 0
    producer_opts: ProducerOpt = ()

    @property
    def delimiter_byte(self) -> bytes:
        return os.fsencode(self.delimiter)


def check(options: ToNsqOptions) -> ToNsqOptions:
    if not options.topic:
        raise ConfigurationError("topic", "", "--topic required")
    if len(options.delimiter_byte) != 1:
        raise ConfigurationError("delimiter", options.delimiter, "--delimiter must be a single byte")
    if not options.nsqd_tcp_addresses:
        raise ConfigurationError("nsqd-tcp-address", (), "--nsqd-tcp-address required")
    check_nsqd_addresses(options.nsqd_tcp_addresses)
    return options
