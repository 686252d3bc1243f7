"""Where a dump begins and ends: an offset, a time, or how long ago."""

from datetime import UTC, datetime
from typing import NamedTuple

from nsqlake.runtime.durations import parse_duration

__all__ = ["Bound", "parse_bound"]

_NS = 1_000_000_000


class Bound(NamedTuple):
    """An end of the range: an offset, or a time."""

    offset: int | None = None
    time_ns: int | None = None


def parse_bound(text: str, now_ns: int) -> Bound:
    """An offset (digits), a time of ISO 8601 (local unless it names its zone), or so long ago: `90m`."""
    if text.isascii() and text.isdigit():
        return Bound(offset=int(text))
    try:
        return Bound(time_ns=now_ns - abs(parse_duration(text)))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither an offset, nor a time like 2026-11-15T18:47, nor a duration like 90m"
        ) from None
    whole = int(moment.replace(microsecond=0).timestamp())
    return Bound(time_ns=whole * _NS + moment.microsecond * 1000)
