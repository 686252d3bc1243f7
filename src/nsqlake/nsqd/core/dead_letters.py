"""What a dead letter is: where it goes, what its tag says, which of them wait, and how one leaves.

A message that was delivered as often as its channel allows and comes back once more is dead. It is stored in
a topic of its own with a tag beside the body; the channel `dead` of that topic holds those that wait.
"""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

import msgspec

from nsqlake.nsqd.core.backlog import Backlog
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.wire.names import EPHEMERAL_SUFFIX, MAX_NAME_LENGTH

__all__ = [
    "DEAD_CHANNEL",
    "DeadLetter",
    "DeadTag",
    "Reason",
    "ReplayTag",
    "dead_topic_name",
    "decode_tag",
    "discard_waiting",
    "is_dead_topic",
    "pass_over",
    "unfinished",
]

DEAD_CHANNEL = "dead"
_SUFFIX = ".dead"
_DIGEST_DIGITS = 12


class Reason(StrEnum):
    """How a message came back for the last time."""

    REQUEUED = "requeued"
    TIMED_OUT = "timed out"
    DISCONNECTED = "disconnected"


class DeadTag(msgspec.Struct):
    """Beside the body of a dead letter: what it was and why it is here."""

    reason: str
    topic: str
    channel: str
    id: str
    attempts: int
    published_ns: int
    at_ns: int


class ReplayTag(msgspec.Struct):
    """Beside the body of a message that came back from a dead topic, for one channel only."""

    replayed_from: str
    channel: str
    id: str


class DeadLetter(NamedTuple):
    """One dead letter as an operator sees it."""

    offset: int
    id: str  # in the dead topic
    original_id: str
    reason: str
    attempts: int
    published_ns: int
    at_ns: int
    size: int
    is_in_flight: bool  # a consumer of the channel `dead` has it


def dead_topic_name(topic: str, channel: str) -> str:
    """Where the dead letters of a channel go: durable, and a valid name however long the two are."""
    parts = topic.removesuffix(EPHEMERAL_SUFFIX), channel.removesuffix(EPHEMERAL_SUFFIX)
    name = ".".join(parts)
    if len(name) + len(_SUFFIX) > MAX_NAME_LENGTH:
        digest = sha256("/".join(parts).encode()).hexdigest()[:_DIGEST_DIGITS]
        name = f"{name[: MAX_NAME_LENGTH - len(_SUFFIX) - len(digest) - 1]}.{digest}"
    return name + _SUFFIX


def is_dead_topic(name: str) -> bool:
    return name.endswith(_SUFFIX)


def decode_tag(tag: bytes) -> DeadTag | None:
    """None for a block that holds no dead letter."""
    try:
        return msgspec.json.decode(tag, type=DeadTag)
    except msgspec.DecodeError:
        return None


def unfinished(ledger: Ledger, stop: int) -> list[tuple[int, int]]:
    """Ranges of offsets below `stop` that hold every message the channel has yet to finish, in order."""
    waiting = {*ledger.requeued, *(offset for offset, _ in ledger.deferred.items())}
    ranges = [(offset, offset + 1) for offset in waiting if offset < ledger.cursor]
    ranges += [(first, first + count) for first, count in ledger.out.runs()]
    return [*sorted(ranges), (ledger.cursor, stop)]


def pass_over(ledger: Ledger, backlog: Backlog, offset: int, most: int) -> bool:
    """Bring the cursor up to `offset`; what it passes waits, ready to be delivered.

    A message can be finished out of turn only behind the cursor. False: call again, `most` were passed.
    """
    while ledger.cursor < offset and most > 0:
        found = backlog.read(ledger.cursor)
        if found is None or found[1] >= offset:
            ledger.move_cursor(offset)
            break
        span, begin, stop = found
        stop = min(stop, offset, begin + most)
        most -= stop - begin
        if span.due_ns:
            ledger.move_cursor(stop)
        else:
            ledger.set_aside(begin, stop - begin)
    if ledger.ahead:
        ledger.ahead = backlog.count_due(ledger.cursor, ledger.absorbed)
    return ledger.cursor >= offset


def discard_waiting(ledger: Ledger, offsets: Iterable[int]) -> int:
    """Finish those of the messages that wait; returns how many. What is out or fresh stays so."""
    gone = set(offsets)
    found = [offset for offset in gone if ledger.deferred.cancel(offset)]
    ready = [offset for offset in ledger.requeued if offset in gone]
    if ready:
        ledger.requeued = deque(offset for offset in ledger.requeued if offset not in gone)
    for offset in (*found, *ready):
        ledger.cancel_waiting(offset)
    return len(found) + len(ready)
