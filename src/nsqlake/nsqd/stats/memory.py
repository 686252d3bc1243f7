"""The figures about memory in `/stats`: cheap to take, in the words of Go's runtime.

heap_objects        blocks that Python's allocator has given out: objects, and what belongs to them
heap_in_use_bytes   resident memory of the process
gc_pause_usec_*     percentiles of the last collections' pauses
gc_total_runs       collections of every generation
the others          0: Python has nothing of the kind
"""

import gc
import os
import sys
from collections import deque
from time import perf_counter_ns
from typing import Any

from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.nsqd.stats.values import Memory

__all__ = ["MemoryProbe", "resident_bytes"]

_PAUSES = 256  # as many as Go keeps
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryProbe:
    """Listens to the collector from `open` to `close`."""

    def __init__(self) -> None:
        self.pauses = Histogram()
        self._last_ns: deque[int] = deque(maxlen=_PAUSES)
        self._began_ns = 0

    def open(self) -> None:
        gc.callbacks.append(self._collecting)

    def close(self) -> None:
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            self._began_ns = perf_counter_ns()
        elif self._began_ns:
            pause_ns = perf_counter_ns() - self._began_ns
            self._last_ns.append(pause_ns)
            self.pauses.observe(pause_ns)

    def take(self) -> Memory:
        pauses = sorted(self._last_ns)
        return Memory(
            # Not `len(gc.get_objects())`, which makes a list of a million objects while everybody waits.
            heap_objects=sys.getallocatedblocks(),
            heap_idle_bytes=0,
            heap_in_use_bytes=resident_bytes(),
            heap_released_bytes=0,
            gc_pause_usec_100=_percentile_us(pauses, 1.0),
            gc_pause_usec_99=_percentile_us(pauses, 0.99),
            gc_pause_usec_95=_percentile_us(pauses, 0.95),
            next_gc_bytes=0,
            gc_total_runs=sum(generation["collections"] for generation in gc.get_stats()),
        )


def resident_bytes() -> int:
    """What the process has in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def _percentile_us(ordered_ns: list[int], share: float) -> int:
    if not ordered_ns:
        return 0
    return ordered_ns[min(int(share * len(ordered_ns)), len(ordered_ns) - 1)] // 1000
