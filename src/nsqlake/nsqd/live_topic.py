"""A topic and its channels as the daemon runs them: the core, its files, and who waits for the disk."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from time import monotonic_ns
from typing import Protocol

from nsqlake.nsqd.core.channel import Channel
from nsqlake.nsqd.core.gathering import Gathering
from nsqlake.nsqd.core.topic import Topic
from nsqlake.nsqd.group_commit import GroupCommit, Job
from nsqlake.nsqd.journal_file import JournalFile
from nsqlake.nsqd.stats.latency import LatencyRecorder
from nsqlake.nsqd.topic_store import ChannelState, TopicState, TopicStore, describe
from nsqlake.topiclog.recovery import RecoveryReport
from nsqlake.topiclog.topic_log import TopicLog
from nsqlake.wire.command_reader import Messages

__all__ = ["Answer", "LiveChannel", "LiveTopic"]


logger = logging.getLogger(__name__)

_CROWD = 4  # single publishers; up to here a write of its own for each message is quicker
_WORTH_GATHERING = 2  # messages a turn has to bring on average
_PROBE_BLOCKS = 64


class Answer(Protocol):
    """A publish that waits for its outcome."""

    def succeed(self) -> None: ...
    def fail(self, reason: str) -> None: ...


class LiveChannel:
    """A channel, its journal, and what the turn of the event loop has to remember about it."""

    __slots__ = ("alarm_ns", "core", "created", "is_woken", "journal", "latency", "offered_ns", "topic")

    def __init__(self, core: Channel, topic: "LiveTopic", journal: JournalFile | None) -> None:
        self.core, self.topic, self.journal = core, topic, journal
        self.is_woken = False
        self.offered_ns = 0  # when a message last came for it
        self.alarm_ns: int | None = None
        self.created: asyncio.Future[None] | None = None
        self.latency: LatencyRecorder | None = None  # only if percentiles are wanted

    def __str__(self) -> str:
        return f"CHANNEL({self.topic.name}/{self.core.name})"


class _StateJob:
    def __init__(self, store: TopicStore, state: TopicState) -> None:
        self._store, self._state = store, state

    def run(self) -> None:
        self._store.write_state(self._state)


class LiveTopic:
    """A topic with its place on disk; ephemeral ones have none."""

    def __init__(
        self,
        core: Topic,
        executor: Executor,
        *,
        store: TopicStore | None = None,
        log: TopicLog | None = None,
        on_synced: "Callable[[LiveTopic, OSError | None], None]",
    ) -> None:
        self.core, self.store, self.log = core, store, log
        self.name = core.name
        self.channels: dict[str, LiveChannel] = {}
        self.channel_states: dict[str, ChannelState] = {}
        self.gathering: Gathering[Answer] = Gathering()
        self.publishers: set[object] = set()  # who published singly in this second
        self._gathered_blocks = self._gathered_messages = 0
        self.sync_after_s = 0.0
        self.sync_began_ns = 0
        self.recovered = RecoveryReport()  # what opening its log found
        self.is_crowded = False  # single publishes are gathered
        self._on_synced = on_synced
        self._log_commit = GroupCommit(executor, self._begin_sync, self._end_sync) if log else None
        self._state_commit = GroupCommit(executor, self._state_job) if store else None

    def __str__(self) -> str:
        return f"TOPIC({self.name})"

    @property
    def failure(self) -> str:
        """Why the topic takes no messages until the daemon restarts, "" while it does."""
        return (self.log.failed or "") if self.log else ""

    def publish(self, messages: Messages, *, timestamp_ns: int, due_ns: int = 0) -> None:
        self.core.publish(
            messages.records,
            messages.count,
            timestamp_ns=timestamp_ns,
            record_size=messages.record_size,
            starts=messages.starts,
            due_ns=due_ns,
        )

    def is_crowd_with(self, publisher: object) -> bool:
        """Whether so many publish singly in this second that what they send is to be gathered."""
        self.publishers.add(publisher)
        if not self.is_crowded and not self._gathered_blocks and len(self.publishers) > _CROWD:
            self.is_crowded = True
        return self.is_crowded

    def note_gathered(self, messages: int) -> None:
        """Gathering has to prove its worth: a turn that brings only a few publishes costs more so."""
        self._gathered_blocks += 1
        self._gathered_messages += messages
        if (
            self._gathered_blocks == _PROBE_BLOCKS
            and self._gathered_messages < _WORTH_GATHERING * _PROBE_BLOCKS
        ):
            self.is_crowded = False

    def forget_publishers(self) -> None:
        """A second is over: with enough publishers, try gathering (again)."""
        self.is_crowded = len(self.publishers) > _CROWD
        self._gathered_blocks = self._gathered_messages = 0
        self.publishers.clear()

    def report_damage(self) -> None:
        """Log the damage that was found since the last time."""
        for damage in self.log.take_damage() if self.log is not None else ():
            logger.error(
                "LOG(%s): damaged block skipped and kept aside file=%s position=%d bytes=%d: %s",
                self.name,
                os.path.basename(damage.path),
                damage.position,
                damage.bytes,
                damage.reason,
            )

    # Disk ---------------------------------------------------------------------------------------------

    def request_sync(self) -> None:
        if self._log_commit is not None:
            self._log_commit.request()

    def save_moved_origin(self) -> None:
        """Now that the log holds messages, where it began has to be found again after a restart."""
        core = self.core
        if core.is_origin_unsaved and self._state_commit is not None and core.log.oldest < core.log.next:
            core.is_origin_unsaved = False
            self._state_commit.request()

    def wait_synced(self) -> "asyncio.Future[None] | None":
        """Done when all that is written now is durable; None when there is nothing to wait for."""
        return None if self._log_commit is None else self._log_commit.wait()

    async def save_state(self) -> None:
        """Pause, channels and fanout as they are now are durable when this returns."""
        if self._state_commit is not None:
            await self._state_commit.wait()

    @property
    def is_busy(self) -> bool:
        commits = (self._log_commit, self._state_commit)
        journals = (channel.journal for channel in self.channels.values())
        return any(commit is not None and commit.is_busy for commit in commits) or any(
            journal is not None and journal.is_syncing for journal in journals
        )

    def _state_job(self) -> _StateJob | None:
        if self.store is None or self.core.is_closed:
            return None
        return _StateJob(self.store, describe(self.core, self.channel_states))

    def _begin_sync(self) -> Job | None:
        assert self.log is not None
        self.sync_began_ns = monotonic_ns()
        job = self.log.begin_sync()
        if job is None and self.log.failed is not None:
            # Whoever waits must not take "nothing to do" for "durable".
            raise OSError(errno.EIO, self.log.failed)
        return job

    def _end_sync(self, job: object, error: OSError | None) -> None:
        assert self.log is not None
        self.log.end_sync(job, error)  # type: ignore[arg-type]
        self._on_synced(self, error)
