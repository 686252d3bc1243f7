"""Opening the topics of a data path: logs recovered, channels where they were, nothing lost on the way."""

import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from nsqlake.nsqd.core.channel import ChannelLimits
from nsqlake.nsqd.core.topic import Topic, WritableLog
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.journal_file import JournalFile, journal_channels, lost_bytes, read_journal
from nsqlake.nsqd.topic_store import ChannelState, TopicState, TopicStore
from nsqlake.runtime.logs import ALWAYS
from nsqlake.topiclog.errors import SyncError
from nsqlake.topiclog.options import LogOptions
from nsqlake.topiclog.recovery import RecoveryReport
from nsqlake.topiclog.topic_log import TopicLog
from nsqlake.wire.names import is_valid_name

__all__ = ["LoadedTopic", "TopicLoader"]

logger = logging.getLogger(__name__)


@dataclass
class LoadedTopic:
    """A topic as it was found or made on disk."""

    core: Topic
    store: TopicStore
    log: TopicLog
    report: RecoveryReport
    channels: dict[str, tuple[ChannelState, JournalFile]]


class TopicLoader:
    """Makes and opens topics. Every method blocks on the disk."""

    def __init__(
        self,
        data: DataStore,
        log_options: LogOptions,
        *,
        id_base: int,
        limits: ChannelLimits,
        random: Callable[[], float],
    ) -> None:
        self._data, self._log_options = data, log_options
        self._id_base, self._limits, self._random = id_base, limits, random

    def make_core(
        self,
        name: str,
        log: WritableLog,
        fanout: int | None = None,
        emptied: list[tuple[int, int]] | None = None,
        origin: int | None = None,
    ) -> Topic:
        return Topic(
            name,
            log,
            id_base=self._id_base,
            limits=self._limits,
            random=self._random,
            fanout=fanout,
            emptied=emptied,
            origin=origin,
        )

    def create(self, name: str, now_ns: int) -> LoadedTopic:
        """A new topic, durable when this returns. What a failed attempt left behind is used again."""
        self._data.require_mark()
        store = self._data.store(name)
        store.prepare()
        log, report = self._open_log(store, now_ns, clean=True)
        try:
            store.write_state(TopicState(fanout=log.next, origin=log.origin))
            store.sync_parents()
            if not report.is_new:
                store.files.sync_dir(store.log_path)  # the failed attempt may not have come that far
        except OSError:
            with suppress(SyncError):
                log.close()
            raise
        return LoadedTopic(self.make_core(name, log), store, log, report, {})

    def load(
        self,
        name: str,
        now_ns: int,
        *,
        clean: bool,
        given_out: int = 0,
        hide: Callable[[TopicLog, int], None] | None = None,
    ) -> LoadedTopic:
        """`hide` may hold back messages from an offset on before any flow; it hears up to where some did."""
        store = self._data.store(name)
        store.prepare()
        log, report = self._open_log(store, now_ns, clean=clean, given_out=given_out)
        state, is_certain = store.find_state()
        journals = journal_channels(store.files, store.channels_path)
        state_was_there = state is not None
        if state is None:
            state = self._rebuild_state(name, log, journals)
        elif not is_certain:
            _adopt_orphans(name, state, journals, log.oldest)
        core = self.make_core(name, log, state.fanout, state.emptied, state.origin)
        core.is_paused = state.paused
        channels: dict[str, tuple[ChannelState, JournalFile]] = {}
        for channel in state.channels:
            journal = self._load_channel(core, store, channel, journals.get(channel.name, []), clean=clean)
            channels[channel.name] = channel, journal
        cursors = [channel.ledger.cursor for channel in core.channels.values()]
        known = max([state.fanout, *cursors])
        if report.is_new and state_was_there:
            report.is_replaced = True
            report.note_missing(min([state.fanout, *cursors]), known)
        if known > log.end:
            # The end of the log is gone. Its offsets were given out, and channels take them for done.
            log.close()
            again = self.load(name, now_ns, clean=False, given_out=known, hide=hide)
            again.report.include(report)
            return again
        _remove_orphans(store, journals, channels)
        core.move_unused_origin()
        if hide is not None:
            hide(log, known)
        core.flow(now_ns)
        for loaded in core.channels.values():
            loaded.recover(now_ns)
        return LoadedTopic(core, store, log, report, channels)

    def _open_log(
        self, store: TopicStore, now_ns: int, *, clean: bool, given_out: int = 0
    ) -> tuple[TopicLog, RecoveryReport]:
        return TopicLog.open(
            store.log_path,
            options=self._log_options,
            first_offset=self._data.first_offset(now_ns),
            clean=clean,
            given_out=given_out,
            new_identity=(secrets.token_bytes(16), secrets.randbits(32)),
            files=store.files,
        )

    def _rebuild_state(self, name: str, log: TopicLog, journals: dict[str, list[int]]) -> TopicState:
        """Without a state file the channels are those with a journal; all that is retained flows again."""
        logger.error("TOPIC(%s): state file lost, channels rebuilt from their journals", name)
        names = [channel for channel in sorted(journals) if is_valid_name(channel.encode())]
        channels = [ChannelState(channel, -1, log.oldest) for channel in names]
        return TopicState(fanout=log.oldest, channels=channels)

    def _load_channel(
        self, core: Topic, store: TopicStore, state: ChannelState, generations: list[int], *, clean: bool
    ) -> JournalFile:
        ledger = core.new_ledger(state.start)
        salt = None if state.salt < 0 else state.salt
        found = read_journal(store.files, store.channels_path, state.name, generations, salt)
        number = 0
        if found is None:
            logger.error("CHANNEL(%s/%s): journal lost, begins again at its start", core.name, state.name)
            state.salt = secrets.randbits(32) | 1 if salt is None else salt
        else:
            number, state.salt, entries = found
            lost = lost_bytes(store.files, store.channels_path, state.name, generations[0])
            if lost:
                logger.warning(
                    "CHANNEL(%s/%s): journal torn or damaged, some messages come again bytes=%d",
                    core.name,
                    state.name,
                    lost,
                )
            if not ledger.replay(entries):
                ledger = core.new_ledger(state.start)
        channel = core.restore_channel(state.name, ledger)
        channel.is_paused = state.paused
        core.set_max_attempts(channel, state.max_attempts)
        return JournalFile(
            store.files,
            store.channels_path,
            state.name,
            salt=state.salt,
            old=list(generations),
            read=number,
            is_read_synced=clean,
        )


def _adopt_orphans(name: str, state: TopicState, journals: dict[str, list[int]], oldest: int) -> None:
    """The state file is not the last one written, so a journal it does not know may be of a later channel."""
    known = {channel.name for channel in state.channels}
    for channel in sorted(journals.keys() - known):
        if is_valid_name(channel.encode()):
            logger.warning("CHANNEL(%s/%s): not in the state file, taken from its journal", name, channel)
            state.channels.append(ChannelState(channel, -1, oldest))


def _remove_orphans(
    store: TopicStore, journals: dict[str, list[int]], channels: dict[str, tuple[ChannelState, JournalFile]]
) -> None:
    """Journals of channels that were deleted just before the last stop."""
    for channel, numbers in journals.items():
        if channel not in channels:
            JournalFile(store.files, store.channels_path, channel, salt=0, old=numbers).delete()


def describe_report(name: str, report: RecoveryReport) -> None:
    """Say in the log what recovery found, so that nothing is lost silently."""
    if report.torn_blocks:
        logger.warning(
            "LOG(%s): torn block cut off and kept aside bytes=%d messages=%d",
            name,
            report.torn_bytes,
            report.torn_messages,
        )
    for damage in report.damage:
        logger.error(
            "LOG(%s): damaged block skipped and kept aside file=%s position=%d bytes=%d: %s",
            name,
            os.path.basename(damage.path),
            damage.position,
            damage.bytes,
            damage.reason,
        )
    if report.is_replaced:
        logger.error("LOG(%s): all segments missing, a new log begins", name)
    for first, end in report.missing:
        logger.error("LOG(%s): segment missing first=%d end=%d messages=%d", name, first, end, end - first)
    for path in report.set_aside:
        logger.error("LOG(%s): not a segment of this log, set aside file=%s", name, os.path.basename(path))
    if report.damaged_headers or report.rebuilt_identity:
        logger.error("LOG(%s): header or identity damaged", name)
    if report.rebuilt_indexes:
        logger.info("LOG(%s): indexes rebuilt count=%d", name, report.rebuilt_indexes)
    if report.damage or report.missing:
        logger.error(
            "LOG(%s): damage in all: blocks=%d bytes=%d missing=%d lost_messages=%d",
            name,
            sum(damage.blocks for damage in report.damage),
            sum(damage.bytes for damage in report.damage),
            len(report.missing),
            report.lost_messages,
            extra=ALWAYS,
        )


def describe_totals(reports: list[RecoveryReport]) -> None:
    """After all topics are open: how much was lost in how many, which a flood of single lines may hide."""
    harmed = [report for report in reports if report.damage or report.missing or report.is_replaced]
    if harmed:
        logger.error(
            "NSQ: damage found at the start topics=%d blocks=%d lost_messages=%d",
            len(harmed),
            sum(damage.blocks for report in harmed for damage in report.damage),
            sum(report.lost_messages for report in harmed),
            extra=ALWAYS,
        )
