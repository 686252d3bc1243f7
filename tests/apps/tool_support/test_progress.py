import asyncio
import io
import logging
import re
import sys

import pytest

from nsqlake.apps.tool_support.progress import Progress
from nsqlake.apps.tool_support.tool_logs import setup_tool_logging
from tests.apps.tools import logging_as_before
from tests.fakes.loop_turns import wait_until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_with(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, *, live_interval_s: float = 0.01) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("nsqlake.apps.tool_support.progress.LIVE_INTERVAL_S", live_interval_s)
    monkeypatch.setattr("nsqlake.apps.tool_support.progress.LINE_INTERVAL_S", live_interval_s)

    async def scenario() -> None:
        async with Progress("published") as progress:
            progress.add(3, 1500)
            await wait_until(lambda: "published 3" in stream.getvalue())
            logging.getLogger("nsqlake.apps.sample").info("meanwhile")
        logging.getLogger("nsqlake.apps.sample").info("afterwards")

    with logging_as_before():
        setup_tool_logging()
        asyncio.run(scenario())
    return stream.getvalue()


def test_a_terminal_shows_a_live_line_and_log_lines_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    shown = run_with(Terminal(), monkeypatch)

    assert "\x1b[" in shown
    assert re.search(r" meanwhile\n", shown)
    assert re.search(r" published 3 messages \(1\.5 kB\), [\d,]+/s\n\S+ \S+ afterwards\n$", shown)


def test_elsewhere_it_is_a_log_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run_with(io.StringIO(), monkeypatch).splitlines()

    texts = [re.sub(r"^\S+ \S+ |, [\d,]+/s$", "", line) for line in lines]
    assert texts == [
        "published 3 messages (1.5 kB)",
        "meanwhile",
        "published 3 messages (1.5 kB)",
        "afterwards",
    ]


def test_nothing_done_is_nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)

    async def scenario() -> None:
        async with Progress("published"):
            pass

    with logging_as_before():
        setup_tool_logging()
        asyncio.run(scenario())

    assert stream.getvalue() == ""
