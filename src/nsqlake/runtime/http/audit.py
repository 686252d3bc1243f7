"""The record of what administrators did."""

import logging
import re
from collections.abc import Iterable

from nsqlake.runtime.go_text import go_quote
from nsqlake.runtime.http.errors import HttpError
from nsqlake.runtime.http.request import Request
from nsqlake.runtime.logs import ALWAYS

__all__ = ["record_change"]

logger = logging.getLogger(__name__)

NOBODY = "-"
_SHOWN_LENGTH = 128
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._#:-]+")


def record_change(request: Request, names: Iterable[str], status: int, identity: str | None = None) -> None:
    """One line with who, what and the outcome; `names` are the parameters to show."""
    # Who proved who they are cannot be made to vanish by a flood; anonymous floods are limited in rate.
    logger.info(
        "ADMIN(%s@%s): %s %s%s -> %d",
        NOBODY if identity is None else _shown(identity),
        request.remote_address,
        request.method,
        request.path[:_SHOWN_LENGTH],
        _shown_arguments(request, names),
        status,
        extra=ALWAYS if identity is not None else None,
    )


def _shown_arguments(request: Request, names: Iterable[str]) -> str:
    try:
        params = request.params
    except HttpError:
        return ""
    given = ((name, params.get(name)) for name in names)
    return "".join(f" {name}={_shown(value)}" for name, value in given if value is not None)


def _shown(value: str) -> str:
    """Such that it cannot be taken for another part of the line."""
    cut = value[:_SHOWN_LENGTH]
    return cut if _PLAIN_VALUE.fullmatch(cut) else go_quote(cut)
