"""The flags that several tools have, as types of the fields of their options."""

from typing import Annotated

from nsqlake.apps.tool_support.client_options import CLIENT_OPTIONS, ClientOptions, parse_client_option
from nsqlake.runtime.option_kinds import BOOL, INT, STRING_LIST
from nsqlake.runtime.options import Option

SOURCE = "Where messages come from"
TUNING = "Tuning"
GENERAL = "General"
KEYS = f"keys are {', '.join(CLIENT_OPTIONS)}"


class ClientOptionsKind:
    """`key,value`, checked one by one, collected in order."""

    word = "key,value"
    is_boolean = False
    is_enum = False

    def parse(self, text: str) -> ClientOptions:
        return (parse_client_option(text),)

    def repeat(self, earlier: ClientOptions, later: ClientOptions) -> ClientOptions:
        return earlier + later

    def coerce(self, value: object) -> object:
        raise ValueError("not in a config file")

    def show(self, value: object) -> str:
        return ""


CLIENT_OPTIONS_KIND = ClientOptionsKind()

NsqdTcpAddresses = Annotated[
    tuple[str, ...],
    Option(
        "nsqd-tcp-address",
        STRING_LIST,
        "host:port of an nsqd to read from; may be given several times",
        group=SOURCE,
    ),
]
LookupdHttpAddresses = Annotated[
    tuple[str, ...],
    Option(
        "lookupd-http-address",
        STRING_LIST,
        "host:port or URL of an nsqlookupd that knows the nsqds; may be given several times",
        group=SOURCE,
    ),
]
MaxInFlight = Annotated[
    int, Option("max-in-flight", INT, "messages of one topic to hold unfinished at once", group=TUNING)
]
ConsumerOpt = Annotated[
    ClientOptions,
    Option(
        "consumer-opt",
        CLIENT_OPTIONS_KIND,
        f"an option of the consumer, such as msg_timeout,30s or snappy; may be given several times; {KEYS}",
        group=TUNING,
    ),
]
ProducerOpt = Annotated[
    ClientOptions,
    Option(
        "producer-opt",
        CLIENT_OPTIONS_KIND,
        f"an option of the producer, such as dial_timeout,5s or snappy; may be given several times; {KEYS}",
        group=TUNING,
    ),
]
ShowVersion = Annotated[bool, Option("version", BOOL, "print the version and exit", group=GENERAL)]
