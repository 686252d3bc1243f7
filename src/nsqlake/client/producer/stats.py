"""What a producer counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_BUCKET: Final = 40  # 2**40 microseconds: twelve days


@dataclass(frozen=True, kw_only=True)
class NodeStats:
    """One nsqd as the producer sees it."""

    address: str
    state: str
    pending: int
    connects: int
    disconnects: int
    failed_connects: int
    last_error: str


@dataclass(frozen=True, kw_only=True)
class ProducerStats:
    """A snapshot. An MPUB is one command and many messages; `bytes` are those of the commands."""

    commands: int
    messages: int
    bytes: int
    rejected: int
    not_sent: int
    unknown: int
    retries: int
    pending: int
    pending_bytes: int
    waiting: int
    latency_s: tuple[tuple[float, int], ...]  # upper bound of a bucket, publishes in it
    nodes: tuple[NodeStats, ...]

    @property
    def failed(self) -> int:
        return self.rejected + self.not_sent + self.unknown


@dataclass(slots=True)
class Counters:
    """Commands, by what became of them; `messages` and `bytes` are those that nsqd has taken."""

    commands: int = 0
    messages: int = 0
    bytes: int = 0
    rejected: int = 0
    not_sent: int = 0
    unknown: int = 0
    retries: int = 0
    # Bucket n counts answers that took less than 2**n microseconds.
    latency_buckets: list[int] = field(default_factory=lambda: [0] * (MAX_BUCKET + 1))

    @property
    def failed(self) -> int:
        return self.rejected + self.not_sent + self.unknown

    def latencies(self) -> tuple[tuple[float, int], ...]:
        return tuple((2**place / 1e6, count) for place, count in enumerate(self.latency_buckets) if count)
