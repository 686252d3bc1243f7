"""The words a case is written in: its load, its metrics, and the flags of each side."""

from dataclasses import dataclass
from enum import Enum

from bench.load.publish import Publishing

EQUAL = (200, 200)
MIXED = (100, 300)


class Better(Enum):
    """Which way a figure should go."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. `goal` and `floor` bound ours / peer; `limit` bounds ours by itself."""

    key: str
    unit: str
    goal: float | None = None
    floor: float | None = None
    better: Better = Better.HIGHER
    limit: float | None = None

    @property
    def label(self) -> str:
        statistic = self.key.partition("_")[0]
        return f"{statistic} {self.unit}" if statistic.startswith("p") else self.unit


@dataclass(frozen=True, slots=True)
class PublishLoad:
    """Publish as fast as the answers allow."""

    publishing: Publishing
    connections: int
    processes: int = 2
    sizes: tuple[int, int] = EQUAL


@dataclass(frozen=True, slots=True)
class DeliverLoad:
    """Publish `messages` first, then time their delivery and FIN; each channel gets all of them."""

    messages: int
    consumers: int
    rdy: int
    processes: int = 1
    channels: int = 1
    sizes: tuple[int, int] = EQUAL
    backlog: Publishing = Publishing.MPUB
    shuffle_window: int = 0


@dataclass(frozen=True, slots=True)
class BothLoad:
    """Publish and deliver at the same time."""

    publish: PublishLoad
    consumers: int = 1
    rdy: int = 2500


@dataclass(frozen=True, slots=True)
class LatencyLoad:
    """PUB at a fixed rate; `settings` are the consumer's in IDENTIFY."""

    per_second: int
    settings: tuple[tuple[str, int], ...] = ()
    min_seconds: float = 3.5


@dataclass(frozen=True, slots=True)
class MemoryLoad:
    """Publish `messages` to a topic without channels and look at the broker's resident memory."""

    messages: int


@dataclass(frozen=True, slots=True)
class WrkLoad:
    """POST the same body as fast as the answers allow, with wrk; `body` has `messages` messages."""

    path: str
    body: bytes
    messages: int = 1
    connections: int = 20
    threads: int = 2


@dataclass(frozen=True, slots=True)
class StatsLoad:
    """Ask for all statistics again and again while `per_second` messages flow to a consumer."""

    topics: int
    per_second: int = 5_000


@dataclass(frozen=True, slots=True)
class LogReadLoad:
    """Read the raw log on one connection, `max_bytes` at a time."""

    messages: int
    max_bytes: int


HttpLoad = WrkLoad | StatsLoad | LogReadLoad
AnyLoad = PublishLoad | DeliverLoad | BothLoad | LatencyLoad | MemoryLoad | HttpLoad


@dataclass(frozen=True, slots=True)
class Case:
    """One thing measured on both sides. `{memory}` in a flag becomes a queue size nothing overflows."""

    name: str
    what: str
    load: AnyLoad
    metrics: tuple[Metric, ...]
    our_flags: tuple[str, ...] = ()
    peer_flags: tuple[str, ...] = ("--mem-queue-size={memory}",)
    is_ours_alone: bool = False  # the peer cannot do it, or not in reasonable time
