"""The command `nsqlake`: one entry to what the package can do, each as a sub-command."""

import argparse
import sys
import textwrap
from collections.abc import Sequence

from nsqlake import NSQ_VERSION, __version__
from nsqlake.apps.log_tool.parsers import add_log_parser

DEFAULT_RATE = 300

_DESCRIPTION = """\
NSQ in Python: a message broker that speaks NSQ's protocol and keeps every topic as a durable log.

The daemons and tools are commands of their own; --help of each has every flag and examples:
  nsqd --data-path=/some/directory   a broker on port 4150 that stores its messages there
  nsqlookupd                         tells consumers which nsqd has a topic
  nsq_tail, nsq_stat                 watch a topic
  nsq_to_file, nsq_to_http, nsq_to_nsq, to_nsq    move messages
"""
_EPILOG = """\
examples:
  nsqlake demo                       a broker with sample traffic, data in .run; Ctrl-C stops it
  nsqlake demo --data-path /tmp/d    the same with its data elsewhere
  nsqlake demo --help                what the demo starts and where it writes
  nsqlake log verify DIR             check every file of a data path, or of its copy
  nsqlake log dump DIR --topic T     the messages of a topic, also as JSON
"""
_DEMO_DESCRIPTION = """\
Start what there is so far, with sample data:
  nsqd        a child process on 127.0.0.1:4150, or on a free port if that one is taken
  a generator publishes made-up lines of a DNS query log to the topic query_logs
  a consumer  reads them on the channel demo and finishes each

Under --data-path:
  nsqd/       nsqd's own data path: the topics and their logs; kept from run to run
  nsqd.log    what nsqd logs

Ctrl-C, SIGTERM or SIGHUP stops all of it. Messages that were not finished are there at the next start.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit code of the process."""
    arguments = build_parser().parse_args(argv)
    code: int = arguments.run(arguments)
    return code


def _demo(arguments: argparse.Namespace) -> int:
    # Imported late: --help and --version must not wait for what only the demo needs.
    from nsqlake.apps.demo.run import run_demo

    return run_demo(arguments.data_path, arguments.rate)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nsqlake",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    python = ".".join(str(part) for part in sys.version_info[:3])
    version = f"nsqlake {__version__} (NSQ {NSQ_VERSION}, python{python})"
    parser.add_argument("--version", action="version", version=version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo = commands.add_parser(
        "demo",
        help="start nsqd with a sample publisher and a sample consumer",
        description=_DEMO_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    demo.add_argument(
        "--data-path", default=".run", metavar="DIR", help="where to write, made if absent (default: .run)"
    )
    rate_help = f"messages to publish per second (default: {DEFAULT_RATE})"
    demo.add_argument("--rate", type=_rate, default=DEFAULT_RATE, metavar="N", help=rate_help)
    demo.set_defaults(run=_demo)
    add_log_parser(commands)
    return parser


def _rate(text: str) -> int:
    rate = int(text)
    if not 1 <= rate <= 100_000:
        raise argparse.ArgumentTypeError(textwrap.shorten(f"{text} is not between 1 and 100000", 60))
    return rate


if __name__ == "__main__":
    sys.exit(main())
