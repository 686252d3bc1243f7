"""What became of every message a channel has taken from its topic.

A message is out (with a consumer), waits (requeued, deferred until a time, or dead), or is finished. Fresh
ones lie behind `cursor`. Most messages live as part of a run and cost nothing of their own; only those
that were requeued, touched or delivered again have entries in `attempts`, `deadlines` and `sent_ns`.

Every change is also noted in `pending`, from which the channel's journal is written.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nsqlake.nsqd.core.deferred import Deferred
from nsqlake.nsqd.core.in_flight import PAGE_SHIFT, InFlight
from nsqlake.nsqd.core.journal import Entry, Kind, PendingEntries
from nsqlake.wire.message import ID_PAGE

__all__ = ["Ledger"]

_RECOVERED = 1  # the owner slot that replay uses; no consumer exists yet


class Ledger:
    """The outstanding messages of one channel and its cursor."""

    __slots__ = (
        "absorbed",
        "ahead",
        "attempts",
        "cursor",
        "dead",
        "deadlines",
        "deferred",
        "out",
        "pending",
        "requeued",
        "sent_ns",
    )

    def __init__(self, id_base: int, cursor: int) -> None:
        self.pending = PendingEntries()
        self._begin(id_base, cursor)

    def _begin(self, id_base: int, cursor: int) -> None:
        self.cursor = cursor
        self.absorbed = cursor  # blocks with a delay are in `deferred` up to this offset
        self.ahead = 0  # messages of such blocks that the cursor has yet to pass
        self.out = InFlight(id_base)
        self.attempts: dict[int, int] = {}
        self.deadlines = Deferred()
        self.sent_ns: dict[int, int] = {}
        self.requeued: deque[int] = deque()
        self.deferred = Deferred()
        self.dead: dict[int, str] = {}  # given up, and why; they wait here until they are stored elsewhere

    # Out ----------------------------------------------------------------------------------------------

    def deliver_fresh(self, first: int, count: int, slot: int) -> None:
        """A run at the cursor, all in one page, goes out for the first time."""
        self.out.hand_out(first, count, slot)
        self.pending.deliver(first, count)
        self.move_cursor(first + count)

    def drop_fresh(self, first: int, count: int) -> None:
        """A run at the cursor is finished without being sent to anybody."""
        self.pending.deliver(first, count)
        self.pending.finish(first, count)
        self.move_cursor(first + count)

    def move_cursor(self, offset: int) -> None:
        left = self.cursor >> PAGE_SHIFT
        self.cursor = offset
        if offset >> PAGE_SHIFT != left:
            self.out.drop_if_unused(left)

    def deliver_again(self, offset: int, slot: int, *, now_ns: int, deadline_ns: int) -> int:
        """A message that waited goes out; returns its attempts."""
        attempts = self.attempts.get(offset, 0) + 1
        self.attempts[offset] = attempts
        self.deadlines.add(offset, deadline_ns)
        self.sent_ns[offset] = now_ns
        self.out.hand_out(offset, 1, slot)
        self.out.pages[offset >> PAGE_SHIFT].waiting -= 1
        self.pending.attempt(offset, attempts)
        return attempts

    def extend(self, offset: int, *, sent_ns: int, deadline_ns: int) -> None:
        """A message that is out gets a deadline of its own."""
        self.attempts.setdefault(offset, 1)
        self.sent_ns[offset] = sent_ns
        self.deadlines.add(offset, deadline_ns)

    # Waiting ------------------------------------------------------------------------------------------

    def put_back(self, offset: int, due_ns: int = 0) -> None:
        """A message that is out waits instead: at once ready again, or deferred until `due_ns`."""
        attempts = self.attempts.setdefault(offset, 1)
        self.deadlines.cancel(offset)
        self.sent_ns.pop(offset, None)
        self.out.take_back(offset)
        self._add_waiting(offset, due_ns)
        self.pending.wait(offset, attempts, due_ns)

    def give_up(self, offset: int, reason: str) -> None:
        """A message that is out is sent to nobody any more; after a restart it is one that was requeued."""
        self.put_back(offset)
        self.requeued.pop()
        self.dead[offset] = reason

    def bury(self, offset: int) -> None:
        """A message that was given up is finished, unless it was finished or forgotten before."""
        if self.dead.pop(offset, None) is not None:
            self.cancel_waiting(offset)

    def set_aside(self, first: int, count: int) -> None:
        """A run at the cursor waits as if requeued, though nobody was sent it yet."""
        self.pending.deliver(first, count)
        for start, stop in _page_parts(first, count):
            self.out.page(start >> PAGE_SHIFT).waiting += stop - start
        for offset in range(first, first + count):
            self.requeued.append(offset)
            self.pending.wait(offset, 0, 0)
        self.move_cursor(first + count)

    def absorb(self, base: int, count: int, due_ns: int) -> None:
        """A block that was published with a delay is deferred, wherever the cursor is."""
        for offset in range(base, base + count):
            self._add_waiting(offset, due_ns)
        self.ahead += count
        self.absorbed = base + count
        self.pending.absorb(base, count, due_ns)

    def mature(self, now_ns: int) -> int:
        """Deferred messages whose time has come are ready again; returns how many."""
        due = self.deferred.pop_due(now_ns)
        self.requeued.extend(due)
        return len(due)

    def cancel_waiting(self, offset: int) -> None:
        """A message that was just taken out of the queues below is finished without delivery."""
        self.attempts.pop(offset, None)
        number = offset >> PAGE_SHIFT
        self.out.pages[number].waiting -= 1
        self._drop_page(number)
        self.pending.finish(offset, 1)

    def cancel_deferred(self, only: int | None = None) -> int:
        """Deferred messages, or the one at offset `only`, are finished without delivery; returns how many."""
        offsets = [offset for offset, _ in self.deferred.items()] if only is None else [only]
        cancelled = [offset for offset in offsets if self.deferred.cancel(offset)]
        for offset in cancelled:
            self.cancel_waiting(offset)
        return len(cancelled)

    def keep_waiting(self, is_kept: Callable[[int], bool]) -> None:
        """What waits but is no longer to be read anywhere is finished."""
        gone = [offset for offset in self.requeued if not is_kept(offset)]
        if gone:
            self.requeued = deque(offset for offset in self.requeued if is_kept(offset))
        gone += [offset for offset, _ in self.deferred.items() if not is_kept(offset)]
        for offset in gone:
            self.deferred.cancel(offset)
            self.cancel_waiting(offset)

    def _add_waiting(self, offset: int, due_ns: int) -> None:
        self.out.page(offset >> PAGE_SHIFT).waiting += 1
        if due_ns:
            self.deferred.add(offset, due_ns)
        else:
            self.requeued.append(offset)

    # Finished -----------------------------------------------------------------------------------------

    def finish_run(self, first: int, count: int) -> None:
        """A run that is out, all in one page, is done."""
        self.out.clear_run(first, count)
        if self.attempts:
            self._forget_range(first, count)
        if first >> PAGE_SHIFT != self.cursor >> PAGE_SHIFT:
            self.out.drop_if_unused(first >> PAGE_SHIFT)
        self.pending.finish(first, count)

    def finish_offsets(self, offsets: npt.NDArray[Any]) -> None:
        """Sorted, distinct offsets that are out are done."""
        self.out.clear(offsets)
        cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
        for part in np.split(offsets, cuts):
            first, count = int(part[0]), len(part)
            if self.attempts:
                self._forget_range(first, count)
            self.pending.finish(first, count)
        for number in np.unique(offsets >> PAGE_SHIFT):
            self._drop_page(int(number))

    def commit(self, offset: int) -> dict[int, int]:
        """Everything below `offset` is done; returns how many messages that were out each slot held."""
        held = self.out.clear_below(offset)
        waiting = [at for at in self.requeued if at < offset]
        if waiting:
            self.requeued = deque(at for at in self.requeued if at >= offset)
        waiting += [at for at, _ in self.deferred.items() if at < offset]
        waiting += [at for at in self.dead if at < offset]
        for at in waiting:
            self.deferred.cancel(at)
            self.dead.pop(at, None)
            self.out.pages[at >> PAGE_SHIFT].waiting -= 1
        for at in [at for at in self.attempts if at < offset]:
            self._forget_range(at, 1)
        if offset > self.cursor:
            self.move_cursor(offset)
        self.absorbed = max(self.absorbed, offset)
        for number in [number for number in self.out.pages if number <= offset >> PAGE_SHIFT]:
            self._drop_page(number)
        self.pending.commit(offset)
        return held

    def reset(self, cursor: int) -> None:
        """Forget every message; go on at `cursor`."""
        self._begin(self.out.id_base, cursor)
        self.pending.reset(cursor, cursor)

    def holds(self, base: int, end: int) -> bool:
        """Whether a message in [base, end) is yet to be delivered or finished; may err towards yes."""
        if self.cursor < end:
            return True
        low, high = base >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT
        pages = self.out.pages
        numbers: Iterable[int] = range(low, high + 1) if high - low < len(pages) else list(pages)
        return any(
            low <= number <= high and number in pages and self._page_holds(number, base, end)
            for number in numbers
        )

    def _page_holds(self, number: int, base: int, end: int) -> bool:
        page, first = self.out.pages[number], number << PAGE_SHIFT
        start, stop = max(base, first), min(end, first + ID_PAGE)
        if page.is_unused or stop - start == ID_PAGE:
            return not page.is_unused
        # Large messages fill a segment long before a page of offsets: one that is out must not pin them all.
        if page.in_flight and page.table[start - first : stop - first].any():
            return True
        return page.waiting > 0 and self._waits_in(start, stop)

    def _waits_in(self, start: int, stop: int) -> bool:
        if len(self.requeued) > ID_PAGE:
            return True  # too many to look through
        if any(start <= offset < stop for queue in (self.requeued, self.dead) for offset in queue):
            return True
        deferred = self.deferred
        return len(deferred) > 0 and any(offset in deferred for offset in range(start, stop))

    def _forget_range(self, first: int, count: int) -> None:
        attempts = self.attempts
        if len(attempts) < count:
            special = [offset for offset in attempts if first <= offset < first + count]
        else:
            special = [offset for offset in range(first, first + count) if offset in attempts]
        for offset in special:
            del attempts[offset]
            self.deadlines.cancel(offset)
            self.sent_ns.pop(offset, None)

    def _drop_page(self, number: int) -> None:
        # The cursor's own page is about to be used again.
        if number != self.cursor >> PAGE_SHIFT:
            self.out.drop_if_unused(number)

    # Journal ------------------------------------------------------------------------------------------

    def snapshot(self) -> list[Entry]:
        """Entries from which `replay` makes this ledger again; what is out comes back as waiting."""
        entries: list[Entry] = [(Kind.RESET, self.cursor, self.absorbed, 0)]
        for first, count in self.out.runs():
            entries.extend(self._holds_of(first, count))
        attempts = self.attempts
        ready = (*self.dead, *self.requeued)
        entries.extend((Kind.WAIT, offset, attempts.get(offset, 0), 0) for offset in ready)
        entries.extend((Kind.WAIT, at, attempts.get(at, 0), due_ns) for at, due_ns in self.deferred.items())
        return entries

    def _holds_of(self, first: int, count: int) -> Iterator[Entry]:
        start = first
        for offset in range(first, first + count) if self.attempts else ():
            if offset in self.attempts:
                if start < offset:
                    yield (Kind.HOLD, start, offset - start, 1)
                yield (Kind.HOLD, offset, 1, self.attempts[offset])
                start = offset + 1
        if start < first + count:
            yield (Kind.HOLD, start, first + count - start, 1)

    def replay(self, entries: Iterable[Entry]) -> bool:
        """Take over the state that a journal describes; False if it holds none. Whatever was out waits."""
        waiting: dict[int, int] = {}
        found = False
        for kind, a, b, c in entries:
            if kind == Kind.RESET:
                found = True
                self._begin(self.out.id_base, a)
                self.absorbed = b
                waiting.clear()
            elif not found:
                return False
            else:
                self._replay_entry(waiting, kind, a, b, c)
        self._settle(waiting)
        self.pending.clear()
        return found

    def _replay_entry(self, waiting: dict[int, int], kind: int, a: int, b: int, c: int) -> None:
        if kind == Kind.DELIVER:
            self._mark(a, b)
            self.cursor = a + b
        elif kind == Kind.FINISH:
            self._unmark(waiting, a, b)
        elif kind == Kind.WAIT:
            if self.out.owner(a):
                self.out.take_back(a)
            waiting[a], self.attempts[a] = c, b
        elif kind == Kind.ATTEMPT:
            waiting.pop(a, None)
            if not self.out.owner(a):
                self.out.hand_out(a, 1, _RECOVERED)
            self.attempts[a] = b
        elif kind == Kind.HOLD:
            self._mark(a, b)
            if c != 1:
                self.attempts.update(dict.fromkeys(range(a, a + b), c))
        elif kind == Kind.ABSORB:
            waiting.update(dict.fromkeys(range(a, a + b), c))
            self.absorbed = a + b
        elif kind == Kind.COMMIT:
            self.out.clear_below(a)
            for at in [at for at in {*waiting, *self.attempts} if at < a]:
                waiting.pop(at, None)
                self.attempts.pop(at, None)
            self.cursor, self.absorbed = max(self.cursor, a), max(self.absorbed, a)

    def _mark(self, first: int, count: int) -> None:
        for start, stop in _page_parts(first, count):
            page = self.out.page(start >> PAGE_SHIFT)
            index = start % ID_PAGE
            part = page.table[index : index + stop - start]
            fresh = int((part == 0).sum())
            part[:] = _RECOVERED
            page.in_flight += fresh
            self.out.count += fresh

    def _unmark(self, waiting: dict[int, int], first: int, count: int) -> None:
        for start, stop in _page_parts(first, count):
            page = self.out.page(start >> PAGE_SHIFT)
            index = start % ID_PAGE
            part = page.table[index : index + stop - start]
            out = int((part != 0).sum())
            part[:] = 0
            page.in_flight -= out
            self.out.count -= out
            self.out.drop_if_unused(start >> PAGE_SHIFT)
        if self.attempts or waiting:
            for offset in range(first, first + count):
                self.attempts.pop(offset, None)
                waiting.pop(offset, None)

    def _settle(self, waiting: dict[int, int]) -> None:
        for first, count in list(self.out.runs()):
            for offset in range(first, first + count):
                self.attempts.setdefault(offset, 1)
                waiting[offset] = 0
        self.out = InFlight(self.out.id_base)
        for offset in sorted(waiting):
            self._add_waiting(offset, waiting[offset])


def _page_parts(first: int, count: int) -> Iterator[tuple[int, int]]:
    """[first, first + count) cut at the borders of pages."""
    end = first + count
    while first < end:
        stop = min(end, (first | (ID_PAGE - 1)) + 1)
        yield first, stop
        first = stop
