"""The signals that end a program, for a call that blocks the main thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_stop_signals(tell: Callable[[], None]) -> Iterator[None]:
    """In the block these signals only call `tell`; of all threads only the main one can ask for it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    try:
        for number in STOP_SIGNALS:
            before[number] = signal.signal(number, lambda *_: tell())
        yield
    finally:
        for number, handler in before.items():
            # None: installed by something other than Python, which cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
