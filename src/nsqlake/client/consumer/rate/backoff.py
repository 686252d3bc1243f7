"""When handling fails: how long the whole consumer pauses, and how it feels its way back.

Pure: the answers come in as signals, what to do goes out as a value. One answer counts per pause, so that
a burst of failures that were in flight already cannot jump to the longest pause, nor successes to none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

Strategy = Callable[[int], float]  # level, from 1, to seconds

MAX_EXPONENT: Final = 40  # 2**40 seconds is for ever, and still a harmless number


class Signal(Enum):
    """What an answer says about how handling goes."""

    RESUME = auto()  # FIN
    BACK_OFF = auto()  # REQ with backoff
    CONTINUE = auto()  # REQ without


@dataclass(frozen=True)
class Pause:
    """RDY 0 everywhere for `seconds`; then one message as a test."""

    level: int
    seconds: float


@dataclass(frozen=True)
class Left:
    """Backoff is over: full rate again."""


class Backoff:
    """`level` is 0 outside backoff; while `is_waiting`, signals are ignored."""

    __slots__ = ("_max_s", "_strategy", "is_waiting", "level")

    def __init__(self, strategy: Strategy, max_duration_s: float) -> None:
        self._strategy, self._max_s = strategy, max_duration_s
        self.level = 0
        self.is_waiting = False

    def record(self, signal: Signal) -> Pause | Left | None:
        if self.is_waiting:
            return None
        was = self.level
        self.level = self._next_level(signal)
        if self.level:
            self.is_waiting = True
            return Pause(self.level, min(self._strategy(self.level), self._max_s))
        return Left() if was else None

    def end_wait(self) -> None:
        """The pause is over; the next signal counts."""
        self.is_waiting = False

    def _next_level(self, signal: Signal) -> int:
        if signal is Signal.RESUME:
            return max(self.level - 1, 0)
        if signal is Signal.BACK_OFF and self._max_s > 0 and self._strategy(self.level + 1) <= self._max_s:
            return self.level + 1
        return self.level


def exponential(multiplier_s: float = 1.0) -> Strategy:
    """`multiplier_s` x 2^level: 2, 4, 8, ... seconds."""

    def strategy(level: int) -> float:
        return _bounded_power(multiplier_s, level)

    return strategy


def full_jitter(multiplier_s: float, chance: Callable[[], float]) -> Strategy:
    """Anything up to what `exponential` waits; `chance` gives numbers in [0, 1)."""

    def strategy(level: int) -> float:
        return chance() * _bounded_power(multiplier_s, level)

    return strategy


def strategy_of(choice: str | Strategy, multiplier_s: float, chance: Callable[[], float]) -> Strategy:
    """The strategy that the option `backoff_strategy` names or is."""
    if callable(choice):
        return choice
    return full_jitter(multiplier_s, chance) if choice == "full_jitter" else exponential(multiplier_s)


def _bounded_power(multiplier_s: float, level: int) -> float:
    return multiplier_s * 2.0 ** min(level, MAX_EXPONENT)
