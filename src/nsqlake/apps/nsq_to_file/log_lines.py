"""The log of nsq_to_file: its own lines have a prefix and a level, those of the client library are NSQ's."""

import logging
from typing import TextIO

from nsqlake.apps.tool_support.tool_logs import TOOLS, ToolFormatter
from nsqlake.runtime.logs import LineFormatter, LogHandler, LogLevel, setup_logging


class ArchiveFormatter(logging.Formatter):
    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._own, self._library = LineFormatter(prefix), ToolFormatter()

    def format(self, record: logging.LogRecord) -> str:
        return (self._own if record.name.startswith(TOOLS) else self._library).format(record)


def setup_archive_logging(level: LogLevel, prefix: str, stream: TextIO | None = None) -> None:
    setup_logging(level, prefix, stream)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogHandler):
            handler.setFormatter(ArchiveFormatter(prefix))
