"""Compare our nsqd with a peer; run as `python -m bench.compare` from the root of the repository."""

import argparse
import fnmatch
import functools
import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from bench.case import Case
from bench.cases import CASES
from bench.comparison import Comparison, Settings
from bench.machine import machine_facts, version_of
from bench.progress import show_progress
from bench.report import print_table
from bench.row import Row

OURS = [sys.executable, "-m", "nsqlake.apps.nsqd"]
QUICK_ROUNDS, QUICK_SECONDS, QUICK_SCALE = 1, 0.5, 0.2


def main(
    arguments: Sequence[str] | None = None,
    *,
    cases: Sequence[Case] = CASES,
    program: str = "python -m bench.compare",
) -> int:
    options = parse(arguments, cases, program)
    if options.list:
        list_cases(options.only)
        return 0
    settings = settings_from(options)
    rows = run_all(settings, options.only)
    print_table(rows)
    if options.json:
        write_json(options.json, settings, rows)
    return 1 if any(row.failure for row in rows) else 0


def parse(arguments: Sequence[str] | None, cases: Sequence[Case], program: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument(
        "--peer-nsqd", metavar="PATH", help="the nsqd to compare with; without it only ours runs"
    )
    parser.add_argument(
        "--ours", metavar="CMD", type=shlex.split, default=OURS, help="command that starts ours"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each case on each side (default 3)")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of a publishing run (default 2)")
    parser.add_argument(
        "--only",
        metavar="NAME,...",
        type=functools.partial(select_cases, cases),
        default=cases,
        help="these cases; * and ? match",
    )
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--json", metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--quick", action="store_true", help="one short round with a fifth of the messages")
    parser.add_argument(
        "--data-root", metavar="DIR", help="where brokers get their data paths (default: temporary)"
    )
    return parser.parse_args(arguments)


def select_cases(cases: Sequence[Case], text: str) -> list[Case]:
    chosen = []
    for pattern in text.split(","):
        matching = [case for case in cases if fnmatch.fnmatchcase(case.name, pattern)]
        if not matching:
            raise argparse.ArgumentTypeError(f"no case is called {pattern!r}; --list shows them")
        chosen += [case for case in matching if case not in chosen]
    return chosen


def settings_from(options: argparse.Namespace) -> Settings:
    quick = options.quick
    return Settings(
        ours=options.ours,
        peer=[options.peer_nsqd] if options.peer_nsqd else None,
        rounds=options.rounds or (QUICK_ROUNDS if quick else 3),
        seconds=options.seconds or (QUICK_SECONDS if quick else 2.0),
        scale=QUICK_SCALE if quick else 1.0,
        data_root=options.data_root,
    )


def run_all(settings: Settings, cases: Sequence[Case]) -> list[Row]:
    comparison = Comparison(settings)
    rows: list[Row] = []
    try:
        with show_progress(sum(map(comparison.runs_of, cases))) as progress:
            for case in cases:
                progress.begin(case.name)
                rows.extend(comparison.run(case, progress))
    finally:
        comparison.close()
    return rows


def list_cases(cases: Sequence[Case]) -> None:
    width = max(len(case.name) for case in cases)
    for case in cases:
        print(f"{case.name:<{width}}  {case.what}")


def write_json(path: str, settings: Settings, rows: Sequence[Row]) -> None:
    document: dict[str, Any] = {
        "machine": machine_facts(settings.data_root),
        "versions": {
            "ours": version_of(settings.ours),
            "peer": version_of(settings.peer) if settings.peer else None,
        },
        "rounds": settings.rounds,
        "seconds": settings.seconds,
        "scale": settings.scale,
        "rows": [row.as_json() for row in rows],
    }
    with open(path, "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
