"""Errors of the calls between the members of a cluster.

NsqlakeError
├── AddressError           an address that cannot be asked: address, reason
├── RequestError           no usable answer: address, method, url, reason
│   └── StatusError        an answer other than 200: status, body
└── NobodyAnsweredError    every one of those asked failed, or there was nobody to ask: kind, errors
"""

from collections.abc import Sequence

from nsqlake.errors import NsqlakeError
from nsqlake.wire.errors import quoted

MAX_QUOTED_CHARACTERS = 300


class AddressError(NsqlakeError):
    """Not an address of an HTTP server; `address` is shown without user and password."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address, self.reason = address, reason


class RequestError(NsqlakeError):
    """One server gave no usable answer; `url` holds no secrets."""

    retriable = True

    def __init__(self, address: str, *, method: str, url: str, reason: str) -> None:
        super().__init__(f'{method.capitalize()} "{url}": {reason}')
        self.address, self.method, self.url, self.reason = address, method, url, reason


class StatusError(RequestError):
    """The server answered with another status than 200; the text is NSQ's."""

    def __init__(self, address: str, *, method: str, url: str, status: int, phrase: str, body: bytes) -> None:
        reason = f"got response {status} {phrase} {quoted(body, MAX_QUOTED_CHARACTERS)}"
        super().__init__(address, method=method, url=url, reason=reason)
        self.status, self.body = status, body
        self.retriable = status >= 500

    def __str__(self) -> str:
        return self.reason


class NobodyAnsweredError(NsqlakeError):
    """`kind` is what was asked, `nsqd` or `nsqlookupd`; without errors nobody was there to ask."""

    retriable = True

    def __init__(self, kind: str, errors: Sequence[RequestError] = ()) -> None:
        super().__init__(f"failed to query any {kind}: {joined(errors)}")
        self.kind, self.errors = kind, tuple(errors)


def joined(errors: Sequence[RequestError]) -> str:
    """Their texts, a line each."""
    return "\n".join(str(error) for error in errors)
