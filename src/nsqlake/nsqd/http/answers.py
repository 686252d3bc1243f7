"""What the endpoints beyond NSQ answer: times in ns since 1970, sizes in bytes."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "CancelledAnswer",
    "DeadLetterAnswer",
    "DeadLettersAnswer",
    "DeferredAnswer",
    "DeferredMessageAnswer",
    "DrainAnswer",
    "ErrorAnswer",
    "LogIndexAnswer",
    "LogOffsetsAnswer",
    "MaxAttemptsAnswer",
    "MessageAnswer",
    "MovedAnswer",
    "PeekAnswer",
    "ReplayedAnswer",
    "TxnCommitAnswer",
    "TxnPartAnswer",
    "TxnStageAnswer",
    "TxnStateAnswer",
]


class ErrorAnswer(msgspec.Struct, omit_defaults=True):
    """Why a request was refused: a code for programs and, where that does not say it all, a reason."""

    message: str
    reason: str = ""


class LogOffsetsAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a topic's log begins and ends, whose it is, and how long what is consumed stays in it."""

    topic: str
    first: int
    next: int
    fanout: int  # messages below it flow to the topic's channels
    uuid: str
    epoch: int
    salt: int  # what the checksum of every block begins with
    node_id: int  # a message's id is this number and its offset: node_id << 54 | offset, in 16 hex digits
    retention_time: int
    retention_bytes: int
    at: int | UnsetType = UNSET  # the first offset of the time that was asked for


class LogIndexAnswer(msgspec.Struct, kw_only=True):
    """How the bytes of a range of a log are spread over its offsets.

    Each mark is an offset, and the bytes of blocks and the messages between the start of the range and it.
    """

    topic: str
    uuid: str
    epoch: int
    first: int
    next: int
    node_id: int
    start: int
    end: int
    marks: list[tuple[int, int, int]]


class MovedAnswer(msgspec.Struct):
    """Where the channel reads on."""

    offset: int


class MessageAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message; state, attempts and due are those of the channel, if the request names one."""

    id: str
    offset: int
    timestamp: int
    size: int
    encoding: Literal["utf-8", "base64"]
    body: str
    truncated: bool
    due: int | UnsetType = UNSET
    state: Literal["fresh", "out", "requeued", "deferred", "dead", "finished"] | UnsetType = UNSET
    attempts: int | UnsetType = UNSET


class PeekAnswer(msgspec.Struct):
    """Messages in order of offset, and the offset to look on from."""

    messages: list[MessageAnswer]
    next: int


class DeferredMessageAnswer(msgspec.Struct, kw_only=True):
    """A message that waits for its time; `size` is null when the log holds it no longer."""

    id: str
    offset: int
    due: int
    attempts: int
    size: int | None


class DeferredAnswer(msgspec.Struct):
    """Deferred messages, the next due first; `after` leads to the rest and is null when there is none."""

    messages: list[DeferredMessageAnswer]
    after: str | None


class CancelledAnswer(msgspec.Struct):
    """How many deferred messages will never be delivered."""

    cancelled: int


class DeadLetterAnswer(msgspec.Struct, kw_only=True):
    """A message that was given up; `id` is that in the dead topic."""

    id: str
    original_id: str
    offset: int
    reason: str
    attempts: int
    published: int
    dead_since: int
    size: int
    in_flight: bool


class DeadLettersAnswer(msgspec.Struct, kw_only=True):
    """Dead letters of a channel in their order; `after` leads to the rest and is null when there is none."""

    topic: str
    max_attempts: int
    messages: list[DeadLetterAnswer]
    after: int | None


class ReplayedAnswer(msgspec.Struct):
    """How many dead letters went back to their channel."""

    replayed: int


class MaxAttemptsAnswer(msgspec.Struct):
    """Deliveries before a message is a dead letter, 0 for any number; `own` if set for the channel."""

    max_attempts: int
    own: bool


class DrainAnswer(msgspec.Struct):
    """Whether the daemon takes no more messages and stops when the last one is finished."""

    draining: bool


class TxnStageAnswer(msgspec.Struct):
    """`already` when the messages were kept before, or the transaction is committed."""

    already: bool


class TxnCommitAnswer(msgspec.Struct):
    """`already` when it was committed before; then nothing was done, and `messages` is 0.

    `lost` is how many of its messages were damaged on the disk before they came to their logs.
    """

    already: bool
    messages: int
    lost: int


class TxnPartAnswer(msgspec.Struct):
    """What one attempt of one part has staged."""

    part: int
    attempt: int
    records: int
    messages: int
    bytes: int


class TxnStateAnswer(msgspec.Struct, kw_only=True):
    """`committed` means decided, but not in the logs yet; `done` that it, or a later one, is."""

    txn: str
    state: Literal["open", "committed", "done", "unknown"]
    parts: list[TxnPartAnswer]
