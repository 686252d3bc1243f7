"""What a worker process is given to do, and what it hands back."""

import time
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Result:
    """One worker's share of a run; `start_ns` and `end_ns` are of the monotonic clock all processes share."""

    messages: int
    start_ns: int
    end_ns: int
    cpu_seconds: float
    extras: dict[str, float] = field(default_factory=dict)

    @property
    def cpu_share(self) -> float:
        return self.cpu_seconds / max((self.end_ns - self.start_ns) / 1e9, 1e-9)


class Load(Protocol):
    """A job with its connections open and its bytes made, waiting for the clock to start."""

    def run(self) -> Result: ...

    def close(self) -> None: ...


class Job(Protocol):
    """A picklable description of a load."""

    def open(self, tally: "Tally") -> Load: ...


class Tally:
    """Counts messages over all workers without a lock: each writes its own slot and reads everyone's."""

    def __init__(self, slots: "memoryview[int]", index: int) -> None:
        self._slots = slots
        self._index = index

    def add(self, count: int) -> None:
        self._slots[self._index] += count

    @property
    def own(self) -> int:
        return self._slots[self._index]

    @property
    def total(self) -> int:
        return sum(self._slots)


class Stopwatch:
    """Wall and CPU time of this process from its making to `result`."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self.start_ns = time.monotonic_ns()

    def result(self, messages: int, extras: dict[str, float] | None = None) -> Result:
        end_ns = time.monotonic_ns()
        return Result(messages, self.start_ns, end_ns, time.process_time() - self._cpu, extras or {})
