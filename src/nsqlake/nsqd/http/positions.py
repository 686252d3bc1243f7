"""Positions in a topic's log, as requests spell them."""

from nsqlake.nsqd.core.seeking import SeekTarget, SeekTargetError
from nsqlake.nsqd.http.arguments import text
from nsqlake.nsqd.http.endpoints import Parameter
from nsqlake.runtime.http import HttpError, Request

__all__ = ["FROM", "TO", "position", "start_of"]

_SPELLINGS = (
    "`earliest`, `latest`, an offset, or a time as @ and unix seconds or as RFC 3339, "
    "which means the first message of that time or later."
)
TO = Parameter(name="to", required=True, example="earliest", description=f"Where to read on: {_SPELLINGS}")
FROM = Parameter(
    name="from", example="earliest", description=f"Where a channel that is new begins: {_SPELLINGS}"
)


def position(request: Request, name: str) -> SeekTarget:
    """400 MISSING_ARG_<NAME>; INVALID_ARG_<NAME> with what is accepted."""
    try:
        return SeekTarget.parse(text(request, name))
    except SeekTargetError as error:
        raise HttpError(400, f"INVALID_ARG_{name.upper()}", reason=str(error)) from error


def start_of(request: Request) -> SeekTarget | None:
    """Where a new channel shall begin, None if that is not said."""
    return position(request, FROM.name) if FROM.name in request.params else None
