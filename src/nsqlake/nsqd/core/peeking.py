"""Looking at messages without consuming them: what a log holds, and what became of it in a channel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from nsqlake.nsqd.core.backlog import Backlog
from nsqlake.nsqd.core.in_flight import PAGE_SHIFT
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.topiclog.block import Span

__all__ = ["ChannelMessage", "MessageState", "PeekedMessage", "peek_channel", "peek_log"]

Found = tuple[Span, int, int]  # a span, the first of its messages that counts, and where those end


class MessageState(Enum):
    """What became of a message in a channel."""

    FRESH = "fresh"
    OUT = "out"
    REQUEUED = "requeued"
    DEFERRED = "deferred"
    DEAD = "dead"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A message as it lies in the log; `due_ns` is 0 for one that was published without a delay."""

    offset: int
    timestamp_ns: int
    due_ns: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """A message as a channel sees it; `due_ns` is when it may be delivered, if it is deferred there."""

    offset: int
    timestamp_ns: int
    due_ns: int
    body: bytes
    state: MessageState
    attempts: int


def peek_log(backlog: Backlog, offset: int, *, limit: int, count: int, max_bytes: int) -> list[PeekedMessage]:
    """Up to `count` messages of [offset, limit), about `max_bytes` but at least one.

    What was emptied, damaged or retired is stepped over.
    """
    return _collect(lambda at: backlog.read_up_to(at, limit), offset, count, max_bytes)


def peek_channel(
    backlog: Backlog, ledger: Ledger, offset: int, *, count: int, max_bytes: int
) -> list[ChannelMessage]:
    """`peek_log` of what flows to a channel, with what became of each message."""
    messages = _collect(backlog.read, offset, count, max_bytes)
    if not messages:
        return []
    requeued = _requeued(ledger, messages[0].offset, messages[-1].offset + 1)
    return [_in_channel(ledger, message, message.offset in requeued) for message in messages]


def _collect(
    read: Callable[[int], Found | None], offset: int, count: int, max_bytes: int
) -> list[PeekedMessage]:
    messages: list[PeekedMessage] = []
    for message in _messages(read, offset):
        max_bytes -= len(message.body)
        if len(messages) >= count or (messages and max_bytes < 0):
            break
        messages.append(message)
    return messages


def _messages(read: Callable[[int], Found | None], offset: int) -> Iterator[PeekedMessage]:
    while (found := read(offset)) is not None:
        span, begin, offset = found
        for index in range(begin - span.base, offset - span.base):
            yield PeekedMessage(span.base + index, span.timestamp(index), span.due_ns, span.body(index))


def _requeued(ledger: Ledger, start: int, stop: int) -> set[int]:
    low, high = start >> PAGE_SHIFT, stop >> PAGE_SHIFT
    if not any(low <= number <= high and page.waiting for number, page in ledger.out.pages.items()):
        return set()
    return {offset for offset in ledger.requeued if start <= offset < stop}


def _in_channel(ledger: Ledger, message: PeekedMessage, is_requeued: bool) -> ChannelMessage:
    offset, due_ns = message.offset, message.due_ns
    attempts = ledger.attempts.get(offset, 0)
    deferred_until_ns = ledger.deferred.due_ns(offset)
    if ledger.out.owner(offset):
        state, attempts = MessageState.OUT, max(attempts, 1)
    elif deferred_until_ns:
        state, due_ns = MessageState.DEFERRED, deferred_until_ns
    elif offset in ledger.dead:
        state = MessageState.DEAD
    elif is_requeued:
        state = MessageState.REQUEUED
    elif offset >= (ledger.absorbed if message.due_ns else ledger.cursor):
        state = MessageState.FRESH
    else:
        state = MessageState.FINISHED
    return ChannelMessage(offset, message.timestamp_ns, due_ns, message.body, state, attempts)
