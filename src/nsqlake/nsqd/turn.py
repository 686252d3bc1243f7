"""What is done once per turn of the event loop for all that came in during it.

Single publishes are written as one block per topic, then channels are pumped, then journals are written
and alarms set. So the work is per turn, not per message, and all who came in together are served together.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic_ns

from nsqlake.nsqd.alarms import Alarms
from nsqlake.nsqd.core.gathering import GatheredBlock
from nsqlake.nsqd.core.watching import SAMPLED
from nsqlake.nsqd.live_topic import Answer, LiveChannel, LiveTopic
from nsqlake.nsqd.option_choices import AckAfter
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.spinning import Spinning
from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.runtime.clock import Clock
from nsqlake.topiclog.errors import AppendError, LogClosedError, describe
from nsqlake.wire.command_reader import Messages

__all__ = ["Turn"]

logger = logging.getLogger(__name__)

_SYNC_SPACING_S = 0.05  # between syncs for --sync-every: one after the other they slow every write down
_STREAM_GAP_NS = 500_000  # messages that follow each other closer than this are delivered in batches,
_HOLD_S = 0.002  # this long after the first: one send for many (measured: 1.3 instead of 0.55 times Go)
_JOURNAL_INTERVAL_NS = 5_000_000  # deliveries and finishes are written at most this often


class Turn:
    """The scheduler of the daemon's data path."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, options: NsqdOptions) -> None:
        self._loop, self._clock = loop, clock
        self.acks_after_sync = options.ack_after is AckAfter.SYNC
        self._sync_every = options.sync_every
        self.input_came = Spinning(loop, options.spin_ns).input_came  # to be called for every input
        self._gathered: dict[LiveTopic, None] = {}
        self._woken: list[LiveChannel] = []
        self._held: list[LiveChannel] = []
        self._posted: list[tuple[asyncio.Transport, bytes]] = []
        self._noted: dict[LiveChannel, None] = {}
        self._journals: dict[LiveChannel, None] = {}
        self._alarms = Alarms()
        self._alarm_timer: asyncio.TimerHandle | None = None
        self._alarm_at_ns = 0
        self._journal_timer: asyncio.TimerHandle | None = None
        self._journals_written_ns = 0
        self._is_scheduled = False
        self.write_times = Histogram()  # how long one block takes to its log
        self.on_dead: Callable[[LiveChannel], None] = lambda _: None  # the channel has given messages up

    # Publishing ---------------------------------------------------------------------------------------

    def gather(self, topic: LiveTopic) -> None:
        """Something was added to `topic.gathering`."""
        self._gathered[topic] = None
        self._schedule()

    def publish(self, topic: LiveTopic, messages: Messages, due_ns: int = 0) -> None:
        """Write a block of its own, behind what was gathered. Raises AppendError and LogClosedError."""
        if topic.gathering:
            self.flush(topic)
        begun_ns = monotonic_ns()
        topic.publish(messages, timestamp_ns=self._clock.timestamp_ns(), due_ns=due_ns)
        self.write_times.observe(monotonic_ns() - begun_ns)
        self.flowed(topic)

    def publish_one(self, topic: LiveTopic, record: bytes) -> None:
        """`publish` of one record that is due at once, while nothing is gathered."""
        core = topic.core
        if core.message_count % SAMPLED:
            core.publish_one(record, self._clock.timestamp_ns())
        else:
            begun_ns = monotonic_ns()
            core.publish_one(record, self._clock.timestamp_ns())
            self.write_times.observe(monotonic_ns() - begun_ns, SAMPLED)
        self.flowed(topic)

    def flush(self, topic: LiveTopic) -> None:
        """Write what was gathered for one topic and answer those who wait."""
        self._gathered.pop(topic, None)
        for block in topic.gathering.take():
            topic.note_gathered(block.count)
            self._write_block(topic, block)

    def _write_block(self, topic: LiveTopic, block: GatheredBlock[Answer]) -> None:
        answers = block.waiters
        begun_ns = monotonic_ns()
        try:
            topic.core.publish(
                block.records,
                block.count,
                timestamp_ns=self._clock.timestamp_ns(),
                record_size=block.record_size,
                starts=block.starts,
            )
        except (AppendError, LogClosedError) as error:
            for answer in answers:
                answer.fail(str(error))
            return
        self.write_times.observe(monotonic_ns() - begun_ns)
        self.flowed(topic)
        self.acknowledge(topic, answers)

    def flowed(self, topic: LiveTopic) -> None:
        """A block was written: let the channels have it, and the disk if it is time."""
        for channel in topic.channels.values():
            if channel.is_woken:
                continue
            if channel.core.can_deliver:
                self._offer(channel)
            else:
                channel.core.trim()
                if channel.core.ledger.pending:
                    self.note(channel)
        log = topic.log
        if log is not None and log.dirty_messages >= self._sync_every:
            now_s = self._loop.time()
            if now_s >= topic.sync_after_s:
                topic.sync_after_s = now_s + _SYNC_SPACING_S
                topic.request_sync()

    def acknowledge(self, topic: LiveTopic, answers: list[Answer]) -> None:
        """Answer publishes whose block was written, now or after its sync."""
        synced = topic.wait_synced() if self.acks_after_sync else None
        if synced is not None:
            synced.add_done_callback(lambda done: _answer_synced(done, answers))
            return
        for answer in answers:
            answer.succeed()

    # Channels -----------------------------------------------------------------------------------------

    def _offer(self, channel: LiveChannel) -> None:
        """A lone message goes out at once, more at the end of the turn, a stream in batches."""
        now_ns = self._clock.now_ns()
        gap_ns, channel.offered_ns = now_ns - channel.offered_ns, now_ns
        if gap_ns < _STREAM_GAP_NS and channel.core.may_wait:
            self._hold(channel)
            return
        handed = channel.core.hand_over(now_ns)
        if handed is None:
            self.wake(channel)
            return
        subscription, frame = handed
        subscription.key.deliver([frame])
        self.progressed(channel)

    def _hold(self, channel: LiveChannel) -> None:
        """Deliver in a moment, together with what follows."""
        channel.is_woken = True
        if not self._held:
            self._loop.call_later(_HOLD_S, self._release_held)
        self._held.append(channel)

    def _release_held(self) -> None:
        held, self._held = self._held, []
        now_ns = self._clock.now_ns()
        for channel in held:
            channel.offered_ns = now_ns
        self._woken += held
        self._schedule()

    def post(self, transport: asyncio.Transport, frame: bytes) -> None:
        """Send at the end of the turn, so that a client with many connections is woken once for all of them.

        Measured with 100 consumers and RDY 1 in two processes: 1.05 instead of 0.70 times Go.
        """
        self._posted.append((transport, frame))
        self._schedule()

    def _send_posted(self) -> None:
        posted, self._posted = self._posted, []
        for transport, frame in posted:
            if not transport.is_closing():
                transport.write(frame)

    def progressed(self, channel: LiveChannel) -> None:
        """Messages of the channel went out or were finished: its journal says so, before long."""
        wakeup_ns, alarm_ns = channel.core.next_wakeup_ns, channel.alarm_ns
        is_sooner = wakeup_ns is not None and (alarm_ns is None or wakeup_ns < alarm_ns)
        if is_sooner or channel.core.ledger.pending.is_urgent:
            self.note(channel)
            return
        if channel.journal is None:
            channel.core.ledger.pending.clear()
            return
        self._journals[channel] = None
        if self._journal_timer is None:
            self._write_journals_soon()

    def wake(self, channel: LiveChannel) -> None:
        """The channel may have something to deliver."""
        if not channel.is_woken:
            channel.is_woken = True
            self._woken.append(channel)
            self._schedule()

    def note(self, channel: LiveChannel) -> None:
        """The channel's journal or alarm has to be brought up to date."""
        self._noted[channel] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if self._posted:
            self._send_posted()
        if self._gathered:
            for topic in list(self._gathered):
                self.flush(topic)
        now_ns = self._clock.now_ns()
        if self._woken:
            woken, self._woken = self._woken, []
            for channel in woken:
                self._pump(channel, now_ns)
        noted, self._noted = self._noted, {}
        is_sooner = False
        for channel in noted:
            is_sooner |= self._alarms.update(channel)
            self._note_journal(channel)
            if channel.core.ledger.dead:
                self.on_dead(channel)
        if is_sooner:
            self._set_alarm(now_ns)
        if self._journals and self._journal_timer is None:
            self._write_journals_soon()

    def _pump(self, channel: LiveChannel, now_ns: int) -> None:
        channel.is_woken = False
        core = channel.core
        if core.is_closed:
            return
        for subscription, frames in core.pump(now_ns):
            subscription.key.deliver(frames)
        core.trim()
        self._noted[channel] = None
        if core.read_failure is not None:
            logger.error("%s: nothing is delivered, will be tried again: %s", channel, core.read_failure)
        if core.can_deliver:
            self.wake(channel)

    # Alarms -------------------------------------------------------------------------------------------

    def _set_alarm(self, now_ns: int) -> None:
        when_ns = self._alarms.next_ns
        if when_ns is None or (self._alarm_timer is not None and self._alarm_at_ns <= when_ns):
            return
        if self._alarm_timer is not None:
            self._alarm_timer.cancel()
        self._alarm_at_ns = when_ns
        # A millisecond late rather than early: nothing is delivered before its time.
        delay_s = max(0, when_ns - now_ns) / 1e9 + 0.001
        self._alarm_timer = self._loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm_timer = None
        now_ns = self._clock.now_ns()
        for channel in self._alarms.pop_due(now_ns):
            channel.core.expire(now_ns)
            self.wake(channel)
            self.note(channel)
        self._set_alarm(now_ns)

    # Journals -----------------------------------------------------------------------------------------

    def _note_journal(self, channel: LiveChannel) -> None:
        pending = channel.core.ledger.pending
        if channel.journal is None or channel.core.is_closed:
            pending.clear()
        elif pending.is_urgent:
            self._journals.pop(channel, None)
            self.write_journal(channel)
        elif pending:
            self._journals[channel] = None

    def _write_journals_soon(self) -> None:
        wait_ns = self._journals_written_ns + _JOURNAL_INTERVAL_NS - monotonic_ns()
        if wait_ns <= 0:
            self.write_journals()
        else:
            self._journal_timer = self._loop.call_later(wait_ns / 1e9, self.write_journals)

    def write_journals(self) -> None:
        """Write what is pending of every channel."""
        if self._journal_timer is not None:
            self._journal_timer.cancel()
            self._journal_timer = None
        journals, self._journals = self._journals, {}
        for channel in journals:
            self.write_journal(channel)
        self._journals_written_ns = monotonic_ns()

    def write_journal(self, channel: LiveChannel) -> None:
        """Write what is pending of one channel, now."""
        journal = channel.journal
        if journal is None or channel.core.is_closed:
            return
        if journal.failure is not None:
            # Housekeeping tries again with a snapshot, which costs too much for every turn.
            channel.core.ledger.pending.clear()
            return
        if not journal.write(channel.core.ledger):
            logger.error("%s: journal not written, will be tried again: %s", channel, journal.failure)

    # The end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is left and stop the timers."""
        for topic in list(self._gathered):
            self.flush(topic)
        for channel in self._noted:
            self._note_journal(channel)
        self.write_journals()
        if self._alarm_timer is not None:
            self._alarm_timer.cancel()


def _answer_synced(done: "asyncio.Future[None]", answers: list[Answer]) -> None:
    error = done.exception()
    for answer in answers:
        if error is None:
            answer.succeed()
        else:
            answer.fail(f"sync failed: {describe(error) if isinstance(error, OSError) else error}")
