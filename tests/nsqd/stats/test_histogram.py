"""Durations by upper bound, as Prometheus counts them."""

from nsqlake.nsqd.stats.histogram import LATENCY_BOUNDS_NS, Histogram

SECOND_NS = 1_000_000_000


def test_a_duration_counts_for_every_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram((SECOND_NS, 2 * SECOND_NS))

    histogram.observe(SECOND_NS)
    histogram.observe(SECOND_NS + 1, count=3)
    histogram.observe(5 * SECOND_NS)

    assert histogram.buckets() == [("1.0", 1), ("2.0", 4), ("+Inf", 5)]
    assert histogram.sum_ns == SECOND_NS + 3 * (SECOND_NS + 1) + 5 * SECOND_NS
    assert histogram.count == 5


def test_a_clock_that_jumped_back_counts_as_no_time() -> None:
    histogram = Histogram((SECOND_NS,))

    histogram.observe(-7)

    assert histogram.buckets() == [("1.0", 1), ("+Inf", 1)]
    assert histogram.sum_ns == 0


def test_the_bounds_for_latencies_rise_from_microseconds_to_minutes() -> None:
    assert list(LATENCY_BOUNDS_NS) == sorted(set(LATENCY_BOUNDS_NS))
    assert Histogram().buckets()[0][0] == "5e-05"
    assert LATENCY_BOUNDS_NS[-1] == 600 * SECOND_NS
