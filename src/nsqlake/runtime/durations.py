"""Go's notation of durations, such as `1h30m5.5s`, as integers of nanoseconds."""

import re

from nsqlake.runtime.go_text import INT64_MAX, INT64_MIN, go_quote

MICROSECOND_NS = 1_000
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS

UNITS_NS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "\N{MICRO SIGN}s": MICROSECOND_NS,
    "\N{GREEK SMALL LETTER MU}s": MICROSECOND_NS,
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "h": HOUR_NS,
}
MAX_TEXT_LENGTH = 256  # far more than any int64 needs; keeps int() cheap on hostile text

_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


def parse_duration(text: str) -> int:
    """Nanoseconds of `text`; ValueError with Go's wording otherwise."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    if not unsigned or len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    total = 0
    position = 0
    while position < len(unsigned):
        term = _TERM.match(unsigned, position)
        assert term is not None  # every part of the pattern may be empty
        total += _term_ns(term, text)
        position = term.end()
    total = -total if text[0] == "-" else total
    if not INT64_MIN <= total <= INT64_MAX:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    return total


def _term_ns(term: re.Match[str], text: str) -> int:
    whole, fraction, unit = term.group(1), term.group(2) or "", term.group(3)
    if not whole and not fraction:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    if not unit:
        raise ValueError(f"time: missing unit in duration {go_quote(text)}")
    if unit not in UNITS_NS:
        raise ValueError(f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}")
    scale = UNITS_NS[unit]
    parts: int = 10 ** len(fraction)
    return int(whole or "0") * scale + int(fraction or "0") * scale // parts


def format_duration(duration_ns: int) -> str:
    """Go's shortest notation: `1m0s`, `250ms`, `1.5s`, `0s`."""
    sign = "-" if duration_ns < 0 else ""
    rest_ns = abs(duration_ns)
    if rest_ns == 0:
        return "0s"
    for unit, scale in (("ns", 1), ("\N{MICRO SIGN}s", MICROSECOND_NS), ("ms", MILLISECOND_NS)):
        if rest_ns < scale * 1000:
            return f"{sign}{_decimal(rest_ns, scale)}{unit}"
    hours, rest_ns = divmod(rest_ns, HOUR_NS)
    minutes, rest_ns = divmod(rest_ns, MINUTE_NS)
    seconds = f"{_decimal(rest_ns, SECOND_NS)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(value: int, scale: int) -> str:
    whole, rest = divmod(value, scale)
    if not rest:
        return str(whole)
    digits = len(str(scale)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
