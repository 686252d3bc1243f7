"""The figures for Prometheus."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from nsqlake import NSQ_VERSION, __version__
from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.runtime.clock import Clock

__all__ = ["Metrics"]

Counts = Callable[[], Mapping[str, int]]


class Metrics(Collector):
    """Reads the figures when it is asked; keeps none of its own. The counts are by listener, code or path."""

    def __init__(self, db: RegistrationDb, clock: Clock) -> None:
        self._db, self._clock = db, clock
        self._started_s = clock.timestamp_ns() / 1e9
        self.open_connections: Counts = dict
        self.accepted_connections: Counts = dict
        self.errors: Counts = dict
        self.http_requests: Counts = dict
        self.commands: Callable[[], int] = int
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        version = {"version": __version__, "nsq_version": NSQ_VERSION}
        yield InfoMetricFamily("nsqlookupd_build", "The version that runs.", value=version)
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(f"nsqlookupd_{name}", text, value=value)
        yield CounterMetricFamily("nsqlookupd_commands", "Commands of nsqds.", value=self.commands())
        yield from self._labelled()

    def _gauges(self) -> Iterator[tuple[str, str, float]]:
        db, now_ns = self._db, self._clock.now_ns()
        peers = db.peers()
        yield "start_time_seconds", "When it started.", self._started_s
        yield "topics", "Topics known, with or without an nsqd.", db.topic_count
        yield "channels", "Channels known, with or without an nsqd.", db.key_count - db.topic_count
        yield "registrations_limit", "Topics and channels that may be known.", db.max_registrations
        yield "peers", "Connected nsqds.", len(peers)
        active = sum(db.is_active(peer, now_ns) for peer in peers)
        yield "peers_active", "Those that have pinged lately.", active
        entries = sum(peer.registration_count for peer in peers)
        yield "peer_registrations", "Topics and channels of all nsqds together.", entries
        yield "tombstones", "Tombstones, those that have expired too.", db.tombstone_count

    def _labelled(self) -> Iterator[Metric]:
        connections = GaugeMetricFamily(
            "nsqlookupd_connections", "Open connections, by listener.", labels=("listener",)
        )
        yield _filled(connections, self.open_connections())
        families = (
            ("connections_accepted", "Connections since the start, by listener.", "listener"),
            ("protocol_errors", "Errors sent to nsqds, by code.", "code"),
            ("http_requests", "Requests that had an endpoint, by path.", "path"),
        )
        counts = (self.accepted_connections(), self.errors(), self.http_requests())
        for (name, text, label), values in zip(families, counts, strict=True):
            yield _filled(CounterMetricFamily(f"nsqlookupd_{name}", text, labels=(label,)), values)


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, int]
) -> GaugeMetricFamily | CounterMetricFamily:
    for label, value in values.items():
        family.add_metric((label,), value)
    return family
