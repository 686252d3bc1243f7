import errno
import socket
import ssl

import pytest

from nsqlake.cluster.addresses import HttpAddress
from nsqlake.cluster.failures import failure_reason

ADDRESS = HttpAddress("http", "h", 1)


class ConnectError(Exception):
    """Named as httpx's own, which only its name tells apart here."""


class ReadError(Exception):
    """As above."""


class LocalProtocolError(Exception):
    """As above."""


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            caused(ConnectError(), OSError(errno.ECONNREFUSED, "x")),
            "dial tcp h:1: connect: connection refused",
        ),
        (
            caused(ConnectError(), caused(OSError("all failed"), OSError(errno.EHOSTUNREACH, "x"))),
            "dial tcp h:1: connect: no route to host",
        ),
        (
            caused(
                ConnectError(),
                ExceptionGroup("all", [OSError(errno.ENETUNREACH, ""), OSError(errno.ECONNREFUSED, "")]),
            ),
            "dial tcp h:1: connect: network is unreachable",
        ),
        (caused(ReadError(), OSError(errno.ECONNRESET, "x")), "read tcp: connection reset by peer"),
        (caused(ConnectError(), TimeoutError()), "dial tcp h:1: i/o timeout"),
        (caused(ConnectError(), socket.gaierror(-2, "x")), "dial tcp: lookup h: no such host"),
        (LocalProtocolError("Illegal header value b'Bearer hidden'"), None),
        (ReadError("line\nbreak"), "ReadError line\\x0abreak"),
        (ReadError(""), "ReadError"),
        (caused(ConnectError("handshake"), ssl.SSLError(1, "x")), "ConnectError handshake"),
    ],
)
def test_reason_is_what_lies_behind_the_error(error: Exception, reason: str | None) -> None:
    found = failure_reason(error, ADDRESS)

    assert "hidden" not in found
    assert reason is None or found == reason
