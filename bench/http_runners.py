"""One runner per kind of HTTP load; importing this makes them known to `bench.runners.measure`."""

import statistics
import threading
import time

from bench.broker import Broker
from bench.case import EQUAL, LogReadLoad, StatsLoad, WrkLoad
from bench.load.http_client import HttpClient, RawReader, create_topics
from bench.load.latency import LatencyJob, PacedPublishJob
from bench.load.publish import Publishing
from bench.load.wrk import run_wrk
from bench.runners import TOPIC, Measurement, Stage, measure, publish_backlog, scaled, timed

STATS_PATH = "/stats?format=json"
MIN_STATS_SECONDS = 4.0
ASK_EVERY_SECONDS = 0.25


@measure.register
def _(load: WrkLoad, stage: Stage) -> Measurement:
    host, port = stage.broker.http_address
    cpu_before, started_at = stage.broker.cpu_seconds(), time.monotonic()
    report = run_wrk(
        f"http://{host}:{port}{load.path}",
        load.body,
        connections=load.connections,
        threads=load.threads,
        seconds=stage.seconds,
    )
    seconds = time.monotonic() - started_at
    generator_cores = report.cpu_seconds / seconds
    return Measurement(
        {"rate": report.requests_per_second * load.messages, "p99_ms": report.p99_ms},
        (stage.broker.cpu_seconds() - cpu_before) / seconds,
        generator_cores,
        generator_cores / load.threads,
    )


@measure.register
def _(load: StatsLoad, stage: Stage) -> Measurement:
    """`max_ms` is the longest that any message took, `quiet_max_ms` the same without questions."""
    create_topics(stage.broker.http_address, [f"topic-{i}" for i in range(scaled(load.topics, stage))], "c")
    stage.broker.wait_idle()
    quiet = _latencies(load, stage, None)
    asking = _Asking(stage.broker)
    busy = _latencies(load, stage, asking)
    return Measurement(
        {
            "stats_ms": statistics.median(asking.times_ms),
            "stats_max_ms": max(asking.times_ms),
            "stall_ms": busy["max_ms"],
            "p99_ms": busy["p99_ms"],
            "quiet_stall_ms": quiet["max_ms"],
        },
        0.0,
        0.0,
        0.0,
    )


def _latencies(load: StatsLoad, stage: Stage, asking: "_Asking | None") -> dict[str, float]:
    address, seconds = stage.broker.address, max(MIN_STATS_SECONDS * stage.scale, stage.seconds)
    publisher = PacedPublishJob(address, TOPIC, load.per_second, seconds)
    settings = (("output_buffer_size", -1), ("output_buffer_timeout", -1))
    consumer = LatencyJob(address, TOPIC, "bench", publisher.message_count, settings=settings)
    squad = stage.crew.prepare([consumer, publisher])
    if asking is not None:
        asking.start()
    results, _ = timed(squad, stage.broker)
    if asking is not None:
        asking.stop()
    return results[0].extras


class _Asking:
    """Asks for the statistics in a thread of its own, a few times per second."""

    def __init__(self, broker: Broker) -> None:
        self.times_ms: list[float] = []
        self._client = HttpClient(broker.http_address)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._ask_on)

    def start(self) -> None:
        self._thread.start()

    def _ask_on(self) -> None:
        while not self._ending.wait(ASK_EVERY_SECONDS):
            began_at = time.monotonic()
            self._client.get(STATS_PATH)
            self.times_ms.append((time.monotonic() - began_at) * 1e3)

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        self._client.close()


@measure.register
def _(load: LogReadLoad, stage: Stage) -> Measurement:
    publish_backlog(Publishing.MPUB, EQUAL, scaled(load.messages, stage), stage)
    client = HttpClient(stage.broker.http_address)
    offsets = client.get_json(f"/log/offsets?topic={TOPIC}")
    client.close()
    stage.broker.wait_idle()
    reader = RawReader(stage.broker.http_address)
    _read_all(reader, offsets["first"], load.max_bytes)  # from now on it is in the page cache
    cpu_before, started_at, total = stage.broker.cpu_seconds(), time.monotonic(), 0
    own_before = time.process_time()
    while time.monotonic() - started_at < stage.seconds:
        total += _read_all(reader, offsets["first"], load.max_bytes)
    seconds, own = time.monotonic() - started_at, time.process_time() - own_before
    reader.close()
    cores = (stage.broker.cpu_seconds() - cpu_before) / seconds
    return Measurement({"rate": total / seconds / 1e6}, cores, own / seconds, own / seconds)


def _read_all(reader: RawReader, offset: int, max_bytes: int) -> int:
    total = 0
    while True:
        size, headers = reader.read(f"/log/read?topic={TOPIC}&offset={offset}&max_bytes={max_bytes}")
        if not size:
            return total
        total += size
        offset = int(headers["x-nsq-next-offset"])
