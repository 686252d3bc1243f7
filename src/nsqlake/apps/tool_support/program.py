"""The frame of every tool: flags, help, version, checks, exit codes."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from nsqlake import NSQ_VERSION, __version__
from nsqlake.errors import NsqlakeError
from nsqlake.runtime.errors import FlagError
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.logs import escape, timestamp
from nsqlake.runtime.option_docs import flag_lines

OK, FAILED, BAD_USAGE = 0, 1, 2
INTRODUCTION = """\
A flag is written -name or --name, its value --name=value or --name value. A flag of type bool is true
when it stands alone; to switch it off write --name=false.
Durations are numbers with a unit, such as 250ms, 1m30s or 2h; units are ns, us, ms, s, m and h."""

Options = TypeVar("Options", bound=msgspec.Struct)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tool(Generic[Options]):
    """A command: `check` returns the options to run with or raises ConfigurationError; `run` the exit code.

    `run` may raise any NsqlakeError: its text becomes a log line and the exit code 1.
    """

    name: str
    summary: str
    examples: tuple[str, ...]
    options_type: type[Options]
    check: Callable[[Options], Options]
    run: Callable[[Options], Coroutine[Any, Any, int]]


def user_agent(tool_name: str) -> str:
    return f"{tool_name}/{NSQ_VERSION} nsqlake/{__version__}"


def usage(tool: Tool[Any]) -> str:
    lines = [f"Usage of {tool.name}:", f"  {tool.name} [--flag=value ...]", "", tool.summary, ""]
    lines += ["examples:", *(f"  {example}" for example in tool.examples), "", INTRODUCTION]
    return "\n".join([*lines, *flag_lines(tool.options_type, has_config=False)]) + "\n"


def run_tool(tool: Tool[Options], argv: Sequence[str] | None = None) -> int:
    """Run until it ends; returns the exit code of the process."""
    try:
        flags = parse_flags(tool.options_type, sys.argv[1:] if argv is None else argv)
    except FlagError as error:
        print(error, file=sys.stderr)
        print(usage(tool), end="", file=sys.stderr)
        return BAD_USAGE
    if flags.help_requested:
        print(usage(tool), end="", file=sys.stderr)
        return OK
    if flags.values.get("version"):
        print(f"{tool.name} v{NSQ_VERSION}")
        return OK
    return _run_checked(tool, tool.options_type(**flags.values))


def _run_checked(tool: Tool[Options], options: Options) -> int:
    # Imported late: help, version and a wrong flag must not wait for the event loop.
    import uvloop

    from nsqlake.apps.tool_support.tool_logs import setup_tool_logging

    handler = setup_tool_logging()
    try:
        options = tool.check(options)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(tool.run(options))
    except NsqlakeError as error:
        return fail(str(error))
    except KeyboardInterrupt:  # before the tool listens for signals
        return OK
    except Exception:
        logger.critical("%s stopped by an error of its own", tool.name, exc_info=True)
        return FAILED
    finally:
        handler.flush()


def fail(text: str) -> int:
    """One log line on standard error; the exit code."""
    print(f"{timestamp(time.time(), micros=False)} {escape(text)}", file=sys.stderr)
    return FAILED
