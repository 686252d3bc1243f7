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

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.core.channel import ChannelLimits
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.group_commit import run_job
from nsqlake.nsqd.journal_file import JournalFile, JournalSync
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.topic_loader import LoadedTopic, TopicLoader, describe_report
from nsqlake.nsqd.topic_store import ChannelState
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.topiclog.errors import TopicLogError, describe
from nsqlake.topiclog.memory_log import MemoryLog
from nsqlake.topiclog.options import LogOptions
from nsqlake.wire.names import is_ephemeral

__all__ = ["Broker", "CreationError"]

logger = logging.getLogger(__name__)

_OFFSET_BITS = 54
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
        self._creating: dict[str, asyncio.Future[LiveTopic]] = {}
        self._deleting: dict[str, asyncio.Future[None]] = {}
        self.is_exiting = False
        limits = ChannelLimits(
            max_msg_timeout_ns=options.max_msg_timeout_ns,
            ephemeral_depth=options.mem_queue_size,
            max_consumers=options.max_channel_consumers,
            is_topology_aware="topology-aware-consumption" in options.enable_experiment,
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
        if self.failure:
            return self.failure
        return next((f"{topic}: {topic.failure}" for topic in self.topics.values() if topic.failure), "")

    # Opening ------------------------------------------------------------------------------------------

    def load(self, names: list[str], *, clean: bool) -> None:
        now_ns = self._clock.now_ns()
        for name in names:
            try:
                loaded = self._loader.load(name, now_ns, clean=clean)
            except (OSError, TopicLogError) as error:
                logger.error("TOPIC(%s): cannot be opened, left as it is: %s", name, error)
                self.broken[name] = _reason(error)
                self.failure = f"TOPIC({name}): {error}"
                continue
            describe_report(name, loaded.report)
            topic = self._adopt(loaded)
            for channel in topic.channels.values():
                self.turn.note(channel)
            logger.info("%s: loaded channels=%d depth=%d", topic, len(topic.channels), topic.core.depth)

    def _adopt(self, loaded: LoadedTopic) -> LiveTopic:
        topic = LiveTopic(
            loaded.core, self._executor, store=loaded.store, log=loaded.log, on_synced=self._synced
        )
        for name, (state, journal) in loaded.channels.items():
            topic.channel_states[name] = state
            topic.channels[name] = LiveChannel(loaded.core.channels[name], topic, journal)
        self.topics[topic.name] = topic
        return topic

    def _synced(self, topic: LiveTopic, error: OSError | None) -> None:
        if error is not None:
            logger.error(
                "%s: sync failed, takes no more messages until the daemon restarts: %s", topic, error
            )

    # Topics -------------------------------------------------------------------------------------------

    async def open_topic(self, name: str) -> LiveTopic:
        """The topic, made if there is none. Raises CreationError."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
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
        if is_ephemeral(name):
            topic = self._create_ephemeral(name)
        else:
            topic = self._adopt(await self._create_durable(name))
        logger.info("%s: created", topic)
        return topic

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
        hidden = self._data.hide(topic.name, secrets.token_hex(8), topic.log.next)
        with suppress(OSError):
            topic.log.delete()  # closes it; its files went with their directory
        self._data.remove(hidden)

    # Channels -----------------------------------------------------------------------------------------

    async def open_channel(self, topic: LiveTopic, name: str) -> LiveChannel:
        """The channel, made if there is none. Raises CreationError."""
        channel = topic.channels.get(name)
        if channel is None:
            channel = self._add_channel(topic, name)
        if channel.created is not None:
            await asyncio.shield(channel.created)
        if channel.core.is_closed:
            raise CreationError("exiting")
        return channel

    def _add_channel(self, topic: LiveTopic, name: str) -> LiveChannel:
        if topic.core.is_closed or self.is_exiting:
            raise CreationError("exiting")
        core = topic.core.add_channel(name, self._clock.now_ns())
        channel = LiveChannel(core, topic, None)
        topic.channels[name] = channel
        logger.info("%s: created", channel)
        if topic.store is not None and not core.is_ephemeral:
            state = ChannelState(name, secrets.randbits(32) | 1, core.ledger.cursor)
            store = topic.store
            channel.journal = JournalFile(store.files, store.channels_path, name, salt=state.salt, old=[])
            channel.journal.write_snapshot(core.ledger)
            topic.channel_states[name] = state
            channel.created = asyncio.ensure_future(self._settle_channel(channel))
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

    async def empty_topic(self, topic: LiveTopic) -> None:
        self.turn.flush(topic)
        topic.core.empty()
        await topic.save_state()

    async def empty_channel(self, channel: LiveChannel) -> None:
        """Durable when this returns; raises OSError when it could not be made so."""
        self.turn.flush(channel.topic)
        channel.core.empty()
        self.turn.wake(channel)
        journal = channel.journal
        if journal is None:
            return
        if journal.write(channel.core.ledger):
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

    async def close(self) -> bool:
        """Everything is on disk when this returns; whether that worked for every topic."""
        self.is_exiting = True
        while any(topic.is_busy for topic in self.topics.values()) or self._creating or self._deleting:
            await asyncio.sleep(0.001)
        self.turn.close()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._close_files)

    def _close_files(self) -> bool:
        went_well = True
        for topic in self.topics.values():
            if topic.log is None:
                continue
            topic.report_damage()
            went_well = self._quietly(topic, topic.log.close) and went_well
            self._data.high_water = max(self._data.high_water, topic.log.next)
            for channel in topic.channels.values():
                went_well = self._quietly(topic, partial(_close_journal, channel)) and went_well
        return went_well

    @staticmethod
    def _quietly(topic: LiveTopic, close: Callable[[], None]) -> bool:
        try:
            close()
        except (OSError, TopicLogError) as error:
            logger.error("%s: not closed cleanly: %s", topic, error)
            return False
        return True


def _reason(error: OSError | TopicLogError) -> str:
    """For a client: without the paths that the error's own text has."""
    code: int | None = getattr(error, "errno", None)
    return str(error) if code is None else describe(OSError(code, ""))


def _close_journal(channel: LiveChannel) -> None:
    journal = channel.journal
    if journal is None:
        return
    if channel.core.ledger.pending or journal.failure is not None:
        journal.write_snapshot(channel.core.ledger)
    if journal.failure is not None:
        raise journal.failure
    job = journal.begin_sync()
    if job is not None:
        job.run()
        journal.end_sync(job, None)
    journal.close()
