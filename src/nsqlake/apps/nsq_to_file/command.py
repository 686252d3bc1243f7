"""The command line: flags, checks, exit codes."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from nsqlake import NSQ_VERSION
from nsqlake.apps.nsq_to_file.options import NAME, NsqToFileOptions, validate
from nsqlake.apps.tool_support.program import BAD_USAGE, FAILED, OK, Tool, fail, usage
from nsqlake.errors import NsqlakeError
from nsqlake.runtime.errors import FlagError
from nsqlake.runtime.go_flags import ParsedFlags, parse_flags

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal or a failure; returns the exit code of the process."""
    try:
        flags = parse_flags(NsqToFileOptions, sys.argv[1:] if argv is None else argv)
    except FlagError as error:
        print(error, file=sys.stderr)
        print(usage(TOOL), end="", file=sys.stderr)
        return BAD_USAGE
    if flags.help_requested:
        print(usage(TOOL), end="", file=sys.stderr)
        return OK
    try:
        return _start(flags)
    except NsqlakeError as error:
        return fail(str(error))
    except KeyboardInterrupt:  # before the signals are listened to
        return OK
    except Exception:
        logger.critical("%s stopped by an error of its own", NAME, exc_info=True)
        return FAILED


def _start(flags: ParsedFlags) -> int:
    if flags.arguments:
        return fail(f"unknown arguments: [{' '.join(flags.arguments)}]")
    options = NsqToFileOptions(**flags.values)  # type: ignore[arg-type]
    level = options.level
    if options.version:
        print(f"{NAME} v{NSQ_VERSION}")
        return OK
    validate(options)
    # Until there is a loop to listen: a log rotation right after the start must not end the archiver.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Imported late: help, version and a wrong flag must not wait for the event loop.
    import uvloop

    from nsqlake.apps.nsq_to_file.log_lines import setup_archive_logging

    setup_archive_logging(level, options.log_prefix)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(options))


async def run(options: NsqToFileOptions) -> int:
    from nsqlake.apps.nsq_to_file.running import archive_topics

    return await archive_topics(options)


TOOL = Tool(
    name=NAME,
    summary="Writes the messages of topics to files, a line each, and finishes them when they are on disk.",
    examples=(
        "nsq_to_file --topic=orders --output-dir=/var/archive --lookupd-http-address=127.0.0.1:4161",
        "nsq_to_file --topic-pattern=^log --gzip --rotate-interval=1h --lookupd-http-address=127.0.0.1:4161",
    ),
    options_type=NsqToFileOptions,
    check=validate,
    run=run,
)
