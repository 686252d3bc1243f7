"""Why a call failed, in the words of NSQ's tools where they have any."""

import socket
import ssl
from collections.abc import Iterator

from nsqlake.cluster.addresses import HttpAddress
from nsqlake.runtime.addresses import error_text
from nsqlake.wire.errors import printable

MAX_REASON_CHARACTERS = 200


def failure_reason(error: BaseException, address: HttpAddress) -> str:
    """`error` is what httpx raised; what lies behind it says more."""
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return f"dial tcp: lookup {address.host}: no such host"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"tls: failed to verify certificate: {_shown(cause.verify_message)}"
        if isinstance(cause, TimeoutError):
            return f"dial tcp {address}: i/o timeout"
        if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
            during = f"dial tcp {address}: connect" if type(error).__name__ == "ConnectError" else "read tcp"
            return f"{during}: {error_text(cause)}"
    name = type(error).__name__
    if name == "LocalProtocolError":  # its text quotes the header, secret included
        return "the request cannot be written: a secret or address has characters that no header takes"
    return f"{name} {_shown(str(error))}".rstrip()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The innermost first: it is the one that knows the errno."""
    if error is None:
        return
    yield from _causes(error.__cause__ or error.__context__)
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _causes(member)
    yield error


def _shown(text: str) -> str:
    return printable(text.encode("utf-8", "replace"), MAX_REASON_CHARACTERS)
