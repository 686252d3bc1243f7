"""Which of several addresses gets the next message; time and chance are arguments.

`choose` says where to send, `report` how it went.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

FIRST_RETRY_S = 30.0
MAX_RETRY_S = 900.0

FIRST_EPSILON = 0.3
EPSILON_DECAY = 0.9
MIN_EPSILON = 0.01
BUCKET_COUNT = 120
BUCKET_S = 300.0 / BUCKET_COUNT

ROUND_ROBIN, HOSTPOOL, EPSILON_GREEDY = "round-robin", "hostpool", "epsilon-greedy"
MODES = (ROUND_ROBIN, HOSTPOOL, EPSILON_GREEDY)


class Destinations(Protocol):
    def choose(self, now_s: float) -> str: ...

    def report(self, address: str, *, succeeded: bool, elapsed_s: float, now_s: float) -> None: ...


def destinations(mode: str, addresses: Sequence[str], random: Callable[[], float]) -> Destinations | None:
    """None for a mode that is not one of MODES."""
    match mode:
        case "round-robin":
            return RoundRobin(addresses)
        case "hostpool":
            return HostPool(addresses)
        case "epsilon-greedy":
            return EpsilonGreedy(addresses, random)
    return None


class RoundRobin:
    """One after the other, failed or not; NSQ begins with the second."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        self._counter = 0

    def choose(self, now_s: float) -> str:
        self._counter += 1
        return self._addresses[self._counter % len(self._addresses)]

    def report(self, address: str, *, succeeded: bool, elapsed_s: float, now_s: float) -> None:
        pass


@dataclass
class _Host:
    is_dead: bool = False
    retry_at_s: float = 0.0
    retry_delay_s: float = FIRST_RETRY_S

    def can_be_tried(self, now_s: float) -> bool:
        return not self.is_dead or now_s >= self.retry_at_s

    def begin_try(self, now_s: float) -> None:
        """A dead host is tried by one message; until its outcome is known, later ones wait twice as long."""
        if self.is_dead:
            self.retry_delay_s = min(2 * self.retry_delay_s, MAX_RETRY_S)
            self.retry_at_s = now_s + self.retry_delay_s

    def fail(self, now_s: float) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.retry_delay_s = FIRST_RETRY_S
            self.retry_at_s = now_s + FIRST_RETRY_S

    def revive(self) -> None:
        self.is_dead = False


class HostPool:
    """One after the other, from the first on; hosts that failed are left out for a while."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        self._hosts = {address: _Host() for address in addresses}  # listed twice: one host, two turns
        self._next = 0

    def choose(self, now_s: float) -> str:
        count = len(self._addresses)
        for step in range(count):
            index = (self._next + step) % count
            address = self._addresses[index]
            if self._hosts[address].can_be_tried(now_s):
                self._next = index + 1
                self._hosts[address].begin_try(now_s)
                return address
        for host in self._hosts.values():
            host.revive()
        self._next = 1
        return self._addresses[0]

    def report(self, address: str, *, succeeded: bool, elapsed_s: float, now_s: float) -> None:
        host = self._hosts[address]
        if succeeded:
            host.revive()
        else:
            host.fail(now_s)

    def can_be_tried(self, address: str, now_s: float) -> bool:
        return self._hosts[address].can_be_tried(now_s)

    def begin_try(self, address: str, now_s: float) -> None:
        self._hosts[address].begin_try(now_s)


@dataclass
class _Bucket:
    number: int
    total_s: float = 0.0
    count: int = 0


@dataclass
class ResponseTimes:
    """The average of the last five minutes in which recent times weigh more."""

    _buckets: deque[_Bucket] = field(default_factory=deque)

    def add(self, elapsed_s: float, now_s: float) -> None:
        number = int(now_s / BUCKET_S)
        if not self._buckets or self._buckets[-1].number != number:
            self._buckets.append(_Bucket(number))
        self._buckets[-1].total_s += elapsed_s
        self._buckets[-1].count += 1

    def average_s(self, now_s: float) -> float | None:
        oldest = int(now_s / BUCKET_S) - BUCKET_COUNT + 1
        while self._buckets and self._buckets[0].number < oldest:
            self._buckets.popleft()
        weights = sum(bucket.number - oldest + 1 for bucket in self._buckets)
        if not weights:
            return None
        weighted = ((bucket.number - oldest + 1) * bucket.total_s / bucket.count for bucket in self._buckets)
        return sum(weighted) / weights


class EpsilonGreedy:
    """Mostly one of the fast hosts, by chance in proportion to speed; now and then the next of the pool."""

    def __init__(self, addresses: Sequence[str], random: Callable[[], float]) -> None:
        self._pool = HostPool(addresses)
        self._times = {address: ResponseTimes() for address in addresses}
        self._random = random
        self.epsilon = FIRST_EPSILON

    def choose(self, now_s: float) -> str:
        if self._random() < self.epsilon:
            self.epsilon = max(self.epsilon * EPSILON_DECAY, MIN_EPSILON)
            return self._pool.choose(now_s)
        speeds = self._speeds(now_s)
        if not speeds:
            return self._pool.choose(now_s)
        address = _draw(speeds, self._random())
        self._pool.begin_try(address, now_s)
        return address

    def _speeds(self, now_s: float) -> dict[str, float]:
        speeds = {}
        for address, times in self._times.items():
            average_s = times.average_s(now_s)
            if average_s and self._pool.can_be_tried(address, now_s):
                speeds[address] = 1 / average_s
        return speeds

    def report(self, address: str, *, succeeded: bool, elapsed_s: float, now_s: float) -> None:
        if succeeded:
            self._times[address].add(elapsed_s, now_s)
        self._pool.report(address, succeeded=succeeded, elapsed_s=elapsed_s, now_s=now_s)


def _draw(weights: dict[str, float], chance: float) -> str:
    """A key in proportion to its weight; `chance` is in [0, 1)."""
    rest = chance * sum(weights.values())
    address = ""
    for address, weight in weights.items():
        rest -= weight
        if rest < 0:
            return address
    return address
