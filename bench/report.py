"""The table: with rich on a terminal, in plain columns when piped."""

import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from bench.case import Better
from bench.row import Row, Side

HEADINGS = ("case", "metric", "ours", "peer", "ratio", "goal", "verdict", "cores ours", "cores peer", "notes")
NUMBERS = {"ours", "peer", "ratio", "goal", "cores ours", "cores peer"}
ONLY_WHEN_WIDE, WIDE = {"cores ours", "cores peer"}, 120
COLOURS = {"goal": "green", "floor": "yellow", "below": "red", "failed": "red"}


def print_table(rows: Sequence[Row]) -> None:
    if sys.stdout.isatty():
        _print_rich(rows)
    else:
        _print_plain([_cells(row) for row in rows])
    for row in rows:
        if row.failure:
            print(f"\n{row.case.name} failed: {row.failure}", file=sys.stderr)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        row.case.name,
        row.metric.label,
        _figure(row, row.ours),
        _figure(row, row.peer),
        ratio,
        _goal(row),
        row.verdict,
        _cores(row.ours),
        _cores(row.peer),
        row.notes,
    )


def _figure(row: Row, side: Side | None) -> str:
    if side is None:
        return ""
    value = side.median(row.metric.key)
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.3g}"


def _goal(row: Row) -> str:
    sign = ">=" if row.metric.better is Better.HIGHER else "<="
    ratio = "" if row.metric.goal is None else f"{sign} {row.metric.goal:g}"
    limit = "" if row.metric.limit is None else f"{sign} {row.metric.limit:g} {row.metric.unit}"
    return ", ".join(filter(None, (ratio, limit)))


def _cores(side: Side | None) -> str:
    """What the broker used, then what the generator used."""
    if side is None or not side.broker_cores + side.generator_cores:
        return ""
    return f"{side.broker_cores:.2f} + {side.generator_cores:.2f}"


def _print_plain(lines: Iterable[tuple[str, ...]]) -> None:
    table = [HEADINGS, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = zip(HEADINGS, line, widths, strict=True)
        text = [cell.rjust(width) if name in NUMBERS else cell.ljust(width) for name, cell, width in cells]
        print("  ".join(text).rstrip())


def _print_rich(rows: Sequence[Row]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console()
    hidden = set() if console.width >= WIDE else ONLY_WHEN_WIDE
    hidden = hidden if any(row.notes for row in rows) else hidden | {"notes"}
    shown = [name for name in HEADINGS if name not in hidden]
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for heading in shown:
        justify: Literal["left", "right"] = "right" if heading in NUMBERS else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "notes")
    for row in rows:
        cells = dict(zip(HEADINGS, _cells(row), strict=True))
        table.add_row(*(cells[name] for name in shown), style=COLOURS.get(row.verdict))
    console.print(table)
