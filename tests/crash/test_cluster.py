"""Three nsqds and two nsqlookupds under load, one of each being killed and restarted again and again.

NSQLAKE_CLUSTER_SECONDS is how long that goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import uvloop

from nsqlake.client import ClientConfig, Consumer, Message, Producer, PublishUnknownError, Requeue
from nsqlake.client.errors import PublishNotSentError
from tests.crash.bodies import MIN_BODY_BYTES, Content
from tests.crash.book import Book, ChannelBook, Outcome
from tests.crash.cluster import Cluster, Lookupd, Nsqd, running

pytestmark = [pytest.mark.slow]

SECONDS = float(os.environ.get("NSQLAKE_CLUSTER_SECONDS", "60"))  # and the last restarts
TOPIC = "orders"
CONSUMERS = {"archive": 2, "mail": 1}  # by channel
POLL_S = 3.0
LIMIT_S = 30.0
PUBLISHERS = 6  # of each producer
BURST, SEVERAL, PAUSE_S = 4, 3, 0.01
CONFIG = ClientConfig(
    lookupd_poll_interval=POLL_S,
    lookupd_poll_timeout=POLL_S,
    reconnect_max_delay=1,
    max_in_flight=300,
    max_attempts=0,
    publish_timeout=10,
)


async def until(condition: Callable[[], bool], *, asks: bool = False, limit_s: float = LIMIT_S) -> float:
    """How long it took; what asks daemons is asked in a thread."""
    begin_s = time.monotonic()
    while not (await asyncio.to_thread(condition) if asks else condition()):
        if time.monotonic() > begin_s + limit_s:
            raise TimeoutError(f"{condition} did not become true in {limit_s:g} s")
        await asyncio.sleep(0.05)
    return time.monotonic() - begin_s


class Publisher:
    """Publishes in all ways, and keeps the book about what it was told."""

    def __init__(self, number: int, producer: Producer, book: Book) -> None:
        self._number, self._producer, self._book = number, producer, book
        self._sequence = self._group = 0

    async def run(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            singles = [self._publish_one() for _ in range(BURST)]
            await asyncio.gather(*singles, self._publish_several(), self._publish_deferred())
            await asyncio.sleep(PAUSE_S)

    async def _publish_one(self) -> None:
        (content,) = self._contents(1)
        await self._note([content], self._producer.publish(TOPIC, encoded(content)))

    async def _publish_several(self) -> None:
        self._group += 1
        contents = self._contents(SEVERAL, group=self._group, group_size=SEVERAL)
        await self._note(contents, self._producer.multi_publish(TOPIC, [encoded(each) for each in contents]))

    async def _publish_deferred(self) -> None:
        delay_s = random.uniform(0.01, 2.0)
        (content,) = self._contents(1, due_ns=time.time_ns() + int(delay_s * 1e9))
        await self._note([content], self._producer.deferred_publish(TOPIC, delay_s, encoded(content)))

    def _contents(self, count: int, **fields: int) -> list[Content]:
        first, self._sequence = self._sequence, self._sequence + count
        return [Content(self._number, sequence, **fields) for sequence in range(first, first + count)]

    async def _note(self, contents: list[Content], publish: Awaitable[None]) -> None:
        self._book.attempt(contents)
        try:
            await publish
        except PublishNotSentError:
            self._book.answer(contents, Outcome.REFUSED)
        except PublishUnknownError:
            return
        else:
            self._book.answer(contents, Outcome.ACKNOWLEDGED)


def encoded(content: Content) -> bytes:
    return content.encode(MIN_BODY_BYTES + content.sequence % 997)


class Chaos:
    """At most one nsqd and one nsqlookupd are down at a time."""

    def __init__(self, cluster: Cluster, consumers: list[Consumer]) -> None:
        self._cluster, self._consumers = cluster, consumers
        self._end_s = time.monotonic() + SECONDS
        self._down: Nsqd | None = None
        self.nsqd_kills = self.lookupd_kills = 0
        self.rediscovered_s: list[float] = []

    async def run(self) -> None:
        await asyncio.gather(self._kill_nsqds(), self._kill_lookupds())

    async def _kill_nsqds(self) -> None:
        while time.monotonic() < self._end_s:
            self._down = victim = random.choice(self._cluster.nsqds)
            await self._kill(victim)
            self.nsqd_kills += 1
            self._down = None
            await until(partial(self._is_listed, victim), asks=True)
            self.rediscovered_s.append(await until(partial(self._is_in_use, victim)))
            await asyncio.sleep(random.uniform(0.1, 1.0))

    async def _kill_lookupds(self) -> None:
        while time.monotonic() < self._end_s:
            victim = random.choice(self._lookupds)
            await self._kill(victim)
            self.lookupd_kills += 1
            # Only then the other one can be missed.
            await until(partial(self._knows_all, victim), asks=True)
            await asyncio.sleep(random.uniform(0.1, 1.0))

    async def _kill(self, victim: Nsqd | Lookupd) -> None:
        await asyncio.to_thread(victim.process.kill)
        await asyncio.sleep(random.uniform(0.1, 1.5))
        await asyncio.to_thread(victim.process.__enter__)

    @property
    def _lookupds(self) -> list[Lookupd]:
        return self._cluster.lookupds

    def _is_listed(self, nsqd: Nsqd) -> bool:
        return any(nsqd.tcp_address in lookupd.nsqds(TOPIC) for lookupd in self._lookupds)

    def _knows_all(self, lookupd: Lookupd) -> bool:
        up = {nsqd.tcp_address for nsqd in self._cluster.nsqds if nsqd is not self._down}
        return lookupd.nsqds(TOPIC) >= up

    def _is_in_use(self, nsqd: Nsqd) -> bool:
        return all(nsqd.tcp_address in in_use(consumer) for consumer in self._consumers)


def in_use(consumer: Consumer) -> set[str]:
    return {node.address for node in consumer.stats().nodes if node.state == "ready"}


def handler(book: ChannelBook) -> Callable[[Message], Awaitable[None]]:
    async def handle(message: Message) -> None:
        key = book.deliver(message)
        if key is not None and message.attempts == 1 and random.random() < 0.01:
            raise Requeue(0.2, backoff=False)
        if key is not None:
            book.finish([key])

    return handle


class Scenario:
    """The clients, from start to end."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.book = cluster, Book()
        addresses = [nsqd.tcp_address for nsqd in cluster.nsqds]
        self.producers = [
            Producer(addresses, config=CONFIG, retries=20, retry_unknown=True),
            Producer(addresses, config=CONFIG, strategy="least-pending"),
        ]
        lookupds = [lookupd.http_address for lookupd in cluster.lookupds]
        self.consumers = [
            Consumer(
                TOPIC,
                channel,
                handler(self.book.channel(channel)),
                lookupd_http_addresses=lookupds,
                config=CONFIG,
            )
            for channel, count in CONSUMERS.items()
            for _ in range(count)
        ]
        self.chaos = Chaos(cluster, self.consumers)
        self.drain_s = 0.0

    async def play(self) -> None:
        sockets = open_sockets()
        async with contextlib.AsyncExitStack() as clients:
            for producer in self.producers:
                await clients.enter_async_context(producer)
            for consumer in self.consumers:
                await clients.enter_async_context(consumer)
            nsqds = {nsqd.tcp_address for nsqd in self.cluster.nsqds}
            await until(lambda: all(in_use(each) == nsqds for each in self.consumers))
            await self._load_and_kill()
            with contextlib.suppress(TimeoutError):  # the verdict says what is lost
                self.drain_s = await until(self._is_all_received)
            await until(self._is_drained, asks=True)
            self._check_connections()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await until(lambda: open_sockets() <= sockets, limit_s=2)

    async def _load_and_kill(self) -> None:
        is_over = asyncio.Event()
        publishers = [
            Publisher(number, self.producers[number % len(self.producers)], self.book)
            for number in range(PUBLISHERS * len(self.producers))
        ]
        async with asyncio.TaskGroup() as group:
            for publisher in publishers:
                group.create_task(publisher.run(is_over))
            await self.chaos.run()
            is_over.set()

    def _is_all_received(self) -> bool:
        return not any(channel.unfinished for channel in self.book.channels.values())

    def _is_drained(self) -> bool:
        channels = [channel for nsqd in self.cluster.nsqds for channel in nsqd.channels(TOPIC).values()]
        counts = ("depth", "in_flight_count", "deferred_count")
        return not any(channel[count] for channel in channels for count in counts)

    def _check_connections(self) -> None:
        """A killed nsqd costs a consumer one connection, a killed nsqlookupd none; no old ones are left."""
        kills = self.chaos.nsqd_kills
        for consumer in self.consumers:
            assert (consumer.stats().disconnects, consumer.stats().abandoned) == (kills, 0)
        for nsqd in self.cluster.nsqds:
            clients = {name: channel["client_count"] for name, channel in nsqd.channels(TOPIC).items()}
            assert clients == CONSUMERS


def open_sockets() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of listing them
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in found if name.startswith("socket:")}


def test_nothing_acknowledged_is_lost_while_nodes_of_a_cluster_die(tmp_path: Path) -> None:
    with running(tmp_path, lookupds=2, nsqds=3) as cluster:
        for nsqd in cluster.nsqds:
            nsqd.create(TOPIC, *CONSUMERS)

        async def play() -> Scenario:
            await until(lambda: cluster.is_announced(TOPIC), asks=True)
            scenario = Scenario(cluster)
            await scenario.play()
            return scenario

        scenario = uvloop.run(play())

    chaos, book = scenario.chaos, scenario.book
    deliveries = [len(each) for channel in book.channels.values() for each in channel.deliveries.values()]
    told = {
        "kills": (chaos.nsqd_kills, chaos.lookupd_kills),
        "slowest rediscovery": max(chaos.rediscovered_s),
        **{outcome.value: book.count(outcome) for outcome in Outcome},
        "seconds to drain": scenario.drain_s,
        "duplicates": sum(deliveries) - len(deliveries),
        "retries": [producer.stats().retries for producer in scenario.producers],
    }
    verdicts = [channel.verdict() for channel in book.channels.values()]
    for verdict in verdicts:
        assert (verdict.lost, verdict.unexpected, verdict.early, verdict.partial_mpubs) == ([], [], [], []), (
            told
        )
    assert max(chaos.rediscovered_s) < 2 * POLL_S, told
    assert book.count(Outcome.ACKNOWLEDGED) > 20 * SECONDS, told
    assert min(chaos.nsqd_kills, chaos.lookupd_kills) >= 2, told  # a busy machine has time for few
