"""Percentiles of the time from publish to finish."""

import random

import numpy as np
import pytest

from nsqlake.nsqd.stats.latency import LatencyRecorder, LatencyWindow, Stamped, summarise
from nsqlake.nsqd.stats.values import Latency, Percentile
from nsqlake.topiclog import LogOptions, MemoryLog
from nsqlake.topiclog.block import Span
from nsqlake.topiclog.errors import ReadError
from tests.topiclog.support import framed

MS = 1_000_000
SECOND_NS = 1_000_000_000
WINDOW_NS = 600 * SECOND_NS
NOW_NS = 1_700_000_000 * SECOND_NS


def values(latency: Latency) -> list[int]:
    assert latency.percentiles is not None
    return [percentile.value for percentile in latency.percentiles]


@pytest.mark.parametrize("scale_ns", [1_000, MS, 60 * SECOND_NS])
def test_percentiles_are_within_one_percent_of_the_true_ones(scale_ns: int) -> None:
    source = random.Random(7)
    latencies = [max(1, round(source.lognormvariate(0, 1.5) * scale_ns)) for _ in range(20_000)]
    window = LatencyWindow(WINDOW_NS)
    quantiles = (1.0, 0.99, 0.95, 0.5, 0.01)

    window.add_all(np.array(latencies[:15_000]), NOW_NS)
    for latency in latencies[15_000:]:
        window.add(latency, 1, NOW_NS)

    found = summarise([window], quantiles, NOW_NS)
    ordered = sorted(latencies)
    true = [ordered[max(1, int(np.ceil(quantile * 20_000))) - 1] for quantile in quantiles]
    assert found.count == 20_000
    assert values(found) == [pytest.approx(expected, rel=0.0101) for expected in true]


def test_one_by_one_and_in_bulk_come_to_the_same() -> None:
    latencies = [1, 2, 999, 5 * MS, 17 * SECOND_NS, 2**62]
    single, bulk = LatencyWindow(WINDOW_NS), LatencyWindow(WINDOW_NS)

    for latency in latencies:
        single.add(latency, 1, NOW_NS)
    bulk.add_all(np.array(latencies), NOW_NS)

    assert single.counts(NOW_NS) == bulk.counts(NOW_NS)


def test_a_latency_below_nothing_is_the_shortest_there_is() -> None:
    window = LatencyWindow(WINDOW_NS)

    window.add(-5 * SECOND_NS, 1, NOW_NS)
    window.add_all(np.array([-5 * SECOND_NS]), NOW_NS)

    assert summarise([window], (0.5,), NOW_NS) == Latency(2, [Percentile(0.5, 1)])


def test_the_order_is_that_of_the_configuration_and_whole_numbers_are_whole() -> None:
    found = summarise([LatencyWindow(WINDOW_NS)], (0.5, 1.0, 0.99), NOW_NS)

    assert found == Latency(0, [Percentile(0.5, 0), Percentile(1, 0), Percentile(0.99, 0)])
    assert isinstance(found.percentiles[1].quantile, int)  # type: ignore[index]


def test_what_is_older_than_the_window_no_longer_counts() -> None:
    window = LatencyWindow(WINDOW_NS)
    window.add(5 * MS, 10, NOW_NS)

    window.add(SECOND_NS, 1, NOW_NS + WINDOW_NS // 2)

    assert summarise([window], (), NOW_NS + WINDOW_NS // 2).count == 11
    assert summarise([window], (), NOW_NS + WINDOW_NS).count == 1
    assert summarise([window], (), NOW_NS + 2 * WINDOW_NS).count == 0


def test_an_old_slice_is_forgotten_when_a_new_one_begins() -> None:
    window = LatencyWindow(WINDOW_NS)
    for number in range(20):
        window.add(MS, 1, NOW_NS + number * WINDOW_NS)

    assert len(window._slices) == 1


def test_a_window_of_no_time_does_not_divide_by_it() -> None:
    window = LatencyWindow(0)

    window.add(MS, 1, NOW_NS)

    assert summarise([window], (), NOW_NS).count == 1


def test_several_windows_are_taken_together() -> None:
    quick, slow = LatencyWindow(WINDOW_NS), LatencyWindow(WINDOW_NS)
    quick.add(MS, 99, NOW_NS)
    slow.add(SECOND_NS, 1, NOW_NS)

    found = summarise([quick, slow], (0.5, 1.0), NOW_NS)

    assert found.count == 100
    assert values(found) == [pytest.approx(MS, rel=0.01), pytest.approx(SECOND_NS, rel=0.01)]


# From offsets -----------------------------------------------------------------------------------------


def log_with(*blocks: tuple[int, int]) -> MemoryLog:
    """Blocks of so many messages, published so long before now."""
    log = MemoryLog(uuid=bytes(16), first_offset=1000, options=LogOptions())
    for count, age_ns in blocks:
        log.append(**framed([b"x"] * count), timestamp_ns=NOW_NS - age_ns)
    return log


def recorder_of(log: Stamped) -> LatencyRecorder:
    return LatencyRecorder(log, WINDOW_NS, lambda: NOW_NS)


def recorded(recorder: LatencyRecorder, *quantiles: float) -> Latency:
    return summarise([recorder.window], quantiles, NOW_NS)


def test_a_run_over_several_blocks_takes_each_ones_timestamp() -> None:
    recorder = recorder_of(log_with((3, MS), (2, SECOND_NS)))

    recorder.finished(1001, 4)

    found = recorded(recorder, 0.5, 1.0)
    assert found.count == 4
    assert values(found) == [pytest.approx(MS, rel=0.01), pytest.approx(SECOND_NS, rel=0.01)]


def test_messages_out_of_order_are_recorded_as_runs() -> None:
    recorder = recorder_of(log_with((3, MS), (3, SECOND_NS)))

    recorder.finished_offsets(np.array([1000, 1002, 1004, 1005]))

    found = recorded(recorder, 0.5, 0.75)
    assert found.count == 4
    assert values(found) == [pytest.approx(MS, rel=0.01), pytest.approx(SECOND_NS, rel=0.01)]


class MergedLog:
    """A log that has one span with a timestamp for every message."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, _offset: int) -> Span | None:
        self.reads += 1
        stamps = NOW_NS - np.array([MS, MS, SECOND_NS, SECOND_NS])
        return Span(1000, 4, 5, b"\0\0\0\1x" * 4, 0, 5, None, stamps)


def test_a_span_of_many_blocks_has_a_timestamp_for_every_message() -> None:
    recorder = recorder_of(MergedLog())

    recorder.record(1001, 3, NOW_NS)

    found = recorded(recorder, 0.3, 0.5)
    assert found.count == 3
    assert values(found) == [pytest.approx(MS, rel=0.01), pytest.approx(SECOND_NS, rel=0.01)]


def test_the_last_span_is_not_looked_up_again() -> None:
    log = MergedLog()
    recorder = recorder_of(log)

    for offset in (1000, 1003, 1001):
        recorder.record(offset, 1, NOW_NS)

    assert log.reads == 1


class UnreadableLog:
    def read(self, _offset: int) -> Span | None:
        raise ReadError("segment", OSError(24, "Too many open files"))


@pytest.mark.parametrize("log", [UnreadableLog(), log_with(), log_with((2, MS))])
def test_what_the_log_no_longer_holds_is_not_counted(log: MemoryLog) -> None:
    recorder = recorder_of(log)

    recorder.record(900, 10, NOW_NS)
    recorder.record(2000, 10, NOW_NS)

    assert recorded(recorder).count == 0


def test_a_run_that_is_gone_in_part_is_counted_in_part() -> None:
    recorder = recorder_of(log_with((2, MS)))

    recorder.record(998, 10, NOW_NS)

    assert recorded(recorder).count == 2
