"""SIGINT and SIGTERM as a request to stop."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Self

SAME_REQUEST_S = 1.0  # timeout(1) and shells send the same signal to a process and to its group


class StopSignals:
    """The first signal sets `requested`; one that comes a second later ends the process at once."""

    def __init__(
        self,
        signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.requested = asyncio.Event()
        self._signals, self._now_s = signals, now_s
        self._first_s = 0.0
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        for number in self._signals:
            self._loop.add_signal_handler(number, self._received, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)

    async def wait(self) -> None:
        await self.requested.wait()

    def _received(self, number: signal.Signals) -> None:
        if not self.requested.is_set():
            self._first_s = self._now_s()
            self.requested.set()
        elif self._now_s() - self._first_s >= SAME_REQUEST_S:
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
