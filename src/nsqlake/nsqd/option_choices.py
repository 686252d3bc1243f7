"""The options of nsqd that take one of a few words."""

import enum

from nsqlake.runtime.go_text import FALSE_WORDS, TRUE_WORDS, go_quote
from nsqlake.runtime.option_kinds import ChoiceKind


class TLSRequired(enum.IntEnum):
    """NSQ's numbers, as `/config/tls_required` shows them."""

    FALSE = 0
    TCP_HTTPS = 1
    TRUE = 2


class AckAfter(enum.StrEnum):
    """What must have happened to a published message before OK is sent."""

    WRITE = "write"
    SYNC = "sync"


class HttpAuth(enum.StrEnum):
    """Whether the HTTP API asks the auth server, once there is one."""

    ON = "on"
    OFF = "off"


TOPOLOGY_AWARE_CONSUMPTION = "topology-aware-consumption"
EXPERIMENTS = (TOPOLOGY_AWARE_CONSUMPTION,)  # what --enable-experiment knows

TLS_REQUIRED = ChoiceKind(
    "true|false|tcp-https",
    {
        "tcp-https": TLSRequired.TCP_HTTPS,
        **dict.fromkeys(("true", *(word.lower() for word in sorted(TRUE_WORDS))), TLSRequired.TRUE),
        **dict.fromkeys(("false", *(word.lower() for word in sorted(FALSE_WORDS))), TLSRequired.FALSE),
    },
    is_boolean=True,
    error=lambda text: f"strconv.ParseBool: parsing {go_quote(text.lower())}: invalid syntax",
)
ACK_AFTER = ChoiceKind("write|sync", {choice.value: choice for choice in AckAfter})
HTTP_AUTH = ChoiceKind("on|off", {choice.value: choice for choice in HttpAuth})
