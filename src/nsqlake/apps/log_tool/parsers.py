"""`nsqlake log` on the command line: what it takes, and help that teaches it."""

import argparse
import time
from typing import Any

from nsqlake.apps.log_tool.bounds import Bound, parse_bound
from nsqlake.nsqd.options import default_node_id

__all__ = ["FORMAT_NAMES", "add_log_parser"]

FORMAT_NAMES = ("text", "json", "hex", "raw")

Parsers = Any  # argparse does not name the type of what add_subparsers returns

_DESCRIPTION = """\
Look into the files of nsqd without an nsqd. Nothing is changed, repaired or moved.

PATH is a data path, the directory of one topic (topics/NAME.topic), or the log directory in it. It should be
of a stopped nsqd, or a copy. When an nsqd runs there the command says which process and ends with code 2,
unless --live is given.
"""
_VERIFY_DESCRIPTION = """\
Check every block of every segment by its checksum, and the state files, journals and indexes beside them.
Prints a line per topic, then its gaps and what is amiss with file and position.

  damaged:   bytes that are not what was written, or files that are missing
  note:      nothing is lost: nsqd puts it right at its next start

A gap is a range of offsets that no message has. An unclean stop leaves one that is no loss: a new epoch.

exit codes: 0 all good, 1 damage found, 2 something could not be read
"""
_VERIFY_EPILOG = """\
examples:
  nsqlake log verify /var/lib/nsqd                    everything, with a progress bar on a terminal
  nsqlake log verify /backup/nsqd --json              for a script; the exit code tells the outcome too
  nsqlake log verify /var/lib/nsqd/topics/orders.topic    one topic
  nsqlake log verify --live /var/lib/nsqd             beside a running nsqd: files may change meanwhile
"""
_DUMP_DESCRIPTION = """\
Write the messages of one topic to standard output, oldest first; finished ones too while they are kept.

  text   offset, time and body, one line each; what is not printable is escaped
  json   an object per line: offset, id, timestamp (ns), due if delayed, body (body_base64 if not UTF-8)
  hex    like text, with the body in hexadecimal digits
  raw    4-byte size and body, as in an MPUB and as /mpub?binary=true takes it, without the leading count

--from and --to take an offset, a time (2026-11-15T18:47, local unless it names a zone), or how long ago
(90m). --to is not included. Damaged blocks are left out and told on standard error.

exit codes: 0 all written, 1 damaged blocks were left out, 2 something could not be read
"""
_DUMP_EPILOG = """\
examples:
  nsqlake log dump /var/lib/nsqd --topic orders --limit 10
  nsqlake log dump /var/lib/nsqd --topic orders --from 90m --format json | jq .body
  nsqlake log dump /backup/nsqd/topics/orders.topic --from 2026-11-15T18:00Z --to 2026-11-15T19:00Z
  nsqlake log dump /var/lib/nsqd --topic orders --from 1763246410123457 --limit 1 --format hex
"""


def add_log_parser(commands: Parsers) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    log = commands.add_parser(
        "log", help="verify or dump the files of a data path", description=_DESCRIPTION, formatter_class=raw
    )
    actions = log.add_subparsers(title="commands", metavar="COMMAND", required=True)
    verify = actions.add_parser(
        "verify",
        help="check every block, state file and journal",
        description=_VERIFY_DESCRIPTION,
        epilog=_VERIFY_EPILOG,
        formatter_class=raw,
    )
    verify.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    verify.set_defaults(run=_verify)
    dump = actions.add_parser(
        "dump",
        help="write the messages of a topic to standard output",
        description=_DUMP_DESCRIPTION,
        epilog=_DUMP_EPILOG,
        formatter_class=raw,
    )
    _add_dump_arguments(dump)
    for parser in (verify, dump):
        parser.add_argument("path", metavar="PATH", help="a data path or the directory of a topic")
        parser.add_argument(
            "--live", action="store_true", help="go on although an nsqd runs on the data path"
        )


def _add_dump_arguments(dump: argparse.ArgumentParser) -> None:
    dump.add_argument("--topic", metavar="NAME", help="which topic; may be left out when there is only one")
    dump.add_argument(
        "--from",
        dest="begin",
        type=_bound,
        default=Bound(),
        metavar="WHERE",
        help="first message (default: the oldest)",
    )
    dump.add_argument(
        "--to",
        dest="end",
        type=_bound,
        default=Bound(),
        metavar="WHERE",
        help="where to stop (default: at the end)",
    )
    dump.add_argument("--limit", type=_count, metavar="N", help="stop after N messages")
    dump.add_argument("--format", choices=FORMAT_NAMES, default="text", help="default: text")
    dump.add_argument(
        "--node-id",
        type=int,
        default=default_node_id(),
        metavar="N",
        help="nsqd's --node-id, for the ids of --format=json (default: that of this host)",
    )
    dump.set_defaults(run=_dump)


def _verify(arguments: argparse.Namespace) -> int:
    # Imported late: --help must not wait for what only the work needs.
    from nsqlake.apps.log_tool.run import run_verify

    return run_verify(arguments)


def _dump(arguments: argparse.Namespace) -> int:
    from nsqlake.apps.log_tool.run import run_dump

    return run_dump(arguments)


def _bound(text: str) -> Bound:
    try:
        return parse_bound(text, time.time_ns())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError(f"{count} is negative")
    return count
