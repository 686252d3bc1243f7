"""The command `nsqlookupd`."""

import sys
from collections.abc import Callable, Sequence

from nsqlake.apps.daemon_command import DaemonCommand
from nsqlake.nsqlookupd.options import NsqlookupdOptions, validate

Runner = Callable[[NsqlookupdOptions], int]


def main(argv: Sequence[str] | None = None, *, runner: Runner | None = None) -> int:
    """Run nsqlookupd until it stops; returns the exit code of the process."""
    return COMMAND.main(argv, runner=runner)


def _daemon_runner() -> Runner:
    from nsqlake.nsqlookupd.daemon import run

    return run


COMMAND = DaemonCommand(
    program="nsqlookupd",
    options_type=NsqlookupdOptions,
    validate=validate,
    log_settings=lambda options: (options.log_level, options.log_prefix),
    load_runner=_daemon_runner,
)


if __name__ == "__main__":
    sys.exit(main())
