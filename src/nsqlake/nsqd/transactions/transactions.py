"""Transactions of all producers: staged, committed once, finished after a crash, or forgotten."""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.stats.pace import run_in_slices
from nsqlake.nsqd.transactions.applying import RecordKey, Work, applied_records, apply_steps, plan_work
from nsqlake.nsqd.transactions.errors import (
    DecidedError,
    ForeignError,
    GapError,
    IncompleteError,
    NoRoomError,
    UnknownError,
)
from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.store import Commit, Done, PartKey, TransactionStore
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.runtime.clock import Clock

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker

__all__ = ["Chosen", "Outcome", "Transactions"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chosen:
    """The attempt of a part that counts, and how much it must have staged."""

    part: int
    attempt: int
    records: int
    messages: int


State = Literal["open", "committed", "done", "unknown"]


class Outcome(NamedTuple):
    """`already`: it was committed before, so nothing was done."""

    already: bool
    messages: int


@dataclass
class Transaction:
    """One that is not done yet; `applied` is what each topic's log is known to hold of it."""

    parts: dict[PartKey, StagedPart] = field(default_factory=dict)
    commit: Commit | None = None
    owner: str | None = None  # None: nobody knows any more, so anybody may go on with it
    used_ns: int = 0
    applied: dict[LiveTopic, set[RecordKey]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())

    def check_owner(self, txn: TxnId, owner: str) -> None:
        if self.owner not in (None, owner):
            raise ForeignError(txn)


class Transactions:
    """Commits come one after the other, so that a topic never hides two of them at once."""

    def __init__(
        self,
        broker: "Broker",
        store: TransactionStore,
        *,
        clock: Clock,
        executor: Executor,
        options: NsqdOptions,
    ) -> None:
        self._broker, self._store, self._clock, self._executor = broker, store, clock, executor
        self._options = options
        self._producers: dict[str, Done] = {}
        self.open: dict[TxnId, Transaction] = {}
        self._committing = asyncio.Lock()
        self._stalled: dict[TxnId, str] = {}  # why a committed one is not in the logs yet
        self.staged_bytes = 0
        self.committed_count = 0
        self.expired_count = 0

    @property
    def is_busy(self) -> bool:
        return self._committing.locked()

    # Opening ------------------------------------------------------------------------------------------

    def load(self) -> dict[str, tuple[str, int]]:
        """What was left behind; for each topic the log and the offset from which on nobody may read yet."""
        self._producers, stored = self._store.open()
        now_ns = self._clock.now_ns()
        holds: dict[str, tuple[str, int]] = {}
        for txn, found in stored.items():
            self.open[txn] = Transaction(found.parts, found.commit, used_ns=now_ns)
            for topic, (uuid, next_) in found.commit.logs.items() if found.commit else ():
                known = holds.get(topic)
                holds[topic] = uuid, next_ if known is None else min(known[1], next_)
        self.staged_bytes = sum(each.nbytes for each in self.open.values())
        return holds

    async def finish_committed(self) -> None:
        """Bring into the logs what was committed and is not there; what fails is tried again later."""
        for txn in sorted(self.open):
            transaction = self.open.get(txn)
            if transaction is None or transaction.commit is None:
                continue
            async with self._committing:
                if txn in self.open:
                    await self._try_to_finish(txn, transaction)

    async def _try_to_finish(self, txn: TxnId, transaction: Transaction) -> None:
        try:
            await self._finish(txn, transaction)
        except (NsqlakeError, OSError) as error:
            if self._stalled.get(txn) != str(error):
                logger.error("TXN(%s): committed, not in the logs yet, will be tried again: %s", txn, error)
            self._stalled[txn] = str(error)

    # Staging ------------------------------------------------------------------------------------------

    def state_of(self, txn: TxnId) -> State:
        """`open`, `committed` (not in the logs yet), `done` or `unknown`."""
        if self._is_done(txn):
            return "done"
        transaction = self.open.get(txn)
        if transaction is None:
            return "unknown"
        return "open" if transaction.commit is None else "committed"

    def stage(
        self,
        txn: TxnId,
        key: PartKey,
        number: int,
        *,
        topic: str,
        count: int,
        body: bytes,
        defer_ms: int = 0,
        owner: str = "",
    ) -> bool:
        """Keep one MPUB for later; whether that was needed. Raises TransactionError and OSError."""
        transaction = self.open.get(txn)
        if self._is_done(txn) or (transaction is not None and transaction.commit is not None):
            return False
        if transaction is None:
            self._drop_older(txn)
            transaction = self.open[txn] = Transaction(owner=owner)
        transaction.check_owner(txn, owner)
        transaction.used_ns = self._clock.now_ns()
        part = transaction.parts.get(key)
        staged = 0 if part is None else len(part.records)
        if number < staged:
            return False
        if number > staged:
            raise GapError(txn, number=number, expected=staged)
        self._check_room(txn, len(body))
        if part is None:
            part = transaction.parts[key] = self._store.make_part(txn, key)
        before = part.nbytes
        part.append(topic, count, defer_ms, body)
        self.staged_bytes += part.nbytes - before
        return True

    def _is_done(self, txn: TxnId) -> bool:
        done = self._producers.get(txn.producer)
        return done is not None and txn.sequence <= done.sequence

    def _drop_older(self, txn: TxnId) -> None:
        """A producer that goes on with another transaction has given up those it did not commit."""
        for other, transaction in list(self.open.items()):
            if other.producer == txn.producer and other < txn and transaction.commit is None:
                self._forget(other)

    def _check_room(self, txn: TxnId, nbytes: int) -> None:
        limit = self._options.max_txn_bytes
        if limit and self.staged_bytes + nbytes > limit:
            raise NoRoomError(txn, limit)
        files, path = self._store.files, self._broker.data_path
        if files.free_bytes(path) < self._options.min_free_bytes + nbytes:
            raise OSError(errno.ENOSPC, "no space left on device")

    # Deciding -----------------------------------------------------------------------------------------

    async def commit(self, txn: TxnId, chosen: Sequence[Chosen], owner: str = "") -> Outcome:
        """All that the chosen attempts staged is in the logs, durable and visible when this returns.

        A transaction that was committed before is left as it is. Raises TransactionError when nothing has
        happened; after TopicLogError, CreationError or OSError it may have been decided, and then it
        happens as soon as it can: whoever commits it again waits for that.
        """
        return await asyncio.shield(asyncio.ensure_future(self._commit(txn, chosen, owner)))

    async def _commit(self, txn: TxnId, chosen: Sequence[Chosen], owner: str) -> Outcome:
        async with self._committing:
            if self._is_done(txn):
                return Outcome(True, 0)
            transaction = self.open.get(txn)
            if transaction is None:
                if chosen:
                    raise UnknownError(txn)
                transaction = self.open[txn] = Transaction(owner=owner)
            transaction.check_owner(txn, owner)
            if transaction.commit is None:
                await self._decide(txn, transaction, chosen)
            messages = await self._finish(txn, transaction)
            return Outcome(False, messages)

    async def _decide(self, txn: TxnId, transaction: Transaction, chosen: Sequence[Chosen]) -> None:
        keys = _check_chosen(txn, chosen, transaction.parts)
        parts = [transaction.parts[key] for key in keys]
        names = {name for part in parts for name in part.topics}
        topics = [await self._broker.open_topic(name) for name in sorted(names)]
        logs = {topic.name: (topic.core.log.uuid.hex(), _end(topic)) for topic in topics}
        commit = Commit(keys, logs, self._clock.now_ns())
        if keys:
            await self._on_disk(lambda: self._store.write_commit(txn, commit, parts))
        transaction.commit = commit

    async def _finish(self, txn: TxnId, transaction: Transaction) -> int:
        """Everything into the logs, durable; then nothing of it twice; then visible. Returns the messages."""
        assert transaction.commit is not None
        work = plan_work(transaction.commit, transaction.parts)
        topics = [await self._append(txn, transaction, name, work[name]) for name in sorted(work)]
        for topic in topics:
            synced = topic.wait_synced()
            if synced is not None:
                await synced
        done = Done(txn.sequence, self._clock.now_ns())
        await self._on_disk(lambda: self._store.write_done(txn.producer, done))
        self._producers[txn.producer] = done
        now_ns = self._clock.now_ns()
        for topic in topics:
            if topic.log is not None and not topic.core.is_closed:
                topic.log.release()
                topic.core.flow(now_ns)
                self._broker.turn.flowed(topic)
        messages = sum(record.message_count for each in work.values() for _, _, record in each.records)
        logger.info("TXN(%s): committed messages=%d topics=%d", txn, messages, len(topics))
        self.committed_count += 1
        self._forget(txn)
        return messages

    async def _append(self, txn: TxnId, transaction: Transaction, name: str, work: Work) -> LiveTopic:
        assert transaction.commit is not None
        topic = await self._broker.open_topic(name, while_draining=True)
        self._broker.turn.flush(topic)
        log = topic.core.log
        if topic not in transaction.applied:
            uuid, start = transaction.commit.logs[name]
            start = start if uuid == log.uuid.hex() else log.first
            transaction.applied[topic] = applied_records(txn, log.tags(start, _end(topic)))
        applied, at_ns = transaction.applied[topic], transaction.commit.at_ns
        await run_in_slices(apply_steps(txn, topic, work, applied, at_ns=at_ns, clock=self._clock))
        return topic

    def abort(self, txn: TxnId, owner: str = "") -> None:
        """Forget what was staged. Raises DecidedError and ForeignError."""
        transaction = self.open.get(txn)
        if self._is_done(txn) or (transaction is not None and transaction.commit is not None):
            raise DecidedError(txn)
        if transaction is not None:
            transaction.check_owner(txn, owner)
            self._forget(txn)

    # Forgetting ---------------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Once in a while: finish what could not be finished, forget what nobody commits."""
        if self._stalled and not self._committing.locked():
            await self.finish_committed()
        now_ns = self._clock.now_ns()
        for txn, transaction in list(self.open.items()):
            is_old = now_ns - transaction.used_ns > self._options.txn_timeout_ns
            if transaction.commit is None and is_old and not self._committing.locked():
                logger.warning("TXN(%s): never committed, dropped bytes=%d", txn, transaction.nbytes)
                self.expired_count += 1
                self._forget(txn)
        self._forget_producers(now_ns)

    def _forget_producers(self, now_ns: int) -> None:
        busy = {txn.producer for txn in self.open}
        for producer, done in list(self._producers.items()):
            if producer not in busy and now_ns - done.used_ns > self._options.txn_retention_ns:
                del self._producers[producer]
                self._executor.submit(self._store.remove_producer, producer)

    def _forget(self, txn: TxnId) -> None:
        transaction = self.open.pop(txn)
        self._stalled.pop(txn, None)
        self.staged_bytes -= transaction.nbytes
        self._executor.submit(self._store.remove, txn)

    async def _on_disk(self, job: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, job)


def _check_chosen(txn: TxnId, chosen: Sequence[Chosen], parts: dict[PartKey, StagedPart]) -> list[PartKey]:
    keys: list[PartKey] = []
    for each in chosen:
        part = parts.get((each.part, each.attempt))
        records, messages = (0, 0) if part is None else (len(part.records), part.message_count)
        if (records, messages) != (each.records, each.messages):
            raise IncompleteError(
                txn,
                f"part {each.part} attempt {each.attempt} has {records} records with {messages} messages, "
                f"not {each.records} with {each.messages}",
            )
        if part is not None:
            keys.append((each.part, each.attempt))
    if len({part for part, _ in keys}) != len(keys):
        raise IncompleteError(txn, "two attempts of one part were chosen")
    return keys


def _end(topic: LiveTopic) -> int:
    assert topic.log is not None, "ephemeral topics are refused when they are staged"
    return topic.log.end
