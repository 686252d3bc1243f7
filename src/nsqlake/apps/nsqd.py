"""The command `nsqd`."""

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Sequence

from nsqlake.apps.daemon_command import DaemonCommand
from nsqlake.nsqd.options import NsqdOptions, validate

QUIT = 2  # NSQ: after SIGQUIT

Runner = Callable[[NsqdOptions], int]


def main(argv: Sequence[str] | None = None, *, runner: Runner | None = None) -> int:
    """Run nsqd until it stops; returns the exit code of the process."""
    return COMMAND.main(argv, runner=runner)


def _daemon_runner() -> Runner:
    signal.signal(signal.SIGQUIT, _dump_and_die)
    from nsqlake.nsqd.daemon import run

    return run


def _dump_and_die(_number: int, _frame: object) -> None:
    """SIGQUIT: as after a crash, nothing more is written; what was acknowledged is in the log."""
    faulthandler.dump_traceback(all_threads=True)
    os._exit(QUIT)


COMMAND = DaemonCommand(
    program="nsqd",
    options_type=NsqdOptions,
    validate=validate,
    log_settings=lambda options: (options.log_level, options.log_prefix),
    load_runner=_daemon_runner,
)


if __name__ == "__main__":
    sys.exit(main())
