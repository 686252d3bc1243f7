"""The figures for Prometheus: families made from an observation, and their text.

prometheus-client has the data model and the process' own metrics. Its text renderer is not used: it would
hold up the event loop for a third of a second when there are thousands of topics.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from nsqlake import __version__
from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.nsqd.stats.observation import Observation
from nsqlake.nsqd.stats.values import ChannelStats, TopicStats
from nsqlake.runtime.pace import run_in_slices

__all__ = ["CONTENT_TYPE", "NsqdCollector", "build_registry", "render_metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECOND_NS = 1_000_000_000


class _Figure(NamedTuple):
    """One number of every topic or every channel; a name that ends in `_total` is a counter's."""

    name: str
    help: str
    value: Callable[[Any], float]


_TOPIC: tuple[_Figure, ...] = (
    _Figure("messages_total", "Messages published to the topic.", lambda t: t.message_count),
    _Figure("message_bytes_total", "Bytes of bodies published to the topic.", lambda t: t.message_bytes),
    _Figure("depth", "Messages that no channel has got yet.", lambda t: t.depth),
    _Figure("backend_depth", "Those of them that are only on disk.", lambda t: t.backend_depth),
    _Figure("paused", "1 while the topic is paused.", lambda t: t.paused),
    _Figure("log_bytes", "Bytes of the topic's log on disk.", lambda t: t.log.bytes),
    _Figure("log_segments", "Files of the topic's log.", lambda t: t.log.segments),
    _Figure(
        "log_unsynced_messages", "Messages a loss of power would take.", lambda t: t.log.unsynced_messages
    ),
    _Figure("log_damaged_blocks_total", "Blocks found damaged and skipped.", lambda t: t.log.damaged_blocks),
)
_CHANNEL: tuple[_Figure, ...] = (
    _Figure("messages_total", "Messages the channel got from its topic.", lambda c: c.message_count),
    _Figure("depth", "Messages that wait for a consumer.", lambda c: c.depth),
    _Figure("backend_depth", "Those of them that are only on disk.", lambda c: c.backend_depth),
    _Figure("in_flight", "Messages that consumers hold.", lambda c: c.in_flight_count),
    _Figure("deferred", "Messages that wait for their time.", lambda c: c.deferred_count),
    _Figure("requeues_total", "Messages that consumers gave back (REQ).", lambda c: c.requeue_count),
    _Figure("timeouts_total", "Messages that consumers held too long.", lambda c: c.timeout_count),
    _Figure("dead_letters_total", "Messages given up after --max-attempts.", lambda c: c.dead_count),
    _Figure("consumers", "Consumers of the channel.", lambda c: c.client_count),
    _Figure("paused", "1 while the channel is paused.", lambda c: c.paused),
)


class _Labels(dict[str, str]):
    """Of one topic or channel, shared by all its samples, with the text they have in common."""

    __slots__ = ("text",)

    def __init__(self, **labels: str) -> None:
        super().__init__(labels)
        self.text = _label_text(self)


class NsqdCollector(Collector):
    """Makes families of what was observed; keeps no number of its own."""

    def __init__(self, observed: Observation) -> None:
        self._observed = observed
        self._topics: list[tuple[_Labels, TopicStats]] = []
        self._channels: list[tuple[_Labels, ChannelStats]] = []

    def collect(self) -> Iterator[Metric]:
        yield from self._node()
        yield from self._storage()
        yield from self._transactions()
        yield from self._histograms()
        for figure in _TOPIC:
            yield _figure_family("nsqd_topic", figure, self._topics)
        for figure in _CHANNEL:
            yield _figure_family("nsqd_channel", figure, self._channels)
        yield from self._latencies()

    def _node(self) -> Iterator[Metric]:
        observed, stats = self._observed, self._observed.stats
        version = {"version": __version__, "nsq_version": stats.version}
        yield InfoMetricFamily("nsqd_build", "The version that runs.", value=version)
        yield GaugeMetricFamily("nsqd_start_time_seconds", "When it started.", value=stats.start_time)
        yield GaugeMetricFamily("nsqd_healthy", "1 while /ping says OK.", value=stats.health == "OK")
        yield GaugeMetricFamily("nsqd_draining", "1 while nsqd drains.", value=stats.draining)
        topics = stats.topics or []
        yield GaugeMetricFamily("nsqd_topics", "Topics.", value=len(topics))
        channels = sum(len(topic.channels) for topic in topics)
        yield GaugeMetricFamily("nsqd_channels", "Channels of all topics.", value=channels)
        kinds = GaugeMetricFamily("nsqd_connections", "Connections by kind.", labels=("kind", "tls"))
        for (kind, is_tls), count in observed.connections.items():
            kinds.add_metric((kind, "yes" if is_tls else "no"), count)
        yield kinds
        accepted = CounterMetricFamily(
            "nsqd_connections_accepted", "Connections since the start, by listener.", labels=("listener",)
        )
        for listener, count in observed.accepted.items():
            accepted.add_metric((listener,), count)
        yield accepted
        yield CounterMetricFamily(
            "nsqd_task_failures", "Background tasks that ended with an error.", value=observed.task_failures
        )

    def _storage(self) -> Iterator[Metric]:
        observed, logs = self._observed, self._observed.logs
        figures = (
            ("message_memory_bytes", "Messages kept in memory besides the log.", logs.memory_bytes),
            ("message_memory_limit_bytes", "What --mem-bytes allows.", observed.memory_limit_bytes),
            ("input_memory_bytes", "Unfinished commands of all connections.", observed.input_bytes),
            ("log_lost_messages", "Messages lost to damage in the logs there are.", logs.lost_messages),
            ("log_torn_blocks", "Blocks cut off at the start: never acknowledged.", logs.torn_blocks),
        )
        for name, text, value in figures:
            yield GaugeMetricFamily(f"nsqd_{name}", text, value=value)

    def _transactions(self) -> Iterator[Metric]:
        found = self._observed.transactions
        gauges = (
            ("open", "Transactions that are staged or not in the logs yet.", found.open),
            ("stalled", "Committed transactions that cannot get into the logs now.", found.stalled),
            ("staged_bytes", "Bytes on disk of messages that are not committed.", found.staged_bytes),
        )
        for name, text, value in gauges:
            yield GaugeMetricFamily(f"nsqd_transactions_{name}", text, value=value)
        counters = (
            ("committed", "Transactions that came to the logs.", found.committed),
            ("expired", "Transactions dropped after --txn-timeout.", found.expired),
            ("lost_messages", "Committed messages damaged on their way to the logs.", found.lost_messages),
        )
        for name, text, value in counters:
            yield CounterMetricFamily(f"nsqd_transactions_{name}", text, value=value)

    def _histograms(self) -> Iterator[Metric]:
        timings = self._observed.timings
        yield _histogram("log_write", "One block to its log.", timings.write)
        yield _histogram("log_sync", "One sync of a log.", timings.sync)
        yield _histogram("delivery", "From publish to the first delivery.", timings.delivery)
        yield _histogram("finish", "From delivery to FIN.", timings.finish)
        yield _histogram("loop_lag", "How late the event loop comes.", timings.loop_lag)
        yield _histogram("gc_pause", "One run of the garbage collector.", self._observed.gc_pauses)

    def label(self) -> Iterator[None]:
        """Name every topic and channel; to be gone through before `collect`."""
        for topic in self._observed.stats.topics or []:
            self._topics.append((_Labels(topic=topic.topic_name), topic))
            for channel in topic.channels:
                labels = _Labels(channel=channel.channel_name, topic=topic.topic_name)
                self._channels.append((labels, channel))
            yield

    def _latencies(self) -> Iterator[Metric]:
        """Of the window; absent unless percentiles are tracked."""
        text = "From publish to FIN, by quantile."
        yield _family("nsqd_topic_e2e_latency_seconds", text, _quantiles(self._topics))
        yield _family("nsqd_channel_e2e_latency_seconds", text, _quantiles(self._channels))


_Values = Iterator[tuple[dict[str, str], float]]


def _quantiles(named: Sequence[tuple[_Labels, TopicStats | ChannelStats]]) -> _Values:
    for labels, stats in named:
        for percentile in stats.e2e_processing_latency.percentiles or []:
            yield {**labels, "quantile": str(percentile.quantile)}, percentile.value / _SECOND_NS


def _figure_family(prefix: str, figure: _Figure, named: Sequence[tuple[_Labels, object]]) -> Metric:
    value = figure.value
    return _family(
        f"{prefix}_{figure.name}", figure.help, ((labels, value(stats)) for labels, stats in named)
    )


def _family(name: str, text: str, values: _Values) -> Metric:
    """Its samples are made while they are read, so that thousands of them can be made in slices."""
    family = Metric(name.removesuffix("_total"), text, "counter" if name.endswith("_total") else "gauge")
    family.samples = (Sample(name, labels, value) for labels, value in values)  # type: ignore[assignment]
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(
        f"nsqd_{name}_seconds", text, buckets=histogram.buckets(), sum_value=histogram.sum_ns / _SECOND_NS
    )


async def build_registry(observed: Observation) -> CollectorRegistry:
    """For one scrape."""
    collector = NsqdCollector(observed)
    await run_in_slices(collector.label())
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


async def render_metrics(registry: CollectorRegistry) -> bytes:
    """Prometheus' text format, made in slices."""
    parts: list[str] = []
    await run_in_slices(_render(registry, parts))
    return "".join(parts).encode()


def _render(registry: CollectorRegistry, parts: list[str]) -> Iterator[None]:
    for family in registry.collect():
        name, kind = family.name, family.type
        if kind == "counter":
            name += "_total"
        elif kind == "info":
            name, kind = f"{name}_info", "gauge"
        parts.append(f"# HELP {name} {family.documentation}\n# TYPE {name} {kind}\n")
        for sample in family.samples:
            labels = sample.labels
            text = labels.text if isinstance(labels, _Labels) else _label_text(labels)
            parts.append(f"{sample.name}{text} {_number(sample.value)}\n")
            yield


def _label_text(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)]) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:d}"
    shown: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return shown
