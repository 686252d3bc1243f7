"""The figures about memory, and what they cost."""

import gc
from collections.abc import Iterator
from time import perf_counter_ns

import pytest

from nsqlake.nsqd.stats.memory import MemoryProbe, resident_bytes


@pytest.fixture
def probe() -> Iterator[MemoryProbe]:
    probe = MemoryProbe()
    probe.open()
    yield probe
    probe.close()


def test_the_collectors_pauses_are_noted(probe: MemoryProbe) -> None:
    before = probe.take()

    gc.collect()

    after = probe.take()
    assert after.gc_total_runs > before.gc_total_runs
    assert after.gc_pause_usec_100 >= after.gc_pause_usec_99 >= after.gc_pause_usec_95 > 0
    assert probe.pauses.count >= 1


def test_only_the_last_pauses_are_kept(probe: MemoryProbe) -> None:
    for _ in range(300):
        gc.collect(0)

    assert len(probe._last_ns) == 256
    assert probe.pauses.count >= 300


def test_a_closed_probe_no_longer_listens() -> None:
    probe = MemoryProbe()
    probe.open()
    probe.close()
    probe.close()

    gc.collect()

    assert probe.pauses.count == 0
    assert probe.take().gc_pause_usec_100 == 0


def test_it_says_how_much_memory_the_process_has(probe: MemoryProbe) -> None:
    memory = probe.take()

    assert 10_000_000 < memory.heap_in_use_bytes < 100_000_000_000
    assert memory.heap_objects > 10_000
    assert resident_bytes() > 0


def test_more_objects_are_more_heap_objects(probe: MemoryProbe) -> None:
    before = probe.take().heap_objects

    kept = [[number] for number in range(50_000)]

    assert probe.take().heap_objects - before >= len(kept) * 9 // 10


def test_a_million_objects_do_not_make_it_slow(probe: MemoryProbe) -> None:
    kept = [(number,) for number in range(1_000_000)]

    begun_ns = perf_counter_ns()
    times = []
    for _ in range(5):
        probe.take()
        times.append(perf_counter_ns() - begun_ns)
        begun_ns = perf_counter_ns()

    assert min(times) < 5_000_000
    assert kept
