"""Errors of the HTTP server.

NsqlakeError
└── HttpError    a request that is refused: status, code, reason, headers; answered as {"message":"CODE"}
"""

from nsqlake.errors import NsqlakeError

__all__ = ["Headers", "HttpError"]

Headers = tuple[tuple[str, str], ...]


class HttpError(NsqlakeError):
    """A handler raises it, the server answers it. `reason` is for people; NSQ's own errors have none."""

    def __init__(self, status: int, code: str, *, reason: str = "", headers: Headers = ()) -> None:
        super().__init__(f"{status} {code}: {reason}" if reason else f"{status} {code}")
        self.status, self.code, self.reason, self.headers = status, code, reason, headers
