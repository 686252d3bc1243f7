"""The consumer's rate: what `Flow` and `Backoff` decide, at the right time and on the right connection."""

from __future__ import annotations

import logging
import random
from typing import Protocol

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.rate.backoff import Backoff, Left, Pause, Signal, strategy_of
from nsqlake.client.consumer.rate.flow import Change, Flow, Window
from nsqlake.runtime.timers import Timer

logger = logging.getLogger(__name__)


class Tap(Protocol):
    """A connection whose RDY count can be set."""

    address: str
    window: Window

    def send_rdy(self, count: int) -> None: ...


class RdyControl:
    """Is told of connections, answers and wishes; writes RDY."""

    def __init__(self, context: Context, chance: random.Random) -> None:
        config = context.config
        self._context = context
        self._timers = context.timers
        self.flow = Flow(
            config.max_in_flight,
            idle_timeout_s=config.low_rdy_idle_timeout,
            low_rdy_timeout_s=config.low_rdy_timeout,
            chance=chance.random,
        )
        strategy = strategy_of(config.backoff_strategy, config.backoff_multiplier, chance.random)
        self.backoff = Backoff(strategy, config.max_backoff_duration)
        self.max_in_flight = config.max_in_flight  # also while paused
        self.is_paused = False
        self.is_attentive = False  # whether successes matter
        self._taps: dict[Window, Tap] = {}
        self._rotation: Timer | None = None
        self._wait: Timer | None = None
        self._wait_ends_s = 0.0
        self._is_stopped = False

    @property
    def rdy(self) -> int:
        return sum(window.rdy for window in self.flow.windows)

    @property
    def wait_s(self) -> float:
        """What is left of a backoff pause."""
        if not self.backoff.is_waiting:
            return 0.0
        return max(0.0, self._wait_ends_s - self._timers.now_s())

    # Connections --------------------------------------------------------------------------------------

    def join(self, tap: Tap) -> None:
        if not self._is_stopped:
            self._taps[tap.window] = tap
            self._write(self.flow.add(tap.window, self._timers.now_s()))

    def leave(self, tap: Tap) -> None:
        """It is lost or will be closed: others take its share."""
        if self._taps.pop(tap.window, None) is not None:
            self._write(self.flow.remove(tap.window, self._timers.now_s()))
            tap.window.rdy = 0

    def first_message(self, tap: Tap) -> None:
        if tap.window in self._taps:
            self._write(self.flow.first_message(tap.window, self._timers.now_s()))

    # Answers ------------------------------------------------------------------------------------------

    def answered(self, tap: Tap, signal: Signal | None) -> None:
        """A message of `tap` is about to be answered; what follows for RDY is written before that."""
        if self._is_stopped:
            return
        if signal is not None:
            self._record(signal)
        if self.flow.is_rotating and tap.window in self._taps:
            self._write(self.flow.answered(tap.window, self._timers.now_s()))

    def _record(self, signal: Signal) -> None:
        match self.backoff.record(signal):
            case Pause(level, seconds):
                self._pause_for(level, seconds)
            case Left():
                logger.info("CONSUMER(%s): left backoff", self._context.name)
                self._context.tell(self._context.hooks.on_resume, 0)
                self._write(self.flow.open(self._timers.now_s()))

    def _pause_for(self, level: int, seconds: float) -> None:
        logger.warning("CONSUMER(%s): backs off level=%s seconds=%s", self._context.name, level, seconds)
        self._write(self.flow.close(self._timers.now_s()))
        self._wait_ends_s = self._timers.now_s() + seconds
        self._wait = self._timers.call_later(seconds, self._end_pause)
        self._context.tell(self._context.hooks.on_backoff, level, seconds)

    def _end_pause(self) -> None:
        self._wait = None
        self.backoff.end_wait()
        logger.info("CONSUMER(%s): tries one message level=%s", self._context.name, self.backoff.level)
        self._context.tell(self._context.hooks.on_resume, self.backoff.level)
        self._write(self.flow.probe(self._timers.now_s()))

    # Wishes -------------------------------------------------------------------------------------------

    def set_max_in_flight(self, count: int) -> None:
        self.max_in_flight = count
        self._limit(0 if self.is_paused else count)

    def pause(self) -> None:
        self.is_paused = True
        self._limit(0)

    def resume(self) -> None:
        self.is_paused = False
        self._limit(self.max_in_flight)

    def stop(self) -> None:
        """No RDY is written any more."""
        self._is_stopped = True
        for timer in (self._wait, self._rotation):
            if timer is not None:
                timer.cancel()
        self._wait = self._rotation = None
        self.is_attentive = False

    def _limit(self, count: int) -> None:
        self._write(self.flow.set_max_in_flight(count, self._timers.now_s()))

    # Writing ------------------------------------------------------------------------------------------

    def _rotate(self) -> None:
        self._rotation = None
        changes = self.flow.rotate(self._timers.now_s())
        if changes:
            logger.info("CONSUMER(%s): redistributes RDY changes=%s", self._context.name, len(changes))
        self._write(changes)

    def _write(self, changes: list[Change]) -> None:
        if self._is_stopped:
            return
        for window, rdy in changes:
            tap = self._taps[window]
            tap.send_rdy(rdy)
            self._context.tell(self._context.hooks.on_rdy, tap.address, rdy)
        self.is_attentive = self.backoff.level > 0 or self.flow.is_rotating
        if self.flow.is_rotating and self._rotation is None:
            interval_s = self._context.config.rdy_redistribute_interval
            self._rotation = self._timers.call_later(interval_s, self._rotate)
