"""Tells how far the comparison is: a bar on a terminal, a line per case when piped."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    def begin(self, name: str) -> None: ...

    def step(self) -> None: ...


class Lines:
    """One line on stderr per case."""

    def begin(self, name: str) -> None:
        print(name, file=sys.stderr, flush=True)

    def step(self) -> None:
        pass


@contextmanager
def show_progress(steps: int) -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as rich_progress:
        task = rich_progress.add_task("", total=steps)

        class Bar:
            def begin(self, name: str) -> None:
                rich_progress.update(task, description=name)

            def step(self) -> None:
                rich_progress.advance(task)

        yield Bar()
