"""What HTTP shows of a topic's log and its channels' messages: offsets, raw blocks, messages, delays.

Nothing here changes anything; `Broker` has what does (`seek`, `commit`, `cancel_deferred`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.core.peeking import ChannelMessage, PeekedMessage, peek_channel, peek_log
from nsqlake.nsqd.core.seeking import check_offset
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.runtime.pace import run_in_slices
from nsqlake.topiclog.block import Span
from nsqlake.topiclog.raw_blocks import RawBlocks
from nsqlake.wire.message import id_digits

__all__ = [
    "MAX_DEFERRED_LISTED",
    "MAX_PEEK_BYTES",
    "MAX_PEEK_MESSAGES",
    "MAX_RAW_BYTES",
    "DeferredMark",
    "DeferredMarkError",
    "DeferredMessage",
    "LogOffsets",
    "list_deferred",
    "log_blocks",
    "log_offsets",
    "message_id",
    "offset_of",
    "peek_at_channel",
    "peek_at_topic",
]

# All of it is done on the event loop, so nobody may ask for more in one go.
MAX_PEEK_MESSAGES = 1_000
MAX_PEEK_BYTES = 4 * 1024 * 1024
MAX_DEFERRED_LISTED = 1_000
MAX_RAW_BYTES = 256 * 1024 * 1024

_ID = re.compile(r"[0-9a-f]{16}")
_MARK = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


def message_id(topic: LiveTopic, offset: int) -> str:
    return id_digits(topic.core.id_base + offset).decode()


def offset_of(topic: LiveTopic, message_id: str) -> int:
    """The offset that an id of this topic stands for, -1 for a text that is none."""
    return int(message_id, 16) - topic.core.id_base if _ID.fullmatch(message_id) else -1


# The log -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Where a topic's log begins and ends, and whose it is."""

    first: int
    next: int
    fanout: int
    uuid: str
    epoch: int
    salt: int  # what the checksum of every block begins with
    at: int | None  # the first offset of the time that was asked for, `next` when all are older


def log_offsets(topic: LiveTopic, timestamp_ns: int | None = None) -> LogOffsets:
    log = topic.core.log
    at = None if timestamp_ns is None else max(log.first, log.offset_at(timestamp_ns))
    return LogOffsets(
        first=log.first,
        next=log.next,
        fanout=topic.core.backlog.fanout,
        uuid=log.uuid.hex(),
        epoch=log.epoch,
        salt=log.salt,
        at=at,
    )


def log_blocks(topic: LiveTopic, offset: int, max_bytes: int, *, verified: bool = False) -> RawBlocks:
    """Whole blocks from the one that holds `offset` on, to be sent as they are and then released.

    None at the end of the log, and then `next` is that end. Raises OutsideLogError and ReadError. Checksums
    are left to the reader; one that finds the first block damaged asks again, `verified`, and gets what
    follows it.
    """
    log = topic.core.log
    return log.raw_blocks(check_offset(log, offset), min(max_bytes, MAX_RAW_BYTES), verified=verified)


# Messages ----------------------------------------------------------------------------------------------


def peek_at_topic(topic: LiveTopic, offset: int, count: int, max_bytes: int) -> list[PeekedMessage]:
    """Messages of the log from `offset` on, whether they flow to channels yet or not. Raises ReadError."""
    core = topic.core
    return peek_log(
        core.backlog,
        offset,
        limit=core.log.next,
        count=min(count, MAX_PEEK_MESSAGES),
        max_bytes=min(max_bytes, MAX_PEEK_BYTES),
    )


def peek_at_channel(
    channel: LiveChannel, count: int, max_bytes: int, offset: int | None = None
) -> list[ChannelMessage]:
    """What the channel has before it, from its cursor on or from `offset`. Raises ReadError."""
    ledger = channel.core.ledger
    return peek_channel(
        channel.topic.core.backlog,
        ledger,
        ledger.cursor if offset is None else offset,
        count=min(count, MAX_PEEK_MESSAGES),
        max_bytes=min(max_bytes, MAX_PEEK_BYTES),
    )


# Deferred ----------------------------------------------------------------------------------------------


class DeferredMarkError(NsqlakeError):
    """A text that is no place in a list of deferred messages."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:64]!r} is not the mark of a deferred message")
        self.text = text


@dataclass(frozen=True, slots=True)
class DeferredMark:
    """A place in a channel's deferred messages, which stays one when the message is gone."""

    due_ns: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> "DeferredMark":
        found = _MARK.fullmatch(text)
        if found is None:
            raise DeferredMarkError(text)
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.due_ns}-{self.offset}"


@dataclass(frozen=True, slots=True)
class DeferredMessage:
    """`body_bytes` is None when the log does not hold the message any more."""

    offset: int
    id: str
    due_ns: int
    attempts: int
    body_bytes: int | None

    @property
    def mark(self) -> DeferredMark:
        """For `list_deferred`, to go on behind this message."""
        return DeferredMark(self.due_ns, self.offset)


async def list_deferred(
    channel: LiveChannel, limit: int, after: DeferredMark | None = None
) -> list[DeferredMessage]:
    """Up to `limit` deferred messages, the next due first, read in slices. Raises ReadError."""
    ledger, topic = channel.core.ledger, channel.topic
    behind = (0, 0) if after is None else (after.due_ns, after.offset)
    found = ledger.deferred.earliest(min(limit, MAX_DEFERRED_LISTED), behind)
    sizes: dict[int, int] = {}
    await run_in_slices(_measure(topic, sorted(offset for _, offset in found), sizes))
    return [
        DeferredMessage(
            offset=offset,
            id=message_id(topic, offset),
            due_ns=due_ns,
            attempts=ledger.attempts.get(offset, 0),
            body_bytes=sizes.get(offset),
        )
        for due_ns, offset in found
    ]


def _measure(topic: LiveTopic, offsets: list[int], sizes: dict[int, int]) -> Iterator[None]:
    """Note the sizes of bodies that the log holds. In their order there, so that a block is read once."""
    span: Span | None = None
    for offset in offsets:
        if span is None or offset >= span.end:
            span = topic.core.log.read_block(offset)
        if span is not None:
            sizes[offset] = len(span.body(offset - span.base))
        yield
