"""A broker on real files without a daemon around it: started, killed and started again by a test."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor, Future
from typing import Any, Self, TypeVar

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.core.channel import Outcome
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.turn import Turn
from nsqlake.testing.clock import ManualClock
from nsqlake.topiclog.files import OS_FILES, Files
from tests.nsqd.core.harness import Delivered, id_of, parse
from tests.topiclog.support import framed

SECOND_NS = 1_000_000_000
TIMEOUT_NS = 60 * SECOND_NS
T = TypeVar("T")


class InlineExecutor(Executor):
    """Does at once what is given to another thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class Consumer:
    """Takes what it is sent."""

    def __init__(self) -> None:
        self.received: list[Delivered] = []

    def deliver(self, frames: list[bytes | memoryview]) -> None:
        self.received += parse(frames)

    def flush(self) -> None:
        return

    def drop(self) -> None:
        return


class BrokerOnDisk:
    """`path` is the data path; offsets of received messages are those of node 5."""

    def __init__(self, path: str, *, files: Files = OS_FILES, **options: Any) -> None:
        self.path, self.files = path, files
        self.options = NsqdOptions(**{"node_id": 5, "min_free_bytes": 0, "sync_every": 1 << 40, **options})
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        self.start()

    def start(self) -> None:
        data = DataStore(self.files, self.path)
        turn = Turn(self.loop, self.clock, self.options)
        self.broker = Broker(self.options, data, self.clock, turn, InlineExecutor())
        clean, names = data.open()
        data.mark_start()
        self.broker.load(names, clean=clean)
        self.run(self.broker.transactions.finish_committed())
        self.settle()

    def kill_and_start(self) -> None:
        """As kill -9 and a new process: what was not written is gone."""
        self.loop.close()
        del self.broker
        self.loop = asyncio.new_event_loop()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Let the event loop do what it has been asked for."""
        for _ in range(3):
            self.run(asyncio.sleep(0))

    def topic(self, name: str = "orders") -> LiveTopic:
        return self.run(self.broker.open_topic(name))

    def channel(self, topic: str = "orders", name: str = "c", **arguments: Any) -> LiveChannel:
        return self.run(self.broker.open_channel(self.topic(topic), name, **arguments))

    def publish(self, *bodies: bytes, topic: str = "orders", delay_ns: int = 0) -> int:
        now_ns = self.clock.now_ns()
        due_ns = now_ns + delay_ns if delay_ns else 0
        live = self.topic(topic)
        base = live.core.publish(**framed(bodies), timestamp_ns=now_ns, due_ns=due_ns)
        self.broker.turn.flowed(live)
        self.settle()
        return base

    def consume(self, channel: LiveChannel, ready: int) -> tuple[Subscription, Consumer]:
        consumer = Consumer()
        sub = Subscription(consumer, msg_timeout_ns=TIMEOUT_NS)
        assert channel.core.subscribe(sub)
        channel.core.set_ready(sub, ready)
        self.broker.turn.wake(channel)
        self.settle()
        return sub, consumer

    def drained(self, channel: LiveChannel) -> list[int]:
        """The offsets of all that can be had now, in order; they are finished."""
        sub, consumer = self.consume(channel, 100_000)
        while channel.core.can_deliver:
            self.settle()
        for message in consumer.received:
            assert channel.core.finish(sub, id_of(message.offset)) is Outcome.DONE
        channel.core.unsubscribe(sub)
        return sorted(message.offset for message in consumer.received)
