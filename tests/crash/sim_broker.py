"""The real broker on a simulated disk: it keeps book of what it promises while a test drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from nsqlake.nsqd.broker import Broker, CreationError
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.wire.frame_reader import FrameReader
from tests.crash.promises import Block, ChannelLife, Promises, TopicLife
from tests.fakes.sim_files import ROOT, Image, SimFiles
from tests.topiclog.support import framed

DATA_PATH = "/data"
SECOND_NS = 1_000_000_000
NOW_NS = 1_700_000_000 * SECOND_NS
TIMEOUT_NS = 60 * SECOND_NS
OPTIONS = NsqdOptions(
    node_id=0, max_bytes_per_file=2_500, mem_queue_size=20, min_free_bytes=0, sync_every=1 << 40
)

Result = TypeVar("Result")


def empty_disk() -> Image:
    return Image({}, {ROOT: {"data": 1}, 1: {}})


class InlineExecutor(Executor):
    """Does at once what is given to another thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class ManualTurn(Turn):
    """Journals are written when the test says so, not when it is time."""

    def _write_journals_soon(self) -> None:
        return


class Consumer:
    """Takes what it is sent."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def deliver(self, frames: Iterable[bytes | memoryview]) -> None:
        for frame in FrameReader().feed(b"".join(frames)):
            self.offsets.append(int(frame.payload[10:26], 16))

    def drop(self) -> None:
        return

    def flush(self) -> None:
        return


class SimBroker:
    """A broker that is started, driven, stopped and killed on `files`; `promises` is what it said."""

    def __init__(
        self, files: SimFiles, promises: Promises | None = None, options: NsqdOptions = OPTIONS
    ) -> None:
        self.files, self.promises, self.options = files, promises or Promises(), options
        self.now_ns = NOW_NS
        self.loop = asyncio.new_event_loop()
        self._bodies = sum(len(block.bodies) for life in self.promises.topics for block in life.blocks)
        self._taken: dict[LiveChannel, tuple[Subscription, Consumer]] = {}

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Let the event loop do what it has been asked for."""
        self.run(asyncio.sleep(0))
        self.run(asyncio.sleep(0))

    @property
    def now(self) -> int:
        return self.files.now

    # Starting and stopping ----------------------------------------------------------------------------

    def start(self) -> None:
        """As the daemon does it."""
        clock = Clock(lambda: self.now_ns, lambda: self.now_ns)
        turn = ManualTurn(self.loop, clock, self.options)
        self.data = DataStore(self.files, DATA_PATH)
        self.broker = Broker(self.options, self.data, clock, turn, InlineExecutor())
        clean, names = self.data.open()
        self.data.mark_start()
        self.broker.load(names, clean=clean)
        self.run(self.broker.transactions.finish_committed())
        self._taken.clear()
        self.settle()

    def stop(self) -> bool:
        """A clean stop; whether it went well."""
        went_well = self.run(self.broker.close())
        if went_well:
            try:
                self.data.mark(clean=True)
            except OSError:
                return False
            for life in self._lives():
                life.synced.append((self.now, life.used_below(self.now)))
                for channel in self.topic(life.name).channels:
                    self._settle_drops(life.name, channel)
        return went_well

    def kill(self) -> None:
        """Nothing more is written; what was written stays, as long as there is power."""
        self.loop.close()
        self.files.forget_descriptors()
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        self.loop.close()

    # Topics -------------------------------------------------------------------------------------------

    def _lives(self) -> list[TopicLife]:
        return [
            life for life in self.promises.topics if life.name in self.broker.topics and self._is_on(life)
        ]

    @staticmethod
    def _is_on(life: TopicLife) -> bool:
        return life.leaving > 1 << 59

    def life(self, name: str) -> TopicLife:
        return next(life for life in reversed(self.promises.topics) if life.name == name)

    def topic(self, name: str) -> LiveTopic:
        return self.broker.topics[name]

    def create_topic(self, name: str) -> None:
        life = TopicLife(name, begun=self.now)
        self.promises.topics.append(life)
        topic = self.run(self.broker.open_topic(name))
        assert topic.log is not None
        life.made, life.uuid = self.now, topic.log.uuid

    def delete_topic(self, name: str) -> None:
        life = self.life(name)
        life.leaving = min(life.leaving, self.now)
        self.run(self.broker.delete_topic(self.topic(name)))
        life.gone = self.now

    def publish(self, name: str, sizes: Sequence[int], *, delay_ns: int = 0) -> int:
        """One block with bodies of these sizes; each body is different."""
        bodies = []
        for size in sizes:
            self._bodies += 1
            bodies.append((b"%06d." % self._bodies * (size // 7 + 1))[:size])
        topic = self.topic(name)
        assert topic.log is not None
        if topic.core.is_closed:
            raise CreationError("exiting")
        due_ns = self.now_ns + delay_ns if delay_ns else 0
        life = self.life(name)
        # Entered first: while it is being written, a part of it may already be found.
        block = Block(topic.log.end, bodies, due_ns, self.now)
        life.blocks.append(block)
        try:
            base = topic.core.publish(**framed(bodies), timestamp_ns=self.now_ns, due_ns=due_ns)
        except BaseException:
            # Its last bytes were refused, so that no part of it can ever pass for the whole.
            life.blocks.remove(block)
            raise
        assert base == block.base
        block.done = self.now
        self.broker.turn.flowed(topic)
        return base

    def sync(self, name: str) -> None:
        """Publishers who wait for the disk get their answer."""
        topic, life = self.topic(name), self.life(name)
        upto = life.used_below(self.now)

        async def wait() -> None:
            synced = topic.wait_synced()
            assert synced is not None
            await synced

        self.run(wait())
        life.synced.append((self.now, upto))

    def retire(self, name: str) -> list[str]:
        life, topic = self.life(name), self.topic(name)
        before = self.now
        log = topic.log
        assert log is not None
        held = {at for at in life.known(before) if log.count(at, at + 1)}
        removed = topic.core.retire()
        for at in held:
            if not log.count(at, at + 1):
                life.dropped.setdefault(at, before)
        return removed

    def pause(self, name: str, paused: bool) -> None:
        self.run(self.broker.set_paused(self.topic(name), paused))

    # Channels -----------------------------------------------------------------------------------------

    def channel_life(self, name: str, channel: str) -> ChannelLife:
        return next(life for life in reversed(self.life(name).channels) if life.name == channel)

    def create_channel(self, name: str, channel: str) -> None:
        topic = self.topic(name)
        life = ChannelLife(channel, begun=self.now, start=topic.core.backlog.fanout)
        self.life(name).channels.append(life)
        self.run(self.broker.open_channel(topic, channel))
        life.made = self.now

    def delete_channel(self, name: str, channel: str) -> None:
        life = self.channel_life(name, channel)
        life.leaving = min(life.leaving, self.now)
        live = self.topic(name).channels[channel]
        self._taken.pop(live, None)
        self.run(self.broker.delete_channel(live))
        life.gone = self.now

    def take(self, name: str, channel: str, count: int) -> list[int]:
        """Up to `count` messages go out; their offsets."""
        live = self.topic(name).channels[channel]
        if live not in self._taken:
            consumer = Consumer()
            sub = Subscription(consumer, msg_timeout_ns=TIMEOUT_NS)
            assert live.core.subscribe(sub)
            self._taken[live] = sub, consumer
        sub, consumer = self._taken[live]
        before = len(consumer.offsets)
        live.core.set_ready(sub, sub.in_flight + count)
        self.broker.turn.wake(live)
        self.settle()
        live.core.set_ready(sub, 0)
        return consumer.offsets[before:]

    def held(self, name: str, channel: str) -> list[int]:
        """What is out."""
        live = self.topic(name).channels[channel]
        runs = live.core.ledger.out.runs()
        return [at for first, count in runs for at in range(first, first + count)]

    def finish(self, name: str, channel: str, offsets: Iterable[int]) -> None:
        live, life = self.topic(name).channels[channel], self.channel_life(name, channel)
        for at in offsets:
            life.dropped.setdefault(at, self.now)
            live.core.finish(self._taken[live][0], b"%016x" % at)
        self.broker.turn.note(live)
        self.settle()

    def requeue(self, name: str, channel: str, offsets: Iterable[int], delay_ns: int = 0) -> None:
        live = self.topic(name).channels[channel]
        for at in offsets:
            live.core.requeue(self._taken[live][0], b"%016x" % at, delay_ns, self.now_ns)
        self.broker.turn.note(live)
        self.settle()

    def empty_channel(self, name: str, channel: str) -> None:
        life, topic = self.channel_life(name, channel), self.topic(name)
        for at in self.life(name).known(self.now):
            if at < topic.core.backlog.fanout:
                life.dropped.setdefault(at, self.now)
        self.run(self.broker.empty_channel(topic.channels[channel]))
        self._settle_drops(name, channel)

    def write_journals(self) -> None:
        self.broker.turn.write_journals()

    def rotate_journal(self, name: str, channel: str) -> None:
        """What `write` does when a generation has grown enough."""
        live = self.topic(name).channels[channel]
        assert live.journal is not None
        live.journal.write_snapshot(live.core.ledger)

    def sync_journal(self, name: str, channel: str) -> None:
        """Made durable: what was written of the journal, so write first."""
        live = self.topic(name).channels[channel]
        assert live.journal is not None
        is_behind = bool(live.core.ledger.pending) or live.journal.failure is not None
        self.run(self.broker.sync_journal(live))
        if not is_behind and live.journal.failure is None:
            self._settle_drops(name, channel)

    def _settle_drops(self, name: str, channel: str) -> None:
        life, ledger = self.channel_life(name, channel), self.topic(name).channels[channel].core.ledger
        for at in life.dropped:
            # What was finished in an earlier life may be held again, if that was not written down.
            if not ledger.holds(at, at + 1):
                life.settled.setdefault(at, self.now)
