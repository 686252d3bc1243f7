"""How fast messages flow: one line that is renewed on a terminal, or a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nsqlake.apps.demo.traffic import Consumer, Generator

__all__ = ["Progress", "show_progress"]

TERMINAL_INTERVAL_S = 1.0
PLAIN_INTERVAL_S = 3.0


class Progress:
    """The figures of a run, told by `show` every `interval_s`."""

    def __init__(
        self, generator: Generator, consumer: Consumer, interval_s: float, show: Callable[[str], None]
    ) -> None:
        self.interval_s = interval_s
        self._generator, self._consumer, self._show = generator, consumer, show
        self._before = (time.monotonic(), 0, 0)

    def step(self) -> None:
        now_s, published, finished = (
            time.monotonic(),
            self._generator.published,
            self._consumer.finished,
        )
        before_s, published_before, finished_before = self._before
        self._before = (now_s, published, finished)
        elapsed_s = max(now_s - before_s, 0.001)
        text = (
            f"published {published:,} ({(published - published_before) / elapsed_s:,.0f}/s)   "
            f"finished {finished:,} ({(finished - finished_before) / elapsed_s:,.0f}/s)"
        )
        refused = self._generator.refused
        self._show(f"{text}   refused {refused:,}" if refused else text)


@contextmanager
def show_progress(generator: Generator, consumer: Consumer) -> Iterator[Progress]:
    try:
        if not sys.stdout.isatty():
            raise ImportError
        from rich.console import Console
    except ImportError:
        yield Progress(generator, consumer, PLAIN_INTERVAL_S, lambda text: print(text, flush=True))
        return
    with Console().status("starting") as status:
        yield Progress(generator, consumer, TERMINAL_INTERVAL_S, status.update)
