"""A clock that stands still until the test moves it."""

from threading import Lock
from typing import Protocol

from nsqlake.runtime.clock import Clock

__all__ = ["START_NS", "Follower", "ManualClock"]

START_NS = 1_700_000_000_000_000_000


class Follower(Protocol):
    """Something that has things to do at certain times; called from the thread that moves the clock."""

    @property
    def wait_ns(self) -> int | None:
        """How long the clock has to go on until there is something to do; None for nothing at all."""

    def act(self) -> None:
        """Do what is due now."""

    def settle(self) -> bool:
        """Let all happen that needs no time to pass; whether anything did."""

    def end_move(self) -> None:
        """The clock stands still again."""


class ManualClock(Clock):
    """`Clock` over two hands that only the test moves.

    `advance_ns` and `advance_ms` move the hands and nothing else. `nsqlake.testing.time_lapse` moves them and
    lets the followers act on the way.
    """

    def __init__(self, start_ns: int = START_NS) -> None:
        self._ahead_ns = start_ns  # of the wall's hand before the steady one
        self._elapsed_ns = 0
        self.followers: list[Follower] = []
        self.moving = Lock()  # held by whoever moves the clock with its followers
        super().__init__(lambda: self._ahead_ns + self._elapsed_ns, lambda: self._elapsed_ns)

    @property
    def elapsed_ns(self) -> int:
        """How far the clock has gone on since it was made."""
        return self._elapsed_ns

    def advance_ns(self, elapsed_ns: int) -> None:
        """Let time pass."""
        self._elapsed_ns += elapsed_ns

    def advance_ms(self, elapsed_ms: float) -> None:
        self.advance_ns(round(elapsed_ms * 1_000_000))

    def set_wall_forward_ms(self, step_ms: float) -> None:
        """Somebody sets the wall clock; no time passes. Negative steps set it back."""
        self._ahead_ns += round(step_ms * 1_000_000)

    def _read_offset_ns(self, steady: int) -> int:
        return self._ahead_ns  # another thread may move the clock between the reading of two hands
