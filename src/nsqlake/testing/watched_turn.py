"""nsqd's turn as tests need it: it tells when something may have changed, and follows a clock they move."""

import asyncio
from collections.abc import Callable

from nsqlake.nsqd.live_topic import LiveChannel
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.testing.clock import ManualClock

__all__ = ["WatchedTurn"]


class WatchedTurn(Turn):
    """`Turn` that counts inputs and calls `on_change` after each of them and after each turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, options: NsqdOptions) -> None:
        super().__init__(loop, clock, options)
        self.on_change: Callable[[], None] = lambda: None
        self.input_count = 0
        self._note_input = self.input_came
        self.input_came = self._count_input
        self._is_manual = isinstance(clock, ManualClock)

    @property
    def is_at_rest(self) -> bool:
        return not self._is_scheduled

    @property
    def next_alarm_ns(self) -> int | None:
        return self._alarms.next_ns

    def ring(self) -> None:
        """Do what is due by the clock."""
        self._ring()

    def _count_input(self) -> None:
        self._note_input()
        self.input_count += 1
        self._loop.call_soon(self._changed)  # when what came has been handled

    def _run(self) -> None:
        super()._run()
        self._changed()

    def write_journal(self, channel: LiveChannel) -> None:
        super().write_journal(channel)
        self._changed()

    def _changed(self) -> None:
        self.on_change()

    def _hold(self, channel: LiveChannel) -> None:
        if self._is_manual:
            self.wake(channel)  # by a clock that stands still all messages follow each other at once
        else:
            super()._hold(channel)
