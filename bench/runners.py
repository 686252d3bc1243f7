"""One runner per kind of load: prepares the workers, starts the clock, and works out the figures."""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.case import EQUAL, AnyLoad, BothLoad, DeliverLoad, LatencyLoad, MemoryLoad, PublishLoad
from bench.load.consume import ConsumeJob
from bench.load.crew import Crew, Squad
from bench.load.job import Result
from bench.load.latency import LatencyJob, PacedPublishJob
from bench.load.publish import Publishing, PublishJob

TOPIC = "bench"
BATCH = 200
BACKLOG_CONNECTIONS = 2
SETTLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Stage:
    """What a runner works with. `scale` shrinks the message counts of a quick run."""

    broker: Broker
    crew: Crew
    seconds: float
    scale: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures by metric key, CPU in cores; `busiest_worker` is a share of wall time."""

    values: dict[str, float]
    broker_cores: float
    generator_cores: float
    busiest_worker: float


@functools.singledispatch
def measure(load: AnyLoad, stage: Stage) -> Measurement:
    raise NotImplementedError(type(load).__name__)


@measure.register
def _(load: PublishLoad, stage: Stage) -> Measurement:
    squad = stage.crew.prepare(publish_jobs(load, stage, seconds=stage.seconds))
    results, costs = timed(squad, stage.broker)
    return costs.with_values(rate=total(results) / wall_seconds(results))


@measure.register
def _(load: DeliverLoad, stage: Stage) -> Measurement:
    messages = scaled(load.messages, stage)
    stage.crew.reset_tally()
    # Subscribed before the first message: a channel made later would miss what the first one took.
    squad = stage.crew.prepare(consume_jobs(load, stage, messages * load.channels))
    publish_backlog(load.backlog, load.sizes, messages, stage)
    stage.broker.wait_idle()
    results, costs = timed(squad, stage.broker)
    return costs.with_values(rate=total(results) / wall_seconds(results))


@measure.register
def _(load: BothLoad, stage: Stage) -> Measurement:
    stage.crew.reset_tally()
    consumer = ConsumeJob(
        stage.broker.address, TOPIC, ("bench",) * load.consumers, load.rdy, seconds=stage.seconds
    )
    publishers = publish_jobs(load.publish, stage, seconds=stage.seconds)
    results, costs = timed(stage.crew.prepare([consumer, *publishers]), stage.broker)
    delivered, published = results[:1], results[1:]
    return costs.with_values(
        rate=total(delivered) / wall_seconds(delivered), published=total(published) / wall_seconds(published)
    )


@measure.register
def _(load: LatencyLoad, stage: Stage) -> Measurement:
    seconds = max(load.min_seconds, stage.seconds) if stage.scale == 1 else load.min_seconds / 3
    publisher = PacedPublishJob(stage.broker.address, TOPIC, load.per_second, seconds)
    consumer = LatencyJob(
        stage.broker.address, TOPIC, "bench", publisher.message_count, settings=load.settings
    )
    results, costs = timed(stage.crew.prepare([consumer, publisher]), stage.broker)
    return costs.with_values(**results[0].extras, **results[1].extras)


@measure.register
def _(load: MemoryLoad, stage: Stage) -> Measurement:
    publish_backlog(Publishing.MPUB, EQUAL, scaled(load.messages, stage), stage)
    time.sleep(SETTLE_SECONDS)
    return Measurement({"rss_mb": stage.broker.rss_bytes() / 1e6}, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Costs:
    broker_cores: float
    generator_cores: float
    busiest_worker: float

    def with_values(self, **values: float) -> Measurement:
        return Measurement(values, self.broker_cores, self.generator_cores, self.busiest_worker)


def timed(squad: Squad, broker: Broker) -> tuple[list[Result], Costs]:
    cpu_before, started_at = broker.cpu_seconds(), time.monotonic()
    squad.go()
    results = squad.collect()
    seconds = time.monotonic() - started_at
    return results, Costs(
        (broker.cpu_seconds() - cpu_before) / seconds,
        sum(result.cpu_seconds for result in results) / seconds,
        max(result.cpu_share for result in results),
    )


def publish_jobs(load: PublishLoad, stage: Stage, *, seconds: float) -> list[PublishJob]:
    address, processes = stage.broker.address, min(load.processes, load.connections)
    shares = [len(range(i, load.connections, processes)) for i in range(processes)]
    return [
        PublishJob(address, TOPIC, load.publishing, connections, load.sizes, BATCH, seconds)
        for connections in shares
    ]


def publish_backlog(publishing: Publishing, sizes: tuple[int, int], messages: int, stage: Stage) -> None:
    job = PublishJob(
        stage.broker.address,
        TOPIC,
        publishing,
        1 if publishing is Publishing.PIPELINED else BACKLOG_CONNECTIONS,
        sizes,
        BATCH,
        count=messages,
    )
    stage.crew.run([job])


def consume_jobs(load: DeliverLoad, stage: Stage, expected: int) -> list[ConsumeJob]:
    channels = [f"bench{i % load.channels}" for i in range(load.consumers)]
    return [
        ConsumeJob(
            stage.broker.address,
            TOPIC,
            tuple(channels[i :: load.processes]),
            load.rdy,
            expected,
            shuffle_window=load.shuffle_window,
        )
        for i in range(load.processes)
    ]


def scaled(messages: int, stage: Stage) -> int:
    return int(messages * stage.scale) // BATCH * BATCH


def total(results: Sequence[Result]) -> int:
    return sum(result.messages for result in results)


def wall_seconds(results: Sequence[Result]) -> float:
    start_ns = min(result.start_ns for result in results)
    return (max(result.end_ns for result in results) - start_ns) / 1e9
