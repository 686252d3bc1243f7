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

    def count_answer(self, messages: int, size_bytes: int, latency_s: float) -> None:
        self.commands += 1
        self.messages += messages
        self.bytes += size_bytes
        self.latency_buckets[min(int(latency_s * 1e6).bit_length(), MAX_BUCKET)] += 1

    def plus(self, other: Counters) -> Counters:
        """The sum of both."""
        buckets = zip(self.latency_buckets, other.latency_buckets, strict=True)
        return Counters(
            commands=self.commands + other.commands,
            messages=self.messages + other.messages,
            bytes=self.bytes + other.bytes,
            rejected=self.rejected + other.rejected,
            not_sent=self.not_sent + other.not_sent,
            unknown=self.unknown + other.unknown,
            retries=self.retries + other.retries,
            latency_buckets=[ours + theirs for ours, theirs in buckets],
        )

    def latencies(self) -> tuple[tuple[float, int], ...]:
        return tuple((2**place / 1e6, count) for place, count in enumerate(self.latency_buckets) if count)
