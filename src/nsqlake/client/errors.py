"""What can go wrong for a client.

NsqlakeError
└── NsqClientError
    ├── ConnectError                  no connection to an nsqd: address, reason; retriable
    │   └── HandshakeRefusedError     it answered, and refused or was refused: code, text, permanent
    ├── ConnectionLostError           a connection ended: address, reason; retriable
    ├── ServerError                   an error frame: address, code, text, fatal
    ├── PublishError                  topic, address, reason
    │   ├── PublishRejectedError      an error frame for this publish; not stored
    │   ├── PublishNotSentError       not stored, safe to retry; retriable
    │   └── PublishUnknownError       sent, no answer: it may be stored or not
    ├── ClientClosedError             a call on a client that was closed
    └── InvalidArgumentError          refused before anything was sent: argument, value, reason
"""

from __future__ import annotations

from typing import Final

from nsqlake.errors import NsqlakeError
from nsqlake.wire.errors import printable

MAX_TEXT: Final = 1024  # characters of what a peer says
MAX_VALUE: Final = 64  # characters of what a caller passed

# nsqd goes on after the first three. After the others NSQ's nsqd closes, ours goes on when its disk was full.
SURVIVABLE_CODES: Final = frozenset(
    {"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED", "E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED"}
)
# What trying again soon does not cure.
PERMANENT_CODES: Final = frozenset(
    {
        "E_INVALID",
        "E_BAD_TOPIC",
        "E_BAD_CHANNEL",
        "E_BAD_BODY",
        "E_IDENTIFY_FAILED",
        "E_AUTH_FIRST",
        "E_AUTH_DISABLED",
        "E_AUTH_FAILED",
        "E_AUTH_ERROR",
        "E_UNAUTHORIZED",
    }
)


class NsqClientError(NsqlakeError):
    """Base class of what the client library raises."""


class ConnectError(NsqClientError):
    """An nsqd could not be reached, or the handshake with it did not end well."""

    retriable = True
    permanent = False

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address, self.reason = address, reason


class HandshakeRefusedError(ConnectError):
    """nsqd refused us, or we refused it; `permanent` says that trying again soon will not help.

    `code` is nsqd's, or one of ours: TLS_NOT_GRANTED, TLS_FAILED, AUTH_SECRET_MISSING.
    """

    def __init__(self, address: str, code: str, text: str, *, permanent: bool | None = None) -> None:
        super().__init__(address, _joined(code, text))
        self.code, self.text = code, text
        self.permanent = code in PERMANENT_CODES if permanent is None else permanent


class ConnectionLostError(NsqClientError):
    """A connection that was ready has ended without our asking."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address, self.reason = address, reason


class ServerError(NsqClientError):
    """An error frame; `fatal` says that nsqd closes the connection after it."""

    def __init__(self, address: str, code: str, text: str) -> None:
        super().__init__(f"{address}: {_joined(code, text)}")
        self.address, self.code, self.text = address, code, text
        self.fatal = code not in SURVIVABLE_CODES

    @classmethod
    def decode(cls, address: str, payload: bytes) -> ServerError:
        code, _, text = printable(payload, MAX_TEXT).partition(" ")
        return cls(address, code, text)


class PublishError(NsqClientError):
    """A publish that did not succeed; `address` is None when it was given to no nsqd."""

    def __init__(self, topic: str, address: str | None, reason: str) -> None:
        super().__init__(f"publish to {topic}{f' at {address}' if address else ''}: {reason}")
        self.topic, self.address, self.reason = topic, address, reason


class PublishRejectedError(PublishError):
    """nsqd refused this publish; it is not stored."""

    def __init__(self, topic: str, address: str | None, code: str, text: str) -> None:
        super().__init__(topic, address, _joined(code, text))
        self.code, self.text = code, text


class PublishNotSentError(PublishError):
    """Nothing was sent, or nsqd cannot have read it; it is not stored and may be tried again."""

    retriable = True


class PublishUnknownError(PublishError):
    """Sent, but the answer never came: it may be stored or not, and trying again may duplicate it."""


class ClientClosedError(NsqClientError):
    """A call on a client that was closed; `client` says which."""

    def __init__(self, client: str = "client") -> None:
        super().__init__(f"{client} is closed")
        self.client = client


class InvalidArgumentError(NsqClientError, ValueError):
    """An argument that no nsqd would take; `value` is its repr, shortened."""

    def __init__(self, argument: str, value: object, reason: str) -> None:
        shown = shortened(value)
        super().__init__(f"{argument}={shown}: {reason}")
        self.argument, self.value, self.reason = argument, shown, reason


def shortened(value: object) -> str:
    """A repr that is safe in a log line: bytes only by their length, the rest cut."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    text = repr(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."


def _joined(code: str, text: str) -> str:
    return f"{code} {text}" if text else code
