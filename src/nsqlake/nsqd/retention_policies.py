"""What a topic keeps of that which every channel has finished, by the topic's name.

`--retention-policy=PATTERN:time=24h,bytes=10GiB` is for topics whose whole name PATTERN matches (`*`, `?`,
`[abc]`); the first policy that matches counts, and what it does not name is 0. All other topics have
`--retention-time` and `--retention-bytes`.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from nsqlake.runtime.durations import parse_duration
from nsqlake.runtime.errors import ConfigurationError

__all__ = ["Kept", "RetentionPolicies"]

_FLAG = "retention-policy"
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,18})([A-Za-z]*)")


class Kept(NamedTuple):
    """What stays although nobody needs it: messages of the last `time_ns`, the last `nbytes` of the log."""

    time_ns: int = 0
    nbytes: int = 0

    def after_ns(self, now_ns: int) -> int | None:
        """From when on messages are kept; None when no time is set."""
        return now_ns - self.time_ns if self.time_ns else None


class RetentionPolicies:
    """Raises ConfigurationError for a policy that cannot be read."""

    def __init__(self, default: Kept, policies: Sequence[str] = ()) -> None:
        self._default = default
        self._policies = [_parse(text) for text in policies]
        # Asked for every topic every second.
        self.of = lru_cache(maxsize=4096)(self._find)

    def _find(self, topic: str) -> Kept:
        matching = (kept for pattern, kept in self._policies if fnmatchcase(topic, pattern))
        return next(matching, self._default)


def _parse(text: str) -> tuple[str, Kept]:
    pattern, colon, rules = text.partition(":")
    if not pattern or not colon or not rules:
        raise _refused(text, "must be PATTERN:time=24h,bytes=10GiB, with one rule or both")
    values: dict[str, int] = {}
    for rule in rules.split(","):
        name, _, value = rule.strip().partition("=")
        if name not in ("time", "bytes") or name in values:
            raise _refused(
                text, f"{rule.strip()!r} is not time=<duration> or bytes=<size>, each at most once"
            )
        values[name] = _time_ns(text, value) if name == "time" else _nbytes(text, value)
    return pattern, Kept(values.get("time", 0), values.get("bytes", 0))


def _time_ns(text: str, value: str) -> int:
    try:
        time_ns = parse_duration(value)
    except ValueError as error:
        raise _refused(text, str(error)) from None
    if time_ns < 0:
        raise _refused(text, f"time={value} must not be negative")
    return time_ns


def _nbytes(text: str, value: str) -> int:
    size = _SIZE.fullmatch(value)
    if size is None or size[2] not in _UNITS:
        raise _refused(
            text, f"bytes={value} must be a number, with KiB, MiB, GiB or TiB behind it or nothing"
        )
    return int(size[1]) * _UNITS[size[2]]


def _refused(text: str, reason: str) -> ConfigurationError:
    return ConfigurationError(_FLAG, text, f"--{_FLAG}={text}: {reason}")
