"""Compare the HTTP side of our nsqd with that of a peer; run as `python -m bench.http`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import bench.http_runners  # noqa: F401 - makes its loads known
from bench.case import Better, Case, LogReadLoad, Metric, StatsLoad, WrkLoad
from bench.compare import OURS, QUICK_ROUNDS, QUICK_SCALE, QUICK_SECONDS, list_cases, write_json
from bench.comparison import Comparison, Settings
from bench.progress import show_progress
from bench.report import print_table
from bench.row import Row

BODY = b"x" * 200
BATCH = 200
LINES = b"\n".join([BODY] * BATCH)
BINARY = BATCH.to_bytes(4, "big") + (len(BODY).to_bytes(4, "big") + BODY) * BATCH
MB = 1024 * 1024

PUBLISHED = (Metric("rate", "msg/s", 1.5, 1.0), Metric("p99_ms", "ms", better=Better.LOWER))

CASES = (
    Case("pub", "POST /pub of 200 B, 20 connections", WrkLoad("/pub?topic=bench", BODY), PUBLISHED),
    Case("mpub", "POST /mpub of 200 lines of 200 B", WrkLoad("/mpub?topic=bench", LINES, BATCH), PUBLISHED),
    Case(
        "mpub-binary",
        "the same with binary=true",
        WrkLoad("/mpub?topic=bench&binary=true", BINARY, BATCH),
        PUBLISHED,
    ),
    Case(
        "stats",
        "GET /stats?format=json of 2,000 topics with a channel each, while 5,000 msg/s flow",
        StatsLoad(2_000),
        (
            Metric("stats_ms", "ms", better=Better.LOWER, limit=100),
            Metric("stall_ms", "ms stall", better=Better.LOWER),
            Metric("quiet_stall_ms", "ms stall unasked", better=Better.LOWER),
        ),
    ),
    Case(
        "log-read",
        "GET /log/read of 256 MB in the page cache, 64 MB at a time, 1 connection",
        LogReadLoad(1_300_000, 64 * MB),
        (Metric("rate", "MB/s", limit=500),),
    ),
)
# The peer takes minutes to make 2,000 topics, and has no log to read.
OURS_ONLY = {"log-read", "stats"}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.list:
        list_cases(options.only)
        return 0
    settings = settings_from(options)
    rows = run_all(settings, options.only)
    print_table(rows)
    if options.json:
        write_json(options.json, settings, rows)
    return 1 if any(row.failure for row in rows) else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--peer-nsqd", metavar="PATH", help="the nsqd to compare with")
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each case on each side (default 3)")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of a run (default 3)")
    parser.add_argument("--only", metavar="NAME,...", type=select_cases, default=CASES, help="these cases")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--json", metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--quick", action="store_true", help="one short round with a fifth of everything")
    parser.add_argument("--data-root", metavar="DIR", help="where brokers get their data paths")
    return parser.parse_args(arguments)


def select_cases(text: str) -> list[Case]:
    known = {case.name: case for case in CASES}
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no case is called {unknown[0]!r}; --list shows them")
    return [known[name] for name in text.split(",")]


def settings_from(options: argparse.Namespace) -> Settings:
    quick = options.quick
    return Settings(
        ours=OURS,
        peer=[options.peer_nsqd] if options.peer_nsqd else None,
        rounds=options.rounds or (QUICK_ROUNDS if quick else 3),
        seconds=options.seconds or (QUICK_SECONDS if quick else 3.0),
        scale=QUICK_SCALE if quick else 1.0,
        data_root=options.data_root,
    )


def run_all(settings: Settings, cases: Sequence[Case]) -> list[Row]:
    both, ours = Comparison(settings), Comparison(replace(settings, peer=None))
    rows: list[Row] = []
    try:
        with show_progress(len(cases) * both.runs_per_case) as progress:
            for case in cases:
                progress.begin(case.name)
                rows.extend((ours if case.name in OURS_ONLY else both).run(case, progress))
    finally:
        both.close()
        ours.close()
    return rows


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
