"""What a channel knows of one consumer: how much it may be sent and what it holds."""

from collections import deque
from enum import IntEnum
from typing import Protocol

__all__ = ["Locality", "Receiver", "Run", "Subscription"]


class Locality(IntEnum):
    """How near a consumer is to the broker, for topology-aware consumption."""

    ZONE = 0
    REGION = 1
    ANYWHERE = 2


class Receiver(Protocol):
    """Where a consumer's messages go: its connection."""

    def deliver(self, frames: list[bytes | memoryview]) -> None: ...
    def flush(self) -> None: ...
    def drop(self) -> None: ...


Run = tuple[int, int, int]  # deadline_ns, first offset, count; in one page, first delivery


class Subscription:
    """One consumer of a channel."""

    __slots__ = (
        "__weakref__",
        "finish_count",
        "in_flight",
        "is_buffered",
        "is_closing",
        "is_writable",
        "key",
        "locality",
        "message_count",
        "msg_timeout_ns",
        "only_fin",
        "only_offset",
        "ready",
        "requeue_count",
        "runs",
        "sample_rate",
        "slot",
    )

    def __init__(self, key: Receiver, *, msg_timeout_ns: int, sample_rate: int = 0) -> None:
        self.key = key
        self.msg_timeout_ns, self.sample_rate = msg_timeout_ns, sample_rate
        self.locality = Locality.ANYWHERE
        self.slot = 0
        self.ready = 0
        self.in_flight = 0
        self.is_buffered = False
        self.is_writable = True
        self.is_closing = False
        # Deadlines of first deliveries. All share one timeout, so the deque is in order of deadline.
        self.runs: deque[Run] = deque()
        # The FIN line and the offset of the message that was last handed out alone, for `Delivery.swap`.
        self.only_fin, self.only_offset = b"", -1
        self.message_count = 0
        self.finish_count = 0
        self.requeue_count = 0

    @property
    def room(self) -> int:
        """How many more messages may be sent now. RDY is a ceiling of what is out, not a countdown."""
        return self.ready - self.in_flight if self.is_writable and not self.is_closing else 0

    def add_run(self, deadline_ns: int, first: int, count: int) -> None:
        runs = self.runs
        if runs:
            last_deadline, last_first, last_count = runs[-1]
            if last_deadline == deadline_ns and last_first + last_count == first and first & 0xFFF:
                runs[-1] = (deadline_ns, last_first, last_count + count)
                return
        runs.append((deadline_ns, first, count))
