"""Prometheus' text: readable for its own parser, complete, and with NSQ's figures."""

import asyncio
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from nsqlake import __version__
from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.nsqd.stats.metrics import build_registry, render_metrics
from nsqlake.nsqd.stats.observation import LogTotals, Observation, count_connections
from nsqlake.nsqd.stats.timings import Timings
from nsqlake.nsqd.stats.values import Latency, LogStats, Percentile, TopicStats
from tests.nsqd.stats.support import START_S, channel_stats, node_stats, topic_stats

MS = 1_000_000
BUSY = channel_stats(
    "c",
    depth=2,
    backend_depth=1,
    in_flight_count=3,
    deferred_count=4,
    message_count=10,
    requeue_count=5,
    timeout_count=6,
    client_count=7,
    paused=True,
    dead_count=8,
)
LATENCY = Latency(1, [Percentile(1, 1_500_000_000), Percentile(0.5, 20 * MS)])


def observed(*topics: TopicStats, **fields: Any) -> Observation:
    known = {
        "stats": node_stats(*topics),
        "timings": Timings(),
        "gc_pauses": Histogram(),
        "logs": LogTotals(1, 2, 3),
        "connections": count_connections([], {True: 4}),
        "accepted": {"tcp": 7, "http": 3},
        "memory_limit_bytes": 1000,
    }
    return Observation(**{**known, **fields})


def text_of(observation: Observation) -> str:
    async def render() -> bytes:
        return await render_metrics(await build_registry(observation))

    return asyncio.run(render()).decode()


def families_of(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def values_of(observation: Observation) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families_of(text_of(observation)).values()
        for sample in family.samples
    }


def test_it_says_what_the_librarys_own_renderer_says() -> None:
    observation = observed(
        topic_stats("t", BUSY, e2e_processing_latency=LATENCY, message_count=12_345_678),
        topic_stats("u#ephemeral"),
    )
    registry = asyncio.run(build_registry(observation))

    theirs = generate_latest(registry).decode()

    def settled(text: str) -> list[tuple[str, str, dict[str, str], float]]:
        return [
            (family.name, family.type, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if family.name.startswith("nsqd_")
        ]

    assert settled(text_of(observation)) == settled(theirs)


def test_a_topic_has_its_figures() -> None:
    topic = topic_stats(
        "t",
        depth=1,
        backend_depth=2,
        message_count=3,
        message_bytes=4,
        paused=True,
        log=LogStats(0, 9, 5, 6, 7, 8),
    )

    values = values_of(observed(topic))

    figures = {name: value for (name, labels), value in values.items() if ("topic", "t") in labels}
    assert figures == {
        "nsqd_topic_depth": 1,
        "nsqd_topic_backend_depth": 2,
        "nsqd_topic_messages_total": 3,
        "nsqd_topic_message_bytes_total": 4,
        "nsqd_topic_paused": 1,
        "nsqd_topic_log_bytes": 5,
        "nsqd_topic_log_segments": 6,
        "nsqd_topic_log_damaged_blocks_total": 7,
        "nsqd_topic_log_unsynced_messages": 8,
    }


def test_a_channel_has_its_figures() -> None:
    values = values_of(observed(topic_stats("t", BUSY)))

    figures = {name: value for (name, labels), value in values.items() if ("channel", "c") in labels}
    assert figures == {
        "nsqd_channel_messages_total": 10,
        "nsqd_channel_depth": 2,
        "nsqd_channel_backend_depth": 1,
        "nsqd_channel_in_flight": 3,
        "nsqd_channel_deferred": 4,
        "nsqd_channel_requeues_total": 5,
        "nsqd_channel_timeouts_total": 6,
        "nsqd_channel_dead_letters_total": 8,
        "nsqd_channel_consumers": 7,
        "nsqd_channel_paused": 1,
    }


def test_percentiles_are_in_seconds() -> None:
    channel = channel_stats("c", e2e_processing_latency=LATENCY)

    values = values_of(observed(topic_stats("t", channel, e2e_processing_latency=LATENCY)))

    assert values["nsqd_topic_e2e_latency_seconds", (("quantile", "1"), ("topic", "t"))] == 1.5
    of_channel = (("channel", "c"), ("quantile", "0.5"), ("topic", "t"))
    assert values["nsqd_channel_e2e_latency_seconds", of_channel] == 0.02


def test_the_node_says_how_it_is() -> None:
    stats = node_stats(topic_stats("t", BUSY), topic_stats("u"), health="NOK - broken", draining=True)

    values = values_of(observed(stats=stats, input_bytes=5, task_failures=6))

    assert values["nsqd_healthy", ()] == 0
    assert values["nsqd_draining", ()] == 1
    assert values["nsqd_start_time_seconds", ()] == START_S
    assert values["nsqd_topics", ()] == 2
    assert values["nsqd_channels", ()] == 1
    assert values["nsqd_build_info", (("nsq_version", "1.3.0"), ("version", __version__))] == 1
    assert values["nsqd_message_memory_bytes", ()] == 1
    assert values["nsqd_message_memory_limit_bytes", ()] == 1000
    assert values["nsqd_input_memory_bytes", ()] == 5
    assert values["nsqd_log_lost_messages", ()] == 2
    assert values["nsqd_log_torn_blocks", ()] == 3
    assert values["nsqd_task_failures_total", ()] == 6
    assert values["nsqd_connections", (("kind", "http"), ("tls", "yes"))] == 4


@pytest.mark.parametrize("name", ["log_write", "log_sync", "delivery", "finish", "loop_lag"])
def test_every_timing_is_a_histogram(name: str) -> None:
    timings = Timings()
    getattr(timings, name.removeprefix("log_")).observe(3 * MS, 2)

    family = families_of(text_of(observed(timings=timings)))[f"nsqd_{name}_seconds"]

    values = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert family.type == "histogram"
    assert values[f"nsqd_{name}_seconds_bucket", "0.0025"] == 0
    assert values[f"nsqd_{name}_seconds_bucket", "0.005"] == 2
    assert values[f"nsqd_{name}_seconds_bucket", "+Inf"] == 2
    assert values[f"nsqd_{name}_seconds_count", None] == 2
    assert values[f"nsqd_{name}_seconds_sum", None] == pytest.approx(0.006)


def test_the_process_and_its_collector_are_there_too() -> None:
    families = families_of(text_of(observed()))

    assert families["process_resident_memory_bytes"].samples[0].value > 1_000_000
    assert "process_cpu_seconds" in families
    assert "python_gc_collections" in families
    assert "nsqd_gc_pause_seconds" in families


def test_names_follow_the_conventions_of_prometheus() -> None:
    families = families_of(text_of(observed(topic_stats("t", BUSY))))

    for name, family in families.items():
        assert family.documentation.strip()
        assert family.type in ("counter", "gauge", "histogram", "info")
        assert not name.endswith(("_count", "_sum", "_bucket"))
        assert family.type != "histogram" or name.endswith("_seconds")


def test_label_values_are_escaped() -> None:
    values = values_of(observed(stats=node_stats(version='a"b\\c\nd')))

    assert ("nsqd_build_info", (("nsq_version", 'a"b\\c\nd'), ("version", __version__))) in values
