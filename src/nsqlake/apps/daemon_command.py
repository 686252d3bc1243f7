"""A daemon as a command: options from the command line and the config file, then the daemon itself."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from nsqlake.runtime.errors import CoercionError, ConfigurationError, FlagError, FloatFlagError, StartupError
from nsqlake.runtime.go_flags import ParsedFlags, parse_flags
from nsqlake.runtime.logs import LogLevel, escape, log_line, setup_logging, timestamp
from nsqlake.runtime.option_docs import usage_text
from nsqlake.runtime.toml_options import load_toml, resolve_options
from nsqlake.runtime.version import version_line

OK, FAILED, BAD_USAGE = 0, 1, 2

logger = logging.getLogger(__name__)


Options = TypeVar("Options", bound=msgspec.Struct)


@dataclass(frozen=True)
class DaemonCommand(Generic[Options]):
    """`load_runner` is called late: --help, --version and a wrong flag must not wait for its imports."""

    program: str
    options_type: type[Options]
    validate: Callable[[Options], Options]
    log_settings: Callable[[Options], tuple[LogLevel, str]]  # level and prefix
    load_runner: Callable[[], Callable[[Options], int]]

    def main(
        self, argv: Sequence[str] | None = None, *, runner: Callable[[Options], int] | None = None
    ) -> int:
        """Run the daemon, or `runner` in its place, until it stops; returns the exit code of the process."""
        try:
            flags = parse_flags(self.options_type, sys.argv[1:] if argv is None else argv)
        except FlagError as error:
            print(error, file=sys.stderr)
            print(usage_text(self.options_type, self.program), end="", file=sys.stderr)
            return BAD_USAGE
        except FloatFlagError as error:
            return _fail(f"{timestamp(time.time(), micros=False)} {escape(str(error))}")
        if flags.help_requested:
            print(usage_text(self.options_type, self.program), end="", file=sys.stderr)
            return OK
        if flags.values.get("version"):
            print(version_line(self.program))
            return OK
        return self._start(flags, runner)

    def _start(self, flags: ParsedFlags, runner: Callable[[Options], int] | None) -> int:
        try:
            path = flags.values.get("config")
            options = resolve_options(self.options_type, flags.values, load_toml(str(path)) if path else {})
        except CoercionError as error:
            return _fail(f"{timestamp(time.time(), micros=False)} ERROR: {escape(str(error))}")
        except ConfigurationError as error:
            return self._fatal(str(error))
        instantiate = f"failed to instantiate {self.program}"
        try:
            options = self.validate(options)
            setup_logging(*self.log_settings(options))
            if flags.arguments:
                logger.warning("ignored what follows the flags: %s", " ".join(flags.arguments))
            return (runner or self.load_runner())(options)
        except StartupError as error:
            return self._fatal(f"{error.during or instantiate} - {error}")
        except ConfigurationError as error:
            return self._fatal(f"{instantiate} - {error}")
        except Exception:
            logger.critical("%s stopped by an error of its own", self.program, exc_info=True)
            return FAILED

    def _fatal(self, text: str) -> int:
        # NSQ ignores --log-prefix here.
        return _fail(log_line(f"[{self.program}] ", "FATAL", text, time.time()))


def _fail(line: str) -> int:
    print(line, file=sys.stderr)
    return FAILED
