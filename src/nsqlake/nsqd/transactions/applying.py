"""Bringing a committed transaction into the logs, each of its records once, whatever happened before."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.staged_records import StagedRecord
from nsqlake.nsqd.transactions.store import Commit, PartKey
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.wire.command_reader import Messages

__all__ = ["Applied", "Entry", "RecordKey", "TxnTag", "append_hidden", "batches", "find_applied", "plan_work"]

_MS = 1_000_000
_BATCH_BYTES = 1024 * 1024

RecordKey = tuple[int, int]  # part and number of the record
Applied = dict[RecordKey, int]  # what a log holds of a transaction: records, and their messages


class TxnTag(msgspec.Struct):
    """Beside the records of a block: what they were in their transaction."""

    txn: str
    part: int
    record: int


class Entry(NamedTuple):
    """A record that has to be in a log."""

    key: PartKey
    part: StagedPart
    record: StagedRecord

    @property
    def name(self) -> RecordKey:
        return self.key[0], self.record.number


def plan_work(commit: Commit, parts: dict[PartKey, StagedPart]) -> dict[str, list[Entry]]:
    """The records of the chosen attempts by topic, parts in order; those that can be found."""
    work: dict[str, list[Entry]] = {}
    for chosen in commit.parts:
        part = parts.get(chosen.key)
        for record in part.records[: chosen.records] if part is not None else ():
            assert part is not None
            work.setdefault(record.topic, []).append(Entry(chosen.key, part, record))
    return work


def batches(entries: Iterable[Entry], applied: Applied) -> Iterator[list[Entry]]:
    """What is missing, in order, in portions to be read at once: of one part, about a megabyte."""
    batch: list[Entry] = []
    nbytes = 0
    for entry in entries:
        if entry.name in applied:
            continue
        if batch and (batch[0].part is not entry.part or nbytes + entry.record.nbytes > _BATCH_BYTES):
            yield batch
            batch, nbytes = [], 0
        batch.append(entry)
        nbytes += entry.record.nbytes
    if batch:
        yield batch


def find_applied(txn: TxnId, tags: Iterable[tuple[int, int, bytes]]) -> tuple[Applied, int | None]:
    """What the blocks of a log hold of the transaction, and the offset of the first of them."""
    name, applied = str(txn), Applied()
    first: int | None = None
    for base, count, raw in tags:
        tag = _decode(raw) if raw else None
        if tag is not None and tag.txn == name:
            applied[tag.part, tag.record] = count
            first = base if first is None else first
    return applied, first


def _decode(raw: bytes) -> TxnTag | None:
    try:
        return msgspec.json.decode(raw, type=TxnTag)
    except msgspec.DecodeError:
        return None


def append_hidden(
    txn: TxnId,
    topic: LiveTopic,
    found: Sequence[tuple[Entry, Messages]],
    applied: Applied,
    *,
    at_ns: int,
    timestamp_ns: int,
) -> Iterator[None]:
    """Append records one by one, for nobody's eyes until the log is released.

    A delay begins at `at_ns`, when the transaction was committed. Raises AppendError and LogClosedError;
    what came before it is in `applied`.
    """
    log = topic.log
    assert log is not None, "ephemeral topics are refused when they are staged"
    for entry, messages in found:
        defer_ms = entry.record.defer_ms
        base = log.append(
            messages.records,
            messages.count,
            timestamp_ns=timestamp_ns,
            record_size=messages.record_size,
            starts=messages.starts,
            due_ns=at_ns + defer_ms * _MS if defer_ms else 0,
            tag=msgspec.json.encode(TxnTag(str(txn), *entry.name)),
        )
        log.hold(base)
        topic.core.note_published(messages.records, messages.count)
        applied[entry.name] = messages.count
        yield
