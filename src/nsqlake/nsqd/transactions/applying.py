"""Bringing a committed transaction into the logs, each of its records once, whatever happened before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.staged_records import StagedRecord
from nsqlake.nsqd.transactions.store import Commit, PartKey
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.runtime.clock import Clock
from nsqlake.wire.mpub_bodies import decode_binary

__all__ = ["RecordKey", "TxnTag", "Work", "applied_records", "apply_steps", "plan_work"]

_MS = 1_000_000
_ANY_SIZE = 2**31 - 1  # limits were checked when it was staged

RecordKey = tuple[int, int]  # part and number of the record


class TxnTag(msgspec.Struct):
    """Beside the records of a block: what they were in their transaction."""

    txn: str
    part: int
    record: int


@dataclass
class Work:
    """What goes to one topic, in order."""

    records: list[tuple[int, StagedPart, StagedRecord]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(record.nbytes for _, _, record in self.records)


def plan_work(commit: Commit, parts: dict[PartKey, StagedPart]) -> dict[str, Work]:
    """The records of the chosen attempts by topic, parts in order."""
    work: dict[str, Work] = {}
    for key in sorted(commit.parts):
        for record in parts[key].records:
            work.setdefault(record.topic, Work()).records.append((key[0], parts[key], record))
    return work


def applied_records(txn: TxnId, tags: Iterable[tuple[int, int, bytes]]) -> set[RecordKey]:
    """Which records of the transaction the blocks of a log hold already."""
    name = str(txn)
    found: set[RecordKey] = set()
    for _base, _count, raw in tags:
        tag = _decode(raw) if raw else None
        if tag is not None and tag.txn == name:
            found.add((tag.part, tag.record))
    return found


def _decode(raw: bytes) -> TxnTag | None:
    try:
        return msgspec.json.decode(raw, type=TxnTag)
    except msgspec.DecodeError:
        return None


def apply_steps(
    txn: TxnId, topic: LiveTopic, work: Work, applied: set[RecordKey], *, at_ns: int, clock: Clock
) -> Iterator[None]:
    """Append what is missing, a record at a time, hidden from readers until the log is released.

    A delay begins at `at_ns`, when the transaction was committed. Raises AppendError, LogClosedError and
    OSError; what came before it is remembered in `applied`.
    """
    assert topic.log is not None
    for part, staged, record in work.records:
        if (part, record.number) in applied:
            continue
        messages = decode_binary(staged.read(record), max_msg_size=_ANY_SIZE, max_body_size=_ANY_SIZE)
        tag = msgspec.json.encode(TxnTag(str(txn), part, record.number))
        if not topic.log.is_held:
            topic.log.hold()
        topic.core.publish(
            messages.records,
            messages.count,
            timestamp_ns=clock.timestamp_ns(),
            record_size=messages.record_size,
            starts=messages.starts,
            due_ns=at_ns + record.defer_ms * _MS if record.defer_ms else 0,
            tag=tag,
        )
        applied.add((part, record.number))
        yield
