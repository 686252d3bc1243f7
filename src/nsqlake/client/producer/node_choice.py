"""Which of several nsqd gets the next publish; pure: chance comes in as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from nsqlake.client.errors import InvalidArgumentError


class Strategy(StrEnum):
    """How publishes are shared among the nsqd that are ready."""

    ROUND_ROBIN = "round-robin"
    RANDOM = "random"
    FIRST = "first"  # the first address that is ready; the others are there for failover only
    LEAST_PENDING = "least-pending"


class Candidate(Protocol):
    address: str

    @property
    def pending_count(self) -> int: ...


N = TypeVar("N", bound=Candidate)


class NodeChoice:
    """Chooses among candidates in the order of the addresses; `random_below(n)` gives 0 to n - 1."""

    def __init__(self, strategy: str, random_below: Callable[[int], int]) -> None:
        try:
            self.strategy = Strategy(strategy)
        except ValueError:
            names = ", ".join(Strategy)
            raise InvalidArgumentError("strategy", strategy, f"must be one of {names}") from None
        self._random_below = random_below
        self._turn = 0

    def choose(self, candidates: Sequence[N], failed_at: str = "") -> N | None:
        """None without candidates; one other than `failed_at` if there is one."""
        if failed_at:
            candidates = [each for each in candidates if each.address != failed_at] or candidates
        if len(candidates) <= 1:
            return candidates[0] if candidates else None
        return candidates[self._place(candidates)]

    def _place(self, candidates: Sequence[N]) -> int:
        match self.strategy:
            case Strategy.ROUND_ROBIN:
                self._turn += 1
                return self._turn % len(candidates)
            case Strategy.RANDOM:
                return self._random_below(len(candidates))
            case Strategy.LEAST_PENDING:
                return min(range(len(candidates)), key=lambda place: candidates[place].pending_count)
            case Strategy.FIRST:
                return 0
