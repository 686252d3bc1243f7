"""The topics of the daemon: found, created and deleted, each durable before anybody is told."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import random
from time import monotonic_ns

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.announcer import Announcer, SilentAnnouncer
from nsqlake.nsqd.closing import close_files
from nsqlake.nsqd.core.channel import ChannelLimits
from nsqlake.nsqd.core.dead_letters import DeadLetter
from nsqlake.nsqd.core.seeking import FutureOffsetError, SeekTarget, resolve
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.dead_letters import DeadLetters
from nsqlake.nsqd.group_commit import run_job
from nsqlake.nsqd.journal_file import JournalFile, JournalSync
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.option_choices import TOPOLOGY_AWARE_CONSUMPTION
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.replay import offset_of
from nsqlake.nsqd.retention_policies import Kept, RetentionPolicies
from nsqlake.nsqd.stats.latency import LatencyRecorder
from nsqlake.nsqd.stats.timings import Timings
from nsqlake.nsqd.topic_loader import LoadedTopic, TopicLoader, describe_report, describe_totals
from nsqlake.nsqd.topic_store import ChannelState
from nsqlake.nsqd.transactions.store import TransactionStore
from nsqlake.nsqd.transactions.transactions import Transactions
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.topiclog.errors import TopicLogError, describe
from nsqlake.topiclog.memory_log import MemoryLog
from nsqlake.topiclog.options import LogOptions
from nsqlake.wire.names import is_ephemeral

__all__ = ["Broker", "CreationError"]

logger = logging.getLogger(__name__)

_OFFSET_BITS = 54
_EXITING = "exiting"
_TOPIC_MEMORY_BYTES = 32 * 1024 * 1024


class CreationError(NsqlakeError):
    """A topic or channel cannot be made or used now; the text, and perhaps the code, is for the client."""

    def __init__(self, reason: str, *, code: str = "") -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


class Broker:
    """Every topic by its name. Whatever changes the disk is awaited; the rest is immediate."""

    def __init__(
        self, options: NsqdOptions, data: DataStore, clock: Clock, turn: Turn, executor: Executor
    ) -> None:
        self._options, self._data, self._clock, self._executor = options, data, clock, executor
        self.turn = turn
        self.topics: dict[str, LiveTopic] = {}
        self.broken: dict[str, str] = {}  # topics on disk that could not be opened
        self.failure = ""
        self.announcer: Announcer = SilentAnnouncer()
        self.timings = Timings()
        self._creating: dict[str, asyncio.Future[LiveTopic]] = {}
        self._deleting: dict[str, asyncio.Future[None]] = {}
        self.refusal = ""  # why nothing may be published: draining, exiting
        self.draining = False
        self.on_drain: list[Callable[[], None]] = []  # called once, when draining begins
        self.letters = DeadLetters(self, clock)
        self.transactions = Transactions(
            self,
            TransactionStore(data.files, data.path),
            clock=clock,
            executor=executor,
            options=options,
        )
        turn.on_dead = self.letters.collect
        turn.write_times = self.timings.write
        self.retention = RetentionPolicies(
            Kept(options.retention_time_ns, options.retention_bytes), options.retention_policies
        )
        limits = ChannelLimits(
            max_msg_timeout_ns=options.max_msg_timeout_ns,
            ephemeral_depth=options.mem_queue_size,
            max_consumers=options.max_channel_consumers,
            is_topology_aware=TOPOLOGY_AWARE_CONSUMPTION in options.enable_experiment,
            max_attempts=options.max_attempts,
        )
        self._log_options = LogOptions(
            max_bytes_per_file=options.max_bytes_per_file,
            mem_messages=options.mem_queue_size,
            mem_bytes=min(options.mem_bytes, _TOPIC_MEMORY_BYTES),
            min_free_bytes=options.min_free_bytes,
        )
        self._loader = TopicLoader(
            data, self._log_options, id_base=options.node_id << _OFFSET_BITS, limits=limits, random=random
        )

    @property
    def health(self) -> str:
        """ "" while all is well, else what someone must look at."""
        if self.failure or self.transactions.failure:
            return self.failure or self.transactions.failure
        return next((f"{topic}: {topic.failure}" for topic in self.topics.values() if topic.failure), "")

    def now_ns(self) -> int:
        return self._clock.now_ns()

    # Opening ------------------------------------------------------------------------------------------

    def load(self, names: list[str], *, clean: bool) -> None:
        now_ns = self._clock.now_ns()
        self.transactions.load()
        for name in names:
            try:
                hide = partial(self.transactions.hide, name)
                loaded = self._loader.load(name, now_ns, clean=clean, hide=hide)
            except (OSError, TopicLogError) as error:
                logger.error("TOPIC(%s): cannot be opened, left as it is: %s", name, error)
                self.broken[name] = _reason(error)
                self.failure = f"TOPIC({name}): cannot be opened: {self.broken[name]}"
                continue
            describe_report(name, loaded.report)
            topic = self._adopt(loaded)
            for channel in topic.channels.values():
                self.turn.note(channel)
            logger.info("%s: loaded channels=%d depth=%d", topic, len(topic.channels), topic.core.depth)
        describe_totals([topic.recovered for topic in self.topics.values()])

    def _adopt(self, loaded: LoadedTopic) -> LiveTopic:
        topic = LiveTopic(
            loaded.core, self._executor, store=loaded.store, log=loaded.log, on_synced=self._synced
        )
        topic.recovered = loaded.report
        for name, (state, journal) in loaded.channels.items():
            topic.channel_states[name] = state
            topic.channels[name] = LiveChannel(loaded.core.channels[name], topic, journal)
            self._measure(topic.channels[name])
        self.topics[topic.name] = topic
        return topic

    def _measure(self, channel: LiveChannel) -> None:
        """Have it told how long the channel's messages take; latencies only if anybody wants to know them."""
        if self._options.e2e_processing_latency_percentiles:
            window_ns = self._options.e2e_processing_latency_window_time_ns
            channel.latency = LatencyRecorder(channel.topic.core.log, window_ns, self._clock.now_ns)
        channel.core.watch(self.timings, channel.latency)

    def _synced(self, topic: LiveTopic, error: OSError | None) -> None:
        self.timings.sync.observe(monotonic_ns() - topic.sync_began_ns)
        if topic.failure:
            logger.error(
                "%s: sync failed, takes no more messages until the daemon restarts: %s", topic, error
            )
        elif error is not None:
            logger.error("%s: not synced, will be tried again: %s", topic, error)

    # Topics -------------------------------------------------------------------------------------------

    async def open_topic(self, name: str, *, while_draining: bool = False) -> LiveTopic:
        """The topic, made if there is none. Raises CreationError."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        if self.draining and not while_draining:
            raise CreationError(self.refusal)
        pending = self._creating.get(name)
        if pending is None:
            pending = asyncio.ensure_future(self._create_topic(name))
            self._creating[name] = pending
            pending.add_done_callback(lambda _: self._creating.pop(name, None))
        return await asyncio.shield(pending)

    async def _create_topic(self, name: str) -> LiveTopic:
        limit = self._options.max_topics
        if self.is_exiting:
            raise CreationError("exiting")
        if name in self.broken:
            raise CreationError(self.broken[name])
        if limit and len(self.topics) + len(self._creating) > limit:
            raise CreationError(f"too many topics, --max-topics is {limit}", code="E_BAD_TOPIC")
        channels = await self.announcer.find_channels(name)
        if is_ephemeral(name):
            topic = self._create_ephemeral(name)
        else:
            topic = self._adopt(await self._create_durable(name))
        logger.info("%s: created", topic)
        self.announcer.created(name)
        await self._pre_create(topic, channels)
        return topic

    async def _pre_create(self, topic: LiveTopic, names: list[str]) -> None:
        """All at once and before anybody can publish, so that none of them misses a message."""
        channels = [self._add_channel(topic, name) for name in (() if self.is_exiting else names)]
        settling = [channel.created for channel in channels if channel.created is not None]
        await asyncio.gather(*settling, return_exceptions=True)  # a failure is logged, the topic stays

    async def _create_durable(self, name: str) -> LoadedTopic:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._loader.create, name, self._clock.now_ns())
        except (OSError, TopicLogError) as error:
            logger.error("TOPIC(%s): not created: %s", name, error)
            raise CreationError(f"topic not created: {_reason(error)}") from error

    def _create_ephemeral(self, name: str) -> LiveTopic:
        first = self._data.first_offset(self._clock.now_ns())
        # Without room for one message not even a waiting consumer would get any.
        options = replace(self._log_options, mem_messages=max(1, self._log_options.mem_messages))
        log = MemoryLog(options=options, first_offset=first, uuid=secrets.token_bytes(16))
        topic = LiveTopic(self._loader.make_core(name, log), self._executor, on_synced=self._synced)
        self.topics[name] = topic
        return topic

    async def delete_topic(self, topic: LiveTopic) -> None:
        """Gone for good when this returns; its consumers are disconnected.

        After an OSError the topic takes no more messages, and deleting may be tried again.
        """
        if self.topics.get(topic.name) is not topic:
            return
        pending = self._deleting.get(topic.name)
        if pending is None:
            pending = asyncio.ensure_future(self._delete_topic(topic))
            self._deleting[topic.name] = pending
            pending.add_done_callback(lambda _: self._deleting.pop(topic.name, None))
        await asyncio.shield(pending)

    async def _delete_topic(self, topic: LiveTopic) -> None:
        self.turn.flush(topic)
        topic.core.is_closed = True
        self.announcer.deleted(topic.name)
        for channel in list(topic.channels.values()):
            self._drop_channel(channel)
        while topic.is_busy:
            await asyncio.sleep(0.001)
        if topic.log is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._remove_files, topic)
        self.topics.pop(topic.name, None)
        logger.info("%s: deleted", topic)

    def _remove_files(self, topic: LiveTopic) -> None:
        assert topic.log is not None
        hidden = self._data.hide(topic.name, secrets.token_hex(8), topic.log.end)
        with suppress(OSError):
            topic.log.delete()  # closes it; its files went with their directory
        self._data.remove(hidden)

    # Channels -----------------------------------------------------------------------------------------

    async def open_channel(self, topic: LiveTopic, name: str, start: SeekTarget | None = None) -> LiveChannel:
        """The channel, made if there is none. Raises CreationError.

        `start` is where a new channel begins, or OutsideLogError. A channel that exists stays where it is.
        """
        channel = topic.channels.get(name)
        if channel is None:
            channel = self._add_channel(topic, name, start)
        if channel.created is not None:
            await asyncio.shield(channel.created)
        if channel.core.is_closed:
            raise CreationError("exiting")
        return channel

    def _add_channel(self, topic: LiveTopic, name: str, start: SeekTarget | None = None) -> LiveChannel:
        if topic.core.is_closed or self.is_exiting:
            raise CreationError("exiting")
        cursor = None
        if start is not None:
            self.turn.flush(topic)
            cursor = resolve(start, topic.core.log, topic.core.origin)
        core = topic.core.add_channel(name, self._clock.now_ns(), cursor)
        channel = LiveChannel(core, topic, None)
        self._measure(channel)
        topic.channels[name] = channel
        logger.info("%s: created", channel)
        if topic.store is not None and not core.is_ephemeral:
            state = ChannelState(name, secrets.randbits(32) | 1, core.ledger.cursor)
            store = topic.store
            channel.journal = JournalFile(store.files, store.channels_path, name, salt=state.salt, old=[])
            channel.journal.write_snapshot(core.ledger)
            topic.channel_states[name] = state
            channel.created = asyncio.ensure_future(self._settle_channel(channel))
        else:
            self.announcer.created(topic.name, name)
        self.turn.note(channel)
        return channel

    async def _settle_channel(self, channel: LiveChannel) -> None:
        try:
            await channel.topic.save_state()
        except OSError as error:
            logger.error("%s: not created: %s", channel, error)
            self._drop_channel(channel)
            raise CreationError(f"channel not created: {_reason(error)}") from error
        channel.created = None
        if not channel.core.is_closed:
            self.announcer.created(channel.topic.name, channel.core.name)

    async def delete_channel(self, channel: LiveChannel) -> None:
        """Gone for good when this returns; its consumers are disconnected."""
        if channel.core.is_closed:
            return
        topic = channel.topic
        self._drop_channel(channel)
        await topic.save_state()
        logger.info("%s: deleted", channel)
        if topic.core.is_ephemeral and not topic.channels:
            await self.delete_topic(topic)

    def _drop_channel(self, channel: LiveChannel) -> None:
        topic = channel.topic
        topic.core.remove_channel(channel.core.name)
        topic.channels.pop(channel.core.name, None)
        topic.channel_states.pop(channel.core.name, None)
        if channel.journal is not None:
            channel.journal.delete()
        self.announcer.deleted(topic.name, channel.core.name)
        for subscription in channel.core.subscriptions:
            subscription.key.drop()

    async def left_by_last(self, channel: LiveChannel) -> None:
        """An ephemeral channel goes with its last consumer."""
        if channel.core.is_ephemeral and not channel.core.subscriptions:
            await self.delete_channel(channel)

    # Administration -----------------------------------------------------------------------------------

    async def set_paused(self, target: LiveTopic | LiveChannel, paused: bool) -> None:
        """Durable when this returns."""
        if isinstance(target, LiveTopic):
            topic = target
            if paused:
                topic.core.pause()
            else:
                topic.core.unpause(self._clock.now_ns())
        else:
            topic = target.topic
            target.core.is_paused = paused
            for subscription in target.core.subscriptions if paused else ():
                subscription.key.flush()
        for channel in topic.channels.values():
            self.turn.wake(channel)
        await topic.save_state()

    async def set_max_attempts(self, channel: LiveChannel, max_attempts: int | None) -> None:
        """Deliveries before a message is a dead letter, 0 for any number, None for what the options say.

        Durable when this returns.
        """
        channel.topic.core.set_max_attempts(channel.core, max_attempts)
        await channel.topic.save_state()

    async def dead_letters(self, channel: LiveChannel, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Those of the channel that wait in its dead topic behind the offset `after`."""
        return await self.letters.waiting(channel, after, limit)

    async def replay_dead(self, channel: LiveChannel, message_id: str | None = None) -> int:
        """Bring one dead letter, or all, back to the channel; returns how many. Raises as `replay` does."""
        return await self.letters.replay(channel, message_id)

    async def empty_topic(self, topic: LiveTopic) -> None:
        self.turn.flush(topic)
        topic.core.empty()
        await topic.save_state()

    async def empty_channel(self, channel: LiveChannel) -> None:
        """Durable when this returns; raises OSError when it could not be made so."""
        self.turn.flush(channel.topic)
        channel.core.empty()
        await self._settle_journal(channel)

    async def seek(self, channel: LiveChannel, to: SeekTarget) -> int:
        """Go on at `to` and forget what is out, requeued and deferred; returns the offset. Delays are kept.

        Durable when this returns. Raises OutsideLogError or ReadError when nothing has changed, or OSError.
        """
        topic = channel.topic
        self.turn.flush(topic)
        cursor = resolve(to, topic.core.log, topic.core.origin)
        channel.core.seek(cursor, self._clock.now_ns())
        logger.info("%s: moved to %s offset=%d", channel, to, cursor)
        await self._settle_journal(channel)
        return cursor

    async def commit(self, channel: LiveChannel, offset: int) -> int:
        """All that lies before `offset` is finished; returns the cursor, which never goes back.

        Durable when this returns. Raises FutureOffsetError, and then nothing has changed, or OSError.
        """
        log = channel.topic.core.log
        if offset > log.next:
            raise FutureOffsetError(offset, first=log.first, next_=log.next)
        cursor = channel.core.commit(offset)
        await self._settle_journal(channel)
        return cursor

    async def cancel_deferred(self, channel: LiveChannel, message_id: str | None = None) -> int:
        """Finish one deferred message, or all, without delivery; returns how many. Durable, or OSError."""
        only = None if message_id is None else offset_of(channel.topic, message_id)
        cancelled = channel.core.ledger.cancel_deferred(only)
        await self._settle_journal(channel)
        return cancelled

    async def _settle_journal(self, channel: LiveChannel) -> None:
        """What was changed in the channel is durable when this returns; raises OSError when it is not."""
        self.turn.wake(channel)
        journal = channel.journal
        if journal is None:
            return
        # An earlier write may have failed: whoever tries again is owed that one too.
        if not (channel.core.ledger.pending or journal.failure) or journal.write(channel.core.ledger):
            await self.sync_journal(channel)
        if journal.failure is not None:
            raise journal.failure

    async def sync_journal(self, channel: LiveChannel) -> None:
        """What was written of the journal is durable when this returns."""
        journal = channel.journal
        while journal is not None and journal.is_syncing:
            await asyncio.sleep(0.001)  # that sync began before the last write
        job = journal.begin_sync() if journal is not None else None
        if job is None:
            return
        running = asyncio.get_running_loop().run_in_executor(self._executor, run_job, job)
        running.add_done_callback(lambda done: self._journal_synced(channel, job, done))
        await asyncio.shield(running)  # whoever asked may leave; how it ended is noted all the same

    def _journal_synced(
        self, channel: LiveChannel, job: JournalSync, done: "asyncio.Future[OSError | None]"
    ) -> None:
        assert channel.journal is not None
        if done.cancelled() or done.exception() is not None:
            return
        error = done.result()
        channel.journal.end_sync(job, error)
        if error is not None:
            logger.error("%s: journal sync failed: %s", channel, error)

    # Closing ------------------------------------------------------------------------------------------

    @property
    def is_exiting(self) -> bool:
        return self.refusal == _EXITING

    def start_drain(self) -> None:
        """From now on nothing is published and no topic made; consumers go on until all is taken."""
        if self.refusal:
            return
        logger.info("NSQ: draining")
        self.refusal, self.draining = "draining", True
        for tell in self.on_drain:
            tell()

    def begin_exit(self) -> None:
        """From now on nothing is published, made or moved."""
        self.refusal = _EXITING

    async def close(self) -> bool:
        """Everything is on disk when this returns; whether that worked for every topic."""
        self.begin_exit()
        while self.is_busy:
            await asyncio.sleep(0.001)
        self.turn.close()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, close_files, self.topics.values(), self._data)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that must be awaited before the end."""
        busy = self._creating or self._deleting or self.letters.is_busy or self.transactions.is_busy
        return bool(busy) or any(topic.is_busy for topic in self.topics.values())


def _reason(error: OSError | TopicLogError) -> str:
    """For a client: without the paths that the error's own text has."""
    code: int | None = getattr(error, "errno", None)
    return str(error) if code is None else describe(OSError(code, ""))
