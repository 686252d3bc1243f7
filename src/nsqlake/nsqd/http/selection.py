"""One message by its id, or all of them: what the endpoints that change single messages are told."""

import re

from nsqlake.nsqd.http.endpoints import Kind, Parameter
from nsqlake.runtime.http import HttpError, Request

__all__ = ["ALL", "ID", "SELECTION_ERRORS", "selected"]

_ID = re.compile(r"[0-9a-f]{16}")

ID = Parameter(
    name="id",
    in_example=True,
    example="0a1b2c3d4e5f6071",
    description="The message. Either this or `all`.",
)
ALL = Parameter(
    name="all", kind=Kind.FLAG, example="true", description="All messages, if true. Either this or `id`."
)
SELECTION_ERRORS = ((400, "MISSING_ARG_ID"), (400, "INVALID_ARG_ID"), (400, "INVALID_ARG_ALL"))


def selected(request: Request) -> str | None:
    """The id, None for all. Whoever means all has to say so, and nothing else."""
    message_id, every = request.params.get("id"), request.params.get("all")
    if every not in (None, "true", "1", "false", "0"):
        raise HttpError(400, "INVALID_ARG_ALL", reason="all must be true or false")
    wants_all = every in ("true", "1")
    if message_id is None and not wants_all:
        raise HttpError(400, "MISSING_ARG_ID", reason="id, or all=true, must be given")
    if message_id is not None and wants_all:
        raise HttpError(400, "INVALID_ARG_ALL", reason="id and all=true exclude each other")
    if message_id is not None and not _ID.fullmatch(message_id):
        raise HttpError(400, "INVALID_ARG_ID", reason="an id has 16 digits of 0-9 and a-f")
    return message_id
