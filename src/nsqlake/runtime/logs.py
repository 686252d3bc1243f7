"""NSQ's log lines: `[nsqd] 2026/11/15 18:47:29.123456 INFO: text`, in local time.

Nothing that came over a socket can forge or flood the log: what is not printable is escaped, lines are
cut, and only so many lines of one kind pass per second; the rest is counted and reported.
A line logged with `extra=ALWAYS` passes in any case: a total, of which no client decides how many there are.
"""

import enum
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from nsqlake.runtime.option_kinds import ChoiceKind

MAX_TEXT_LENGTH = 2_000
MAX_TRACEBACK_LINES = 60
LINES_PER_SECOND = 20  # of one kind
MAX_KINDS = 1_000  # a library that formats eagerly makes every line a kind of its own

PACKAGE = "nsqlake"
ALWAYS = {"is_unlimited": True}

_FIRST_WORDS_LENGTH = 120
_OTHER_KINDS = "(other kinds)"


class LogLevel(enum.IntEnum):
    """NSQ's numbers, as `/config/log_level` shows them."""

    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4
    FATAL = 5


LOG_LEVEL = ChoiceKind(
    "level",
    {level.name.lower(): level for level in LogLevel},
    error=lambda text: f"invalid log level '{text}' (debug, info, warn, error, fatal)",
)

_PYTHON_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARN: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.FATAL: logging.CRITICAL,
}


def escape(text: str, limit: int = MAX_TEXT_LENGTH) -> str:
    """`text` on one line: control and other unprintable characters escaped, cut at `limit` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit} more characters)"
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def timestamp(now_s: float, *, micros: bool = True) -> str:
    seconds = int(now_s)
    text = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(seconds))
    return f"{text}.{int((now_s - seconds) * 1_000_000):06d}" if micros else text


def log_line(prefix: str, level: str, text: str, now_s: float) -> str:
    return f"{prefix}{timestamp(now_s)} {level}: {escape(text)}"


class LineFormatter(logging.Formatter):
    """Each line of a traceback gets a head of its own, so that no exception's text can pass for a line."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        level = "FATAL" if record.levelno >= logging.CRITICAL else record.levelname
        texts = [record.getMessage()]
        if record.exc_info:
            lines = self.formatException(record.exc_info).splitlines()
            texts += [f"| {line}" for line in lines[-MAX_TRACEBACK_LINES:]]
        return "\n".join(log_line(self.prefix, level, text, record.created) for text in texts)


_Kind = tuple[int, str, str]  # level, logger, format string
_HeldBack = tuple[_Kind, int, str]  # how many lines, and how the first began


class RateLimit(logging.Filter):
    """At most `lines_per_second` lines of one logger, level and format string.

    What was held back is reported a second later: how many, of which logger, and how the first one began.
    The report comes with the next line of any kind, or by `flush`. DEBUG is not limited: who asks for it
    wants it all.
    """

    def __init__(
        self, report: Callable[[logging.LogRecord], None], *, lines_per_second: int = LINES_PER_SECOND
    ) -> None:
        super().__init__()
        self._report = report
        self._lines_per_second = lines_per_second
        self._second = 0
        self._seen: Counter[_Kind] = Counter()
        self._first: dict[_Kind, str] = {}  # of those held back
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG or getattr(record, "is_unlimited", False):
            return True
        kind = (record.levelno, record.name, str(record.msg))
        held_back: list[_HeldBack] = []
        with self._lock:
            if int(record.created) != self._second:
                held_back = self._take()
                self._second = int(record.created)
            if kind not in self._seen and len(self._seen) >= MAX_KINDS:
                kind = (record.levelno, record.name, _OTHER_KINDS)
            self._seen[kind] += 1
            passes = self._seen[kind] <= self._lines_per_second
            if not passes and kind not in self._first:
                self._first[kind] = escape(_text(record), _FIRST_WORDS_LENGTH)
        self._report_all(held_back)
        return passes

    def flush(self) -> None:
        with self._lock:
            held_back = self._take()
        self._report_all(held_back)

    def _take(self) -> "list[_HeldBack]":
        limit = self._lines_per_second
        held_back = [(kind, self._seen[kind] - limit, first) for kind, first in self._first.items()]
        self._seen.clear()
        self._first.clear()
        return held_back

    def _report_all(self, held_back: "list[_HeldBack]") -> None:
        text = "suppressed %d lines of %s, the first: %s"
        for (level, name, _message), count, first in held_back:
            args = (count, name, first)
            self._report(logging.LogRecord(__name__, level, __file__, 0, text, args, None))


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # arguments that do not fit: the handler reports that of a line it writes
        return str(record.msg)


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes NSQ's lines to `stream`, limited in rate."""

    def __init__(self, prefix: str, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(LineFormatter(prefix))
        self._rate_limit = RateLimit(self._emit_locked)
        self.addFilter(self._rate_limit)

    def _emit_locked(self, record: logging.LogRecord) -> None:
        self.acquire()
        try:
            self.emit(record)
        finally:
            self.release()

    def close(self) -> None:
        self._rate_limit.flush()
        super().close()


def setup_logging(level: LogLevel, prefix: str, stream: TextIO | None = None) -> None:
    """Send our lines from `level` on, and the warnings of libraries, to `stream` (standard error if None).

    Libraries' own INFO lines stay out: httpx would log whole URLs, secrets included.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LogHandler)]:
        root.removeHandler(handler)
        handler.close()
    root.addHandler(LogHandler(prefix, sys.stderr if stream is None else stream))
    set_log_level(level)


def set_log_level(level: LogLevel) -> None:
    """Change the level while running, as `PUT /config/log_level` does."""
    logging.getLogger(PACKAGE).setLevel(_PYTHON_LEVELS[level])
    logging.getLogger().setLevel(max(logging.WARNING, _PYTHON_LEVELS[level]))
