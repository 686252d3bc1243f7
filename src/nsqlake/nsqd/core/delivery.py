"""Frames for one consumer, cut from the backlog in runs or read again one by one."""

from collections.abc import Callable, Sequence

from nsqlake.nsqd.core.backlog import Backlog
from nsqlake.nsqd.core.in_flight import PAGE_MASK, PAGE_SHIFT
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.core.watching import SAMPLED, Timings
from nsqlake.topiclog.block import Span
from nsqlake.topiclog.errors import ReadError
from nsqlake.wire.message import (
    FRAME_OVERHEAD,
    ID_PAGE,
    MESSAGE_HEAD,
    encode_equal_run,
    encode_message,
    encode_mixed_run,
)

__all__ = ["BATCH_BYTES", "Delivery", "Frames"]

# One consumer gets at most about this much per turn. Larger buffers are no faster: beyond the allocator's
# mmap threshold every run pays for fresh pages (measured: 25 ns a message at 190 KiB, 320 ns at 460 KiB).
BATCH_BYTES = 192 * 1024

_SAMPLED_PER_TURN = 2000  # messages that sampling may drop in one go, so that the loop stays responsive

Frames = list[bytes | memoryview]


class Delivery:
    """Takes messages for consumers from a channel's backlog and ledger."""

    __slots__ = (
        "_backlog",
        "_ledger",
        "_prefers_requeued",
        "_random",
        "_span",
        "_stop",
        "failure",
        "timings",
    )

    def __init__(self, backlog: Backlog, ledger: Ledger, random: Callable[[], float]) -> None:
        self._backlog, self._ledger, self._random = backlog, ledger, random
        self._span: Span | None = None
        self._stop = 0
        self._prefers_requeued = True
        self.failure: ReadError | None = None
        self.timings: Timings | None = None

    def forget_span(self) -> None:
        self._span = None

    def serve(self, sub: Subscription, count: int, now_ns: int) -> Frames:
        """Up to `count` messages for `sub`; what cannot be read stays where it is and sets `failure`."""
        frames: Frames = []
        self.failure = None
        try:
            self._serve_in_turn(sub, count, now_ns, frames)
        except ReadError as error:
            self.failure = error
        return frames

    def _serve_in_turn(self, sub: Subscription, count: int, now_ns: int, frames: Frames) -> None:
        """Requeued and fresh messages in turn, so that neither starves."""
        budget = BATCH_BYTES
        if not self._ledger.requeued:
            self._serve_fresh(sub, count, budget, now_ns, frames)
            return
        if self._prefers_requeued or not self.skip_to_fresh():
            self._prefers_requeued = False
            count, budget = self._serve_requeued(sub, count, budget, now_ns, frames)
        if count > 0 and budget > 0:
            served, budget = self._serve_fresh(sub, count, budget, now_ns, frames)
            self._prefers_requeued = True
            if served < count and budget > 0 and self._ledger.requeued:
                self._serve_requeued(sub, count - served, budget, now_ns, frames)

    def next_frame(self, sub: Subscription, now_ns: int) -> bytes | None:
        """One fresh message, for a consumer that takes them one at a time; the short way through `serve`."""
        ledger = self._ledger
        span = self._span
        if span is None or not span.base <= ledger.cursor < self._stop:
            try:
                span = self.skip_to_fresh()
            except ReadError:
                return None
            if span is None:
                return None
        cursor = ledger.cursor
        index = cursor - span.base
        timestamp_ns = span.timestamp(index)
        if self.timings is not None and not cursor % SAMPLED:
            self.timings.delivery.observe(now_ns - timestamp_ns, SAMPLED)
        frame = encode_message(
            span.body(index),
            timestamp_ns=timestamp_ns,
            attempts=1,
            message_id=ledger.out.id_base + cursor,
        )
        ledger.deliver_fresh(cursor, 1, sub.slot)
        sub.runs.append((now_ns + sub.msg_timeout_ns, cursor, 1))
        sub.in_flight += 1
        sub.message_count += 1
        sub.only_fin, sub.only_offset = b"FIN %016x\n" % (ledger.out.id_base + cursor), cursor
        return frame

    def swap(self, sub: Subscription, now_ns: int) -> bytes | None:
        """Finish the only message that is out to `sub`, a fresh one, and hand out the next.

        All in one function: a consumer with RDY 1 comes here for every message, and calls are what costs
        (measured: 13 us a message through `finish` and `next_frame`). None, and nothing is done, unless both
        messages lie in one page and the next in the span at hand.
        """
        ledger, span = self._ledger, self._span
        cursor, runs = ledger.cursor, sub.runs
        if span is None or not span.base <= cursor < self._stop or not span.record_size or len(runs) != 1:
            return None
        deadline_ns, offset, count = runs[0]
        if count != 1 or offset >> PAGE_SHIFT != cursor >> PAGE_SHIFT or offset in ledger.attempts:
            return None
        slots = ledger.out.pages[offset >> PAGE_SHIFT].slots
        # The FIN may be a late one, of a message that timed out: what is out now must be what it names.
        if offset != sub.only_offset or slots[offset & PAGE_MASK] != sub.slot:
            return None
        slots[offset & PAGE_MASK] = 0
        slots[cursor & PAGE_MASK] = sub.slot
        ledger.pending.finish(offset, 1)
        ledger.pending.deliver(cursor, 1)
        ledger.cursor = cursor + 1
        runs[0] = (now_ns + sub.msg_timeout_ns, cursor, 1)
        sub.finish_count += 1
        sub.message_count += 1
        index = cursor - span.base
        position = span.first + index * span.stride
        stamps = span.timestamp_ns
        stamp_ns = stamps if isinstance(stamps, int) else int(stamps[index])
        if self.timings is not None and not cursor % SAMPLED:
            self.timings.delivery.observe(now_ns - stamp_ns, SAMPLED)
            self.timings.finish.observe(now_ns - deadline_ns + sub.msg_timeout_ns, SAMPLED)
        digits = b"%016x" % (ledger.out.id_base + cursor)
        sub.only_fin, sub.only_offset = b"FIN %b\n" % digits, cursor
        head = MESSAGE_HEAD.pack(span.record_size + 26, 2, stamp_ns, 1)
        return b"%b%b%b" % (head, digits, span.data[position + 4 : position + span.record_size])

    # Fresh --------------------------------------------------------------------------------------------

    def skip_to_fresh(self) -> Span | None:
        """The span at the cursor, which is moved over gaps, emptied parts and blocks that are deferred."""
        ledger = self._ledger
        span = self._span
        if span is not None and span.base <= ledger.cursor < self._stop:
            return span
        while True:
            found = self._backlog.read(ledger.cursor)
            if found is None:
                self._span = None
                ledger.ahead = 0
                if ledger.cursor < self._backlog.fanout:
                    ledger.move_cursor(self._backlog.fanout)
                return None
            span, begin, stop = found
            if begin != ledger.cursor:
                ledger.move_cursor(begin)
                self.recount_ahead()
            if not span.due_ns:
                break
            ledger.ahead -= stop - begin
            ledger.move_cursor(stop)
        self._span, self._stop = span, stop
        return span

    @property
    def fresh_run(self) -> int:
        """How many fresh messages lie at the cursor in the span that `skip_to_fresh` found."""
        return self._stop - self._ledger.cursor

    def recount_ahead(self) -> None:
        """Blocks that were deferred may be gone since: damaged, or fallen out of a memory log."""
        ledger = self._ledger
        if ledger.ahead:
            ledger.ahead = self._backlog.count_due(ledger.cursor, ledger.absorbed)

    def _serve_fresh(
        self, sub: Subscription, count: int, budget: int, now_ns: int, frames: Frames
    ) -> tuple[int, int]:
        served = 0
        looks = count + _SAMPLED_PER_TURN
        deadline_ns = now_ns + sub.msg_timeout_ns
        while served < count and budget > 0 and looks > 0:
            looks -= 1
            span = self.skip_to_fresh()
            if span is None:
                break
            if sub.sample_rate:
                if self._sample_out(sub.sample_rate):
                    continue
                run = 1
            else:
                run = min(count - served, self._stop - self._ledger.cursor)
            run, encoded = self._encode_run(span, run, budget)
            frames.append(encoded)
            first = self._ledger.cursor
            if self.timings is not None:
                self.timings.delivery.observe(now_ns - span.timestamp(first - span.base), run)
            self._ledger.deliver_fresh(first, run, sub.slot)
            sub.add_run(deadline_ns, first, run)
            served += run
            budget -= len(encoded)
            sub.in_flight += run
            sub.message_count += run
        return served, budget

    def _sample_out(self, sample_rate: int) -> bool:
        """Whether chance drops the message at the cursor, for the whole channel, as NSQ's sampling does."""
        if self._random() * 100 < sample_rate + 1:
            return False
        self._ledger.drop_fresh(self._ledger.cursor, 1)
        return True

    def _encode_run(self, span: Span, count: int, budget: int) -> tuple[int, bytes | memoryview]:
        """Frames of up to `count` messages at the cursor, in one page of ids and about `budget` bytes."""
        cursor = self._ledger.cursor
        index = cursor - span.base
        first_id = self._ledger.out.id_base + cursor
        count = min(count, ID_PAGE - first_id % ID_PAGE)
        stamps = span.timestamp_ns
        if span.record_size:
            count = max(1, min(count, budget // (span.record_size + FRAME_OVERHEAD)))
            if not isinstance(stamps, int):
                stamps = stamps[index : index + count]
            first = span.first + index * span.stride
            return count, encode_equal_run(
                span.data, first, span.stride, span.record_size - 4, count, stamps, first_id
            )
        assert span.starts is not None
        starts = span.starts[index : index + count + 1]
        if starts[-1] - starts[0] + FRAME_OVERHEAD * count > budget:
            count = _fitting(starts, budget)
            starts = starts[: count + 1]
        if not isinstance(stamps, int):
            stamps = stamps[index : index + count]
        return count, encode_mixed_run(span.data, starts, stamps, first_id)

    # Requeued -----------------------------------------------------------------------------------------

    def _serve_requeued(
        self, sub: Subscription, count: int, budget: int, now_ns: int, frames: Frames
    ) -> tuple[int, int]:
        """Returns what is left of count and budget."""
        ledger = self._ledger
        deadline_ns = now_ns + sub.msg_timeout_ns
        while count > 0 and budget > 0 and ledger.requeued:
            offset = ledger.requeued[0]
            span = self._backlog.log.read(offset)
            ledger.requeued.popleft()
            if span is None or span.base > offset:
                # Damaged since, or fallen out of a memory log: there is nothing left to deliver.
                ledger.cancel_waiting(offset)
                continue
            attempts = ledger.deliver_again(offset, sub.slot, now_ns=now_ns, deadline_ns=deadline_ns)
            frame = encode_message(
                span.body(offset - span.base),
                timestamp_ns=span.timestamp(offset - span.base),
                attempts=attempts,
                message_id=ledger.out.id_base + offset,
            )
            frames.append(frame)
            sub.in_flight += 1
            sub.message_count += 1
            count -= 1
            budget -= len(frame)
        return count, budget


def _fitting(positions: Sequence[int], budget: int) -> int:
    """How many records, at least one, fit into `budget` bytes of frames."""
    low, high = 1, len(positions) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if positions[middle] - positions[0] + FRAME_OVERHEAD * middle <= budget:
            low = middle
        else:
            high = middle - 1
    return low
