"""Where a channel shall read on: the spellings of a position, and the offset each means in a log."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from nsqlake.errors import NsqlakeError
from nsqlake.topiclog.block import Span

__all__ = [
    "FutureOffsetError",
    "OutsideLogError",
    "RemovedOffsetError",
    "SeekKind",
    "SeekTarget",
    "SeekTargetError",
    "SeekableLog",
    "check_offset",
    "resolve",
]

_ACCEPTED = (
    "earliest, latest, an offset in digits, and a time as @<unix seconds> or as RFC 3339, "
    "such as 2026-11-15T18:00:00Z"
)
_SHOWN_CHARACTERS = 64
_OFFSET = re.compile(r"[0-9]{1,19}")
_UNIX_TIME = re.compile(r"@([0-9]{1,10})(?:\.([0-9]{1,9}))?")
# A blank before the zone is a plus sign that a query string lost.
_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:([Zz])|([-+ ])([0-9]{2}:[0-9]{2}))"
)


class SeekTargetError(NsqlakeError):
    """A text that names no position."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:_SHOWN_CHARACTERS]!r} is no position; accepted are {_ACCEPTED}")
        self.text = text


class OutsideLogError(NsqlakeError):
    """A position that is not in the log. `offset` is None when a time was asked for."""

    def __init__(self, reason: str, *, offset: int | None, first: int, next_: int) -> None:
        super().__init__(reason)
        self.offset, self.first, self.next = offset, first, next_


class RemovedOffsetError(OutsideLogError):
    """What was asked for lies before the first offset that is retained."""

    def __init__(self, asked: str, *, offset: int | None, first: int, next_: int) -> None:
        super().__init__(
            f"{asked} is no longer kept: the log begins at offset {first}; "
            "--retention-time says how long messages are kept",
            offset=offset,
            first=first,
            next_=next_,
        )


class FutureOffsetError(OutsideLogError):
    """The offset has not been given out yet."""

    def __init__(self, offset: int, *, first: int, next_: int) -> None:
        super().__init__(
            f"offset {offset} lies beyond the end of the log, which is {next_}",
            offset=offset,
            first=first,
            next_=next_,
        )


class SeekKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class SeekTarget:
    """A position in any log; `value` is the offset, or the time in ns since 1970."""

    kind: SeekKind
    value: int = 0

    @classmethod
    def earliest(cls) -> "SeekTarget":
        """The first message that is retained."""
        return cls(SeekKind.EARLIEST)

    @classmethod
    def latest(cls) -> "SeekTarget":
        """What will be published from now on."""
        return cls(SeekKind.LATEST)

    @classmethod
    def at_offset(cls, offset: int) -> "SeekTarget":
        return cls(SeekKind.OFFSET, offset)

    @classmethod
    def at_time(cls, timestamp_ns: int) -> "SeekTarget":
        """The first message of this time or later."""
        return cls(SeekKind.TIME, timestamp_ns)

    @classmethod
    def parse(cls, text: str) -> "SeekTarget":
        """Raises SeekTargetError, which says what is accepted."""
        if text in (SeekKind.EARLIEST.value, SeekKind.LATEST.value):
            return cls(SeekKind(text))
        if _OFFSET.fullmatch(text):
            return cls.at_offset(int(text))
        if found := _UNIX_TIME.fullmatch(text):
            return cls.at_time(_nanoseconds(int(found[1]), found[2]))
        if found := _RFC_3339.fullmatch(text):
            zone = "+00:00" if found[4] else found[5].replace(" ", "+") + found[6]
            try:
                moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}")
            except ValueError:
                raise SeekTargetError(text) from None
            return cls.at_time(_nanoseconds(int(moment.timestamp()), found[3]))
        raise SeekTargetError(text)

    def __str__(self) -> str:
        if self.kind is SeekKind.OFFSET:
            return f"offset {self.value}"
        if self.kind is SeekKind.TIME:
            return f"time @{self.value // 10**9}.{self.value % 10**9:09d}"
        return str(self.kind.value)


def _nanoseconds(seconds: int, fraction: str | None) -> int:
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


class SeekableLog(Protocol):
    """What finding a position needs of a log."""

    @property
    def first(self) -> int: ...
    @property
    def next(self) -> int: ...
    def read(self, offset: int) -> Span | None: ...
    def offset_at(self, timestamp_ns: int) -> int: ...
    def is_whole_since(self, origin: int) -> bool: ...


def check_offset(log: SeekableLog, offset: int) -> int:
    """`offset`, if the log holds it or will give it out next; else raises OutsideLogError."""
    first, next_ = log.first, log.next
    if offset < first:
        raise RemovedOffsetError(f"offset {offset}", offset=offset, first=first, next_=next_)
    if offset > next_:
        raise FutureOffsetError(offset, first=first, next_=next_)
    return offset


def resolve(target: SeekTarget, log: SeekableLog, origin: int) -> int:
    """The offset that `target` means in a log that began at `origin`; raises OutsideLogError."""
    if target.kind is SeekKind.EARLIEST:
        return log.first
    if target.kind is SeekKind.LATEST:
        return log.next
    if target.kind is SeekKind.OFFSET:
        return check_offset(log, target.value)
    return _offset_at(target, log, origin)


def _offset_at(target: SeekTarget, log: SeekableLog, origin: int) -> int:
    first = log.first
    oldest = log.read(first)
    is_older = oldest is None or target.value < oldest.timestamp(max(first - oldest.base, 0))
    if is_older and not log.is_whole_since(origin):
        # Nobody knows of what time the messages were that are gone.
        raise RemovedOffsetError(str(target), offset=None, first=first, next_=log.next)
    return max(first, log.offset_at(target.value))
