"""A channel: a cursor over its topic's backlog, the consumers, and who gets what when."""

from collections.abc import Callable
from enum import Enum

import numpy as np
import numpy.typing as npt

from nsqlake.nsqd.core.backlog import Backlog
from nsqlake.nsqd.core.channel_limits import ChannelLimits
from nsqlake.nsqd.core.dead_letters import Reason
from nsqlake.nsqd.core.delivery import Delivery, Frames
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.core.watching import FinishWatcher, Timings
from nsqlake.topiclog.errors import ReadError
from nsqlake.wire.command_reader import FIN_LINE_BYTES, decode_finish_run
from nsqlake.wire.message import id_digits

__all__ = ["Channel", "ChannelLimits", "Outcome"]

_MAX_OFFSET = 1 << 54
_SLOTS = 1 << 16
_RUNS_SLACK = 64
_ROOM_TO_WAIT = 32  # messages a consumer can take at least, for them to be gathered for it
_CROWD = 8
_READ_AGAIN_NS = 1_000_000_000  # after the log could not be read


class Outcome(Enum):
    """How FIN, REQ or TOUCH of one message went; the value is NSQ's text."""

    DONE = ""
    NOT_IN_FLIGHT = "ID not in flight"
    NOT_OWNER = "client does not own message"


class Channel:
    """One channel of a topic. Time comes in as `now_ns`; frames to send go out as return values."""

    def __init__(
        self, name: str, backlog: Backlog, ledger: Ledger, limits: ChannelLimits, random: Callable[[], float]
    ) -> None:
        self.name = name
        self.is_ephemeral = name.endswith("#ephemeral")
        self.ledger = ledger
        self.limits = limits
        self.is_paused = False
        self.is_closed = False
        self.requeue_count = 0
        self.timeout_count = 0
        self.dead_count = 0
        self.max_attempts = limits.max_attempts  # 0: no message is ever given up
        self.own_max_attempts: int | None = None  # None: the daemon's options decide
        self.local_counts = [0, 0, 0]  # deliveries by the receiver's Locality
        self._backlog = backlog
        self._delivery = Delivery(backlog, ledger, random)
        self._watcher: FinishWatcher | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._ready: dict[Subscription, None] = {}
        self._next_slot = 1
        self._flowed_before = backlog.flowed  # message_count is arithmetic from here
        self._is_unreadable = False
        self._wakeup_ns: int | None = None

    # What there is ------------------------------------------------------------------------------------

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._subscriptions.values())

    @property
    def is_crowded(self) -> bool:
        """Whether so many consume that their messages are better sent together."""
        return len(self._subscriptions) > _CROWD

    @property
    def depth(self) -> int:
        ledger = self.ledger
        ahead = ledger.ahead
        if ahead and ledger.cursor < self._backlog.log.oldest:
            # A memory log has dropped something since the cursor moved.
            ahead = self._backlog.count_due(ledger.cursor, ledger.absorbed)
        fresh = self._backlog.count(ledger.cursor, self._backlog.fanout) - ahead
        return max(0, fresh) + len(ledger.requeued) + len(ledger.dead)

    @property
    def backend_depth(self) -> int:
        """What is yet to be delivered and no longer in memory."""
        cursor = self.ledger.cursor
        stop = min(self._backlog.log.memory_first, self._backlog.fanout)
        ahead = self._backlog.count_due(cursor, stop) if self.ledger.ahead else 0
        return self._backlog.count(cursor, stop) - ahead

    @property
    def message_count(self) -> int:
        return self._backlog.flowed - self._flowed_before

    @property
    def next_wakeup_ns(self) -> int | None:
        """When `expire` has something to do, at the earliest."""
        return self._wakeup_ns

    @property
    def read_failure(self) -> ReadError | None:
        """Why nothing is delivered until `expire` tries again."""
        return self._delivery.failure if self._is_unreadable else None

    def watch(self, timings: Timings, watcher: FinishWatcher | None) -> None:
        """Tell them how long messages take from now on."""
        self._delivery.timings, self._watcher = timings, watcher

    # Consumers ----------------------------------------------------------------------------------------

    def subscribe(self, sub: Subscription) -> bool:
        """False when the channel has as many consumers as it may."""
        limit = self.limits.max_consumers
        if (limit and len(self._subscriptions) >= limit) or len(self._subscriptions) >= _SLOTS - 1:
            return False
        while self._next_slot in self._subscriptions or not 0 < self._next_slot < _SLOTS:
            self._next_slot = self._next_slot % (_SLOTS - 1) + 1
        sub.slot = self._next_slot
        self._next_slot = self._next_slot % (_SLOTS - 1) + 1
        self._subscriptions[sub.slot] = sub
        return True

    def unsubscribe(self, sub: Subscription) -> None:
        """The consumer is gone: what it holds is ready again at once, so that its slot is free."""
        if self._subscriptions.get(sub.slot) is not sub:
            return
        del self._subscriptions[sub.slot]
        self._ready.pop(sub, None)
        ledger = self.ledger
        for offset in [at for at in ledger.attempts if ledger.out.owner(at) == sub.slot]:
            self._put_back(offset, Reason.DISCONNECTED)
        for _, first, count in sub.runs:
            for offset in ledger.out.held_by(sub.slot, first, count):
                self._put_back(offset, Reason.DISCONNECTED)
        sub.runs.clear()
        sub.in_flight = 0

    def set_ready(self, sub: Subscription, count: int) -> None:
        sub.ready = count
        self.offer(sub)

    def offer(self, sub: Subscription) -> None:
        """The consumer may have room again."""
        if sub.room > 0 and self._subscriptions.get(sub.slot) is sub:
            self._ready[sub] = None

    # Delivery -----------------------------------------------------------------------------------------

    @property
    def can_deliver(self) -> bool:
        if self.is_paused or self._is_unreadable or not self._ready:
            return False
        return bool(self.ledger.requeued) or self.ledger.cursor < self._backlog.fanout

    @property
    def may_wait(self) -> bool:
        """Whether the consumer whose turn it is lets messages be gathered, and has room for a few."""
        sub = next(iter(self._ready), None)
        return sub is not None and sub.is_buffered and sub.ready - sub.in_flight > _ROOM_TO_WAIT

    def pump(self, now_ns: int) -> list[tuple[Subscription, Frames]]:
        """Frames for consumers with room: each in turn gets its share of what is there, a bounded run."""
        if not self.can_deliver:
            return []
        turn = list(self._ready)
        if self.limits.is_topology_aware:
            turn.sort(key=lambda sub: sub.locality)
        is_shared = len(turn) > 1 and not self.limits.is_topology_aware
        left = self.depth if is_shared else 0
        batches: list[tuple[Subscription, Frames]] = []
        for position, sub in enumerate(turn):
            del self._ready[sub]
            share = room = sub.room
            if room <= 0:
                continue
            if is_shared:
                share = min(room, max(1, -(-left // (len(turn) - position))))
            before = sub.message_count
            frames = self._delivery.serve(sub, share, now_ns)
            if self._delivery.failure is not None:
                self._is_unreadable = True
                self._wake_at(now_ns + _READ_AGAIN_NS)
            sent = sub.message_count - before
            left -= sent
            if room > sent:
                self._ready[sub] = None
            if not sent:
                break
            self.local_counts[sub.locality] += sent
            self._wake_at(now_ns + sub.msg_timeout_ns)
            batches.append((sub, frames))
        return batches

    def hand_over(self, now_ns: int) -> tuple[Subscription, bytes] | None:
        """A lone new message for the consumer whose turn it is; None: `pump` shall decide."""
        fanout, ledger = self._backlog.fanout, self.ledger
        if self.is_paused or ledger.requeued or not self._ready or ledger.cursor + 1 != fanout:
            return None
        sub = next(iter(self._ready))
        if sub.room <= 0 or sub.sample_rate or self.limits.is_topology_aware:
            return None
        frame = self._delivery.next_frame(sub, now_ns)
        if frame is None:
            return None
        # To the end of the queue, or out of it.
        del self._ready[sub]
        if sub.ready > sub.in_flight:
            self._ready[sub] = None
        self.local_counts[sub.locality] += 1
        self._wake_at(now_ns + sub.msg_timeout_ns)
        return sub, frame

    def swap(self, sub: Subscription, now_ns: int) -> bytes | None:
        """The next message for a consumer that finished its only one. None: nothing was done yet."""
        if (
            sub.in_flight != 1
            or sub.ready < 1
            or self._ready
            or self.is_paused
            or self.ledger.requeued
            or sub.sample_rate
            or not sub.is_writable
            or sub.is_closing
            or self._watcher is not None  # it is told in `finish`
        ):
            return None
        frame = self._delivery.swap(sub, now_ns)
        if frame is not None:
            self.local_counts[sub.locality] += 1
        return frame

    def refill(self, sub: Subscription, now_ns: int) -> bytes | None:
        """The next message for a consumer that just finished its only one; None: `pump` shall decide."""
        if self.ledger.cursor >= self._backlog.fanout:
            return None
        if self.is_paused or self.ledger.requeued or sub.in_flight or sub.sample_rate or sub.room <= 0:
            return None
        ready = self._ready
        if len(ready) > 1 or (ready and sub not in ready):
            return None
        frame = self._delivery.next_frame(sub, now_ns)
        if frame is not None:
            if sub.ready == 1:
                ready.pop(sub, None)
            self.local_counts[sub.locality] += 1
            self._wake_at(now_ns + sub.msg_timeout_ns)
        return frame

    def trim(self) -> None:
        """An ephemeral channel keeps no more than its share of memory: the oldest messages go."""
        if not self.is_ephemeral:
            return
        waiting = len(self.ledger.requeued) + len(self.ledger.dead)
        excess = self.depth - waiting - self.limits.ephemeral_depth
        while excess > 0:
            try:
                if self._delivery.skip_to_fresh() is None:
                    return
            except ReadError:
                return
            count = min(excess, self._delivery.fresh_run)
            excess -= count
            self.ledger.move_cursor(self.ledger.cursor + count)

    # FIN, REQ, TOUCH ----------------------------------------------------------------------------------

    def finish_run(self, sub: Subscription, lines: bytes) -> bool:
        """Finish a run of `FIN <id>` lines; False, and nothing is done, unless `sub` holds every message."""
        count = len(lines) // FIN_LINE_BYTES
        if count == 1:
            return self.finish(sub, lines[4:20]) is Outcome.DONE
        run = self.ledger.out.match_in_order(lines, sub.slot)
        if run is not None:
            self.ledger.finish_run(*run)
            if self._watcher is not None:
                self._watcher.finished(*run)
        else:
            offsets = self._held_offsets(sub, lines)
            if offsets is None:
                return False
            self.ledger.finish_offsets(offsets)
            if self._watcher is not None:
                self._watcher.finished_offsets(offsets)
        self._finished(sub, count)
        return True

    def _held_offsets(self, sub: Subscription, lines: bytes) -> npt.NDArray[np.int64] | None:
        """The offsets of FIN lines in any order, sorted, if they differ and `sub` holds them all."""
        ids = decode_finish_run(lines)
        if ids is None:
            return None
        # Unsigned arithmetic wraps, so an id of another node lies beyond every offset.
        unsigned = np.sort(ids - np.uint64(self.ledger.out.id_base))
        if unsigned[-1] >= _MAX_OFFSET or (unsigned[1:] == unsigned[:-1]).any():
            return None
        offsets = unsigned.astype(np.int64)
        return offsets if self.ledger.out.are_held(offsets, sub.slot) else None

    def finish(self, sub: Subscription, message_id: bytes) -> Outcome:
        offset, outcome = self._find(sub, message_id)
        if outcome is Outcome.DONE:
            self.ledger.finish_run(offset, 1)
            if self._watcher is not None:
                self._watcher.finished(offset, 1)
            self._finished(sub, 1)
        return outcome

    def _finished(self, sub: Subscription, count: int) -> None:
        sub.in_flight -= count
        sub.finish_count += count
        self._prune_runs(sub)
        self.offer(sub)

    def requeue(self, sub: Subscription, message_id: bytes, delay_ns: int, now_ns: int) -> Outcome:
        offset, outcome = self._find(sub, message_id)
        if outcome is Outcome.DONE:
            due_ns = now_ns + delay_ns if delay_ns else 0
            self._put_back(offset, Reason.REQUEUED, due_ns)
            if due_ns:
                self._wake_at(due_ns)
            sub.in_flight -= 1
            sub.requeue_count += 1
            self.requeue_count += 1
            self._prune_runs(sub)
            self.offer(sub)
        return outcome

    def _put_back(self, offset: int, reason: Reason, due_ns: int = 0) -> None:
        limit, ledger = self.max_attempts, self.ledger
        if limit and ledger.attempts.get(offset, 1) >= limit:
            ledger.give_up(offset, reason)
            self.dead_count += 1
        else:
            ledger.put_back(offset, due_ns)

    def touch(self, sub: Subscription, message_id: bytes, now_ns: int) -> Outcome:
        offset, outcome = self._find(sub, message_id)
        if outcome is Outcome.DONE:
            sent_ns = self._sent_ns(sub, offset, now_ns)
            deadline_ns = min(now_ns + sub.msg_timeout_ns, sent_ns + self.limits.max_msg_timeout_ns)
            self.ledger.extend(offset, sent_ns=sent_ns, deadline_ns=deadline_ns)
            self._wake_at(deadline_ns)
        return outcome

    def _find(self, sub: Subscription, message_id: bytes) -> tuple[int, Outcome]:
        """The offset of a message that `sub` holds, or why it is not one."""
        out = self.ledger.out
        try:
            number = int(message_id, 16)
        except ValueError:
            return 0, Outcome.NOT_IN_FLIGHT
        offset = number - out.id_base
        owner = out.owner(offset)
        if owner and id_digits(number) != message_id:
            return 0, Outcome.NOT_IN_FLIGHT
        if owner == sub.slot:
            return offset, Outcome.DONE
        return offset, Outcome.NOT_OWNER if owner else Outcome.NOT_IN_FLIGHT

    def _sent_ns(self, sub: Subscription, offset: int, now_ns: int) -> int:
        sent_ns = self.ledger.sent_ns.get(offset)
        if sent_ns is not None:
            return sent_ns
        for deadline_ns, first, count in sub.runs:
            if first <= offset < first + count:
                return deadline_ns - sub.msg_timeout_ns
        return now_ns

    # Time ---------------------------------------------------------------------------------------------

    def absorb_due(self, now_ns: int) -> None:
        """Blocks that were published with a delay and now flow to this channel are deferred."""
        ledger = self.ledger
        for base, count, due_ns in self._backlog.due_blocks(ledger.absorbed, self._backlog.fanout):
            skipped = max(0, ledger.absorbed - base)
            ledger.absorb(base + skipped, count - skipped, due_ns)
            self._wake_at(max(due_ns, now_ns))
        ledger.absorbed = max(ledger.absorbed, self._backlog.fanout)

    def expire(self, now_ns: int) -> None:
        """Messages held too long are ready again, deferred ones whose time has come too."""
        ledger = self.ledger
        self._is_unreadable = False
        for sub in self._subscriptions.values():
            self._expire_runs(sub, now_ns)
        for offset in ledger.deadlines.pop_due(now_ns):
            owner = self._subscriptions.get(ledger.out.owner(offset))
            if owner is not None:
                self._time_out(owner, offset)
        ledger.mature(now_ns)
        self._wakeup_ns = self._earliest_ns()

    def _expire_runs(self, sub: Subscription, now_ns: int) -> None:
        ledger = self.ledger
        while sub.runs and sub.runs[0][0] <= now_ns:
            _, first, count = sub.runs.popleft()
            for offset in ledger.out.held_by(sub.slot, first, count):
                # One that was touched or delivered again has a deadline of its own.
                if offset not in ledger.attempts:
                    self._time_out(sub, offset)

    def _time_out(self, sub: Subscription, offset: int) -> None:
        self._put_back(offset, Reason.TIMED_OUT)
        sub.in_flight -= 1
        self.timeout_count += 1
        self.offer(sub)

    def _earliest_ns(self) -> int | None:
        times = [sub.runs[0][0] for sub in self._subscriptions.values() if sub.runs]
        for queue in (self.ledger.deadlines, self.ledger.deferred):
            due_ns = queue.next_due_ns()
            if due_ns is not None:
                times.append(due_ns)
        return min(times, default=None)

    def _wake_at(self, when_ns: int) -> None:
        if self._wakeup_ns is None or when_ns < self._wakeup_ns:
            self._wakeup_ns = when_ns

    def _prune_runs(self, sub: Subscription) -> None:
        """Forget runs that are over, so that `runs` stays near what is out however long the timeout."""
        runs, out = sub.runs, self.ledger.out
        if not sub.in_flight:
            runs.clear()
        while runs and out.is_run_over(runs[0][1], runs[0][2]):
            runs.popleft()
        if len(runs) > 2 * sub.in_flight + _RUNS_SLACK:
            kept = [run for run in runs if not out.is_run_over(run[1], run[2])]
            runs.clear()
            runs.extend(kept)

    # Administration -----------------------------------------------------------------------------------

    def empty(self) -> None:
        """Drop everything: fresh, out, requeued and deferred. Consumers go on with what comes next."""
        # A seek or commit may have gone beyond what flows.
        self._go_on_at(max(self._backlog.fanout, self.ledger.cursor))

    def seek(self, cursor: int, now_ns: int) -> None:
        """Forget what is out, requeued and deferred, and deliver from `cursor` on; delays are kept."""
        self._go_on_at(cursor)
        self.absorb_due(now_ns)
        self.expire(now_ns)

    def commit(self, offset: int) -> int:
        """Everything below `offset` is finished, whoever has it. Returns the cursor: it never goes back."""
        ledger = self.ledger
        for slot, count in ledger.commit(offset).items():
            sub = self._subscriptions[slot]
            sub.in_flight -= count
            self._prune_runs(sub)
            self.offer(sub)
        self._delivery.recount_ahead()
        return ledger.cursor

    def _go_on_at(self, cursor: int) -> None:
        self.ledger.reset(cursor)
        self._delivery.forget_span()
        self._wakeup_ns = None
        self._is_unreadable = False
        for sub in self._subscriptions.values():
            sub.runs.clear()
            sub.in_flight = 0
            self.offer(sub)

    def recover(self, now_ns: int) -> None:
        """After the ledger was read back: settle what depends on the log."""
        ledger = self.ledger
        oldest = self._backlog.log.oldest
        if ledger.cursor < oldest:
            ledger.move_cursor(oldest)
        ledger.ahead = self._backlog.count_due(ledger.cursor, ledger.absorbed)
        count = self._backlog.log.count
        ledger.keep_waiting(lambda offset: count(offset, offset + 1) > 0)
        self.absorb_due(now_ns)
        self._flowed_before = self._backlog.flowed
        self._wakeup_ns = now_ns if ledger.deferred else None
