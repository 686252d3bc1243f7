"""How much a tool has done: a live line when standard error is a terminal, else a log line now and then."""

import asyncio
import logging
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from nsqlake.apps.tool_support.rates import RateMeter, rates_text
from nsqlake.runtime.logs import ALWAYS, LogHandler

if TYPE_CHECKING:
    from rich.live import Live

LIVE_INTERVAL_S = 0.5
LINE_INTERVAL_S = 60.0

logger = logging.getLogger(__name__)


class Progress:
    """Counts with `add` between entering and leaving; `verb` is what was done to the messages.

    With `owns_terminal=False` something else writes to the terminal and no live line is shown.
    """

    def __init__(self, verb: str, *, owns_terminal: bool = True) -> None:
        self._verb = verb
        self._meter = RateMeter(time.monotonic())
        self._stack = ExitStack()
        self._is_live = owns_terminal and sys.stderr.isatty()
        self._task: asyncio.Task[None] | None = None

    def add(self, message_count: int = 1, size_bytes: int = 0) -> None:
        self._meter.add(message_count, size_bytes)

    async def __aenter__(self) -> Self:
        report = self._report_live(_open_live(self._stack)) if self._is_live else self._report_lines()
        self._task = asyncio.create_task(report, name="progress")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self._stack.close()
        if self._meter.message_count and kind is None:
            logger.info("%s", self._text(is_final=True), extra=ALWAYS)

    def _text(self, *, is_final: bool = False) -> str:
        return rates_text(self._verb, self._meter.sample(time.monotonic()), is_final=is_final)

    async def _report_live(self, live: "Live") -> None:
        while True:
            await asyncio.sleep(LIVE_INTERVAL_S)
            live.update(self._text(), refresh=True)

    async def _report_lines(self) -> None:
        while True:
            await asyncio.sleep(LINE_INTERVAL_S)
            if self._meter.has_news:
                logger.info("%s", self._text(), extra=ALWAYS)


def _open_live(stack: ExitStack) -> "Live":
    """While it is open, log lines go above the live line."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, LogHandler)]
    stack.callback(_redirect, handlers)
    live = stack.enter_context(Live("", console=console, auto_refresh=False, transient=True))
    _redirect(handlers)
    return live


def _redirect(handlers: list[LogHandler]) -> None:
    for handler in handlers:
        handler.setStream(sys.stderr)
