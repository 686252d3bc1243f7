"""The log lines of the tools, in local time, on standard error.

Of the tool itself: `2026/11/15 18:47:29 text`; of the client library, as NSQ's Go client writes them:
`2026/11/15 18:47:29 INF    1 [orders/archive] (127.0.0.1:4150) text`. The number counts the consumers.
"""

import logging
import re
import sys
from typing import TextIO

from nsqlake.runtime.logs import MAX_TRACEBACK_LINES, PACKAGE, LogHandler, escape, timestamp

TOOLS = f"{PACKAGE}.apps."

_LEVELS = {logging.DEBUG: "DBG", logging.INFO: "INF", logging.WARNING: "WRN", logging.ERROR: "ERR"}
_WHO = re.compile(r"(CONSUMER|NSQD)\(([^()]*)\): ")


class ToolFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        head = f"{timestamp(record.created, micros=False)} "
        if not record.name.startswith(TOOLS):
            who, text = self._who(record, text)
            head += who
        texts = [text]
        if record.exc_info:
            lines = self.formatException(record.exc_info).splitlines()
            texts += [f"| {line}" for line in lines[-MAX_TRACEBACK_LINES:]]
        return "\n".join(head + escape(each) for each in texts)

    def _who(self, record: logging.LogRecord, text: str) -> tuple[str, str]:
        """Level, number, consumer and address; and the text without them."""
        consumer, address = getattr(record, "consumer", ""), getattr(record, "nsqd", "")
        if found := _WHO.match(text):
            text = text[found.end() :]
            consumer = found[2] if found[1] == "CONSUMER" else consumer
            address = found[2] if found[1] == "NSQD" else address
        number = self._numbers.setdefault(consumer, len(self._numbers) + 1) if consumer else 1
        level = _LEVELS.get(min(record.levelno, logging.ERROR), "INF")
        where = (f"[{consumer}] " if consumer else "") + (f"({address}) " if address else "")
        return f"{level:<4} {number:>3} {where}", text


def setup_tool_logging(stream: TextIO | None = None) -> LogHandler:
    """Our lines from INFO on, and the warnings of libraries, to `stream`: standard error if None."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LogHandler)]:
        root.removeHandler(handler)
        handler.close()
    handler = LogHandler("", sys.stderr if stream is None else stream)
    handler.setFormatter(ToolFormatter())
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(PACKAGE).setLevel(logging.INFO)
    return handler
