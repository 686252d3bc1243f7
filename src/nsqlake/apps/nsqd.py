"""The command `nsqd`: options from the command line and the config file, then the daemon."""

import faulthandler
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.runtime.errors import CoercionError, ConfigurationError, FlagError, FloatFlagError, StartupError
from nsqlake.runtime.go_flags import ParsedFlags, parse_flags
from nsqlake.runtime.logs import escape, log_line, setup_logging, timestamp
from nsqlake.runtime.option_docs import usage_text
from nsqlake.runtime.toml_options import load_toml, resolve_options
from nsqlake.runtime.version import version_line

PROGRAM = "nsqd"
FATAL_PREFIX = "[nsqd] "  # NSQ ignores --log-prefix here
INSTANTIATE = "failed to instantiate nsqd"
OK, FAILED, BAD_USAGE = 0, 1, 2
QUIT = 2  # NSQ: after SIGQUIT

Runner = Callable[[NsqdOptions], int]

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None, *, runner: Runner | None = None) -> int:
    """Run nsqd until it stops; returns the exit code of the process."""
    try:
        flags = parse_flags(NsqdOptions, sys.argv[1:] if argv is None else argv)
    except FlagError as error:
        print(error, file=sys.stderr)
        print(usage_text(NsqdOptions, PROGRAM), end="", file=sys.stderr)
        return BAD_USAGE
    except FloatFlagError as error:
        return _fail(f"{timestamp(time.time(), micros=False)} {escape(str(error))}")
    if flags.help_requested:
        print(usage_text(NsqdOptions, PROGRAM), end="", file=sys.stderr)
        return OK
    if flags.values.get("version"):
        print(version_line(PROGRAM))
        return OK
    return _start(flags, runner)


def _start(flags: ParsedFlags, runner: Runner | None) -> int:
    try:
        path = flags.values.get("config")
        options = resolve_options(NsqdOptions, flags.values, load_toml(str(path)) if path else {})
    except CoercionError as error:
        return _fail(f"{timestamp(time.time(), micros=False)} ERROR: {escape(str(error))}")
    except ConfigurationError as error:
        return _fatal(str(error))
    try:
        options = validate(options)
        setup_logging(options.log_level, options.log_prefix)
        if flags.arguments:
            logger.warning("ignored what follows the flags: %s", " ".join(flags.arguments))
        if runner is None:
            signal.signal(signal.SIGQUIT, _dump_and_die)
        return (runner or _daemon_runner())(options)
    except StartupError as error:
        return _fatal(f"{error.during or INSTANTIATE} - {error}")
    except ConfigurationError as error:
        return _fatal(f"{INSTANTIATE} - {error}")
    except Exception:
        logger.critical("%s stopped by an error of its own", PROGRAM, exc_info=True)
        return FAILED


def _dump_and_die(_number: int, _frame: object) -> None:
    """SIGQUIT: as after a crash, nothing more is written; what was acknowledged is in the log."""
    faulthandler.dump_traceback(all_threads=True)
    os._exit(QUIT)


def _daemon_runner() -> Runner:
    # Imported late: --help, --version and a wrong flag must not wait for the event loop and numpy.
    from nsqlake.nsqd.daemon import run

    return run


def _fatal(text: str) -> int:
    return _fail(log_line(FATAL_PREFIX, "FATAL", text, time.time()))


def _fail(line: str) -> int:
    print(line, file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
