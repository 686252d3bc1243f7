"""Transactions of all producers: staged, committed once, finished after a crash, or forgotten."""

import asyncio
import errno
import logging
import os
from collections.abc import Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.transactions.applying import find_applied
from nsqlake.nsqd.transactions.errors import (
    DecidedError,
    DifferentError,
    GapError,
    IncompleteError,
    NoRoomError,
    RefusedError,
    UnknownError,
)
from nsqlake.nsqd.transactions.figures import Figures
from nsqlake.nsqd.transactions.finishing import Finishing, log_of, run_on
from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.store import ChosenPart, Commit, Done, PartKey, TransactionStore
from nsqlake.nsqd.transactions.transaction import Transaction, check_chosen
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.logs import ALWAYS
from nsqlake.topiclog.topic_log import TopicLog
from nsqlake.wire.command_reader import Messages

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker

__all__ = ["Outcome", "State", "Transactions"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["open", "committed", "done", "unknown"]

# What is kept in memory of them is bounded.
MAX_OPEN = 10_000
MAX_RECORDS = 250_000  # staged by all of them
MAX_PRODUCERS = 100_000  # remembered at a time


class Outcome(NamedTuple):
    """`already`: it was committed before, so nothing was done. `lost`: messages that were damaged."""

    already: bool
    messages: int
    lost: int


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
        self._finishing = Finishing(broker, store, clock=clock, executor=executor)
        self._producers: dict[str, Done] = {}
        self._unreadable: dict[str, str] = {}  # producers whose files cannot be read, and why
        self.open: dict[TxnId, Transaction] = {}
        self._undone: dict[
            str, TxnId
        ] = {}  # by producer: committed, not in the logs yet; no two share a topic
        self._committing = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stalled: dict[TxnId, str] = {}  # why a committed one is not in the logs yet
        self._staged_bytes = self._staged_records = 0
        self._committed_count = self._expired_count = self._lost_messages = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    @property
    def failure(self) -> str:
        """What someone must look at, "" if nothing."""
        return next((f"TXN({name}): {reason}" for name, reason in self._unreadable.items()), "")

    @property
    def figures(self) -> Figures:
        return Figures(
            open=len(self.open),
            stalled=len(self._stalled),
            staged_bytes=self._staged_bytes,
            committed=self._committed_count,
            expired=self._expired_count,
            lost_messages=self._lost_messages,
        )

    @property
    def undone(self) -> list[TxnId]:
        """Those that are committed and not in the logs yet."""
        return sorted(self._undone.values())

    # Opening ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """What was left behind. Every log has to be shown to `hide` before anybody reads it."""
        found = self._store.open()
        self._producers, self._unreadable = found.producers, found.unreadable
        now_ns = self._clock.now_ns()
        for txn, stored in found.transactions.items():
            self.open[txn] = Transaction(stored.parts, stored.commit, used_ns=now_ns)
            if stored.commit is not None:
                self._undone[txn.producer] = txn
        self._staged_bytes = sum(each.nbytes for each in self.open.values())
        self._staged_records = sum(each.record_count for each in self.open.values())

    def hide(self, name: str, log: TopicLog, seen: int) -> None:
        """Find what the log of topic `name` holds of a committed transaction, and let nobody see it yet.

        What lies before the offset `seen` was seen before: then only the record of its end was lost.
        """
        for txn in self.undone:
            transaction = self.open[txn]
            place = transaction.commit.logs.get(name) if transaction.commit is not None else None
            if place is None:
                continue
            start = place[1] if place[0] == log.uuid.hex() else log.oldest
            applied, first = find_applied(txn, log.tags(start, log.end))
            transaction.applied[log.uuid] = applied
            if first is not None and first >= seen:
                log.hold(first)

    async def finish_committed(self) -> None:
        """Bring into the logs what was committed and is not there; what fails is tried again later."""
        for txn in self.undone:
            async with self._committing:
                if txn in self.open:
                    with suppress(NsqlakeError, OSError):  # which were logged
                        await self._finish(txn, self.open[txn])

    # Staging ------------------------------------------------------------------------------------------

    def state_of(self, txn: TxnId) -> State:
        """`open`, `committed` (not in the logs yet), `done` or `unknown`."""
        if self._done(txn) is not None:
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
        messages: Messages,
        defer_ms: int = 0,
        owner: str = "",
    ) -> bool:
        """Keep one MPUB for later; whether that was needed. Raises TransactionError and OSError."""
        self._check_readable(txn)
        if self._is_decided(txn):
            return False
        transaction = self.open.get(txn) or Transaction(owner=owner)
        transaction.check_changeable(txn, owner)
        transaction.used_ns = self._clock.now_ns()
        part = transaction.parts.get(key) or self._store.new_part(txn, key)
        if number < len(part.records):
            if not part.holds(number, topic, messages, defer_ms):
                raise DifferentError(txn, number=number)
            return False
        if number > len(part.records):
            raise GapError(txn, number=number, expected=len(part.records))
        self._check_room(txn, len(messages.records))
        if txn not in self.open:
            self._drop_older(txn)
        if not part.records:
            self._store.make_directory(txn)
        part.append(topic, messages, defer_ms)
        transaction.parts[key] = part
        self.open[txn] = transaction
        self._staged_bytes += part.records[-1].nbytes
        self._staged_records += 1
        return True

    def _done(self, txn: TxnId) -> Done | None:
        done = self._producers.get(txn.producer)
        return done if done is not None and txn.sequence <= done.sequence else None

    def _is_decided(self, txn: TxnId) -> bool:
        """Whether it, or a later one of its producer, happened or will."""
        undone = self._undone.get(txn.producer)
        return self._done(txn) is not None or (undone is not None and txn.sequence <= undone.sequence)

    def _drop_older(self, txn: TxnId) -> None:
        """A producer that goes on with another transaction has given up those it did not commit."""
        for other, each in list(self.open.items()):
            is_older = other.producer == txn.producer and other.sequence < txn.sequence
            if is_older and each.commit is None and not each.is_deciding:
                logger.info("TXN(%s): given up for %s bytes=%d", other, txn, each.nbytes)
                self._forget(other)

    def _check_readable(self, txn: TxnId) -> None:
        if txn.producer in self._unreadable:
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))

    def _check_room(self, txn: TxnId, nbytes: int) -> None:
        limit = self._options.max_txn_bytes
        if limit and self._staged_bytes + nbytes > limit:
            raise NoRoomError(txn, f"--max-txn-bytes is {limit}")
        if self._staged_records >= MAX_RECORDS:
            raise NoRoomError(txn, f"{MAX_RECORDS} requests are staged and not committed")
        if txn not in self.open and len(self.open) >= MAX_OPEN:
            raise NoRoomError(txn, f"{MAX_OPEN} transactions are not committed")
        self._check_producers(txn)
        self._check_space(nbytes)

    def _check_producers(self, txn: TxnId) -> None:
        if txn.producer not in self._producers and len(self._producers) >= MAX_PRODUCERS:
            raise NoRoomError(txn, f"{MAX_PRODUCERS} producers are remembered, see --txn-retention")

    def _check_space(self, nbytes: int) -> None:
        if self._store.files.free_bytes(self._store.data_path) < self._options.min_free_bytes + nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def abort(self, txn: TxnId, owner: str = "") -> None:
        """Forget what was staged. Raises DecidedError, BusyError and ForeignError."""
        self._check_readable(txn)
        if self._is_decided(txn):
            raise DecidedError(txn)
        transaction = self.open.get(txn)
        if transaction is not None:
            transaction.check_changeable(txn, owner)
            self._forget(txn)

    # Deciding -----------------------------------------------------------------------------------------

    async def commit(self, txn: TxnId, chosen: Sequence[ChosenPart], owner: str = "") -> Outcome:
        """All that the chosen attempts staged is in the logs, durable and visible when this returns.

        A transaction that was committed before is left as it is. After RefusedError, TopicLogError,
        CreationError or OSError it may have been decided, and then it happens as soon as it can: whoever
        commits it again waits for that. After any other TransactionError nothing has happened. All goes on
        if nobody waits for it.
        """
        self._check_readable(txn)
        if txn in self.open:
            self.open[txn].used_ns = self._clock.now_ns()
        return await asyncio.shield(self._spawn(self._commit(txn, chosen, owner)))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _commit(self, txn: TxnId, chosen: Sequence[ChosenPart], owner: str) -> Outcome:
        async with self._committing:
            done = self._done(txn)
            if done is not None:
                return Outcome(True, 0, done.lost if done.sequence == txn.sequence else 0)
            transaction = self.open.get(txn)
            if transaction is None:
                if chosen and not self._is_decided(txn):
                    raise UnknownError(txn)
                transaction = Transaction(owner=owner)
            transaction.check_changeable(txn, owner)
            await self._make_way(txn, transaction)
            if self._done(txn) is not None:  # a later one of its producer was decided before
                return Outcome(True, 0, 0)
            if transaction.commit is None:
                await self._decide(txn, transaction, chosen)
            return await self._finish(txn, transaction)

    async def _make_way(self, txn: TxnId, transaction: Transaction) -> None:
        """Finish first what is committed for the same producer or topics, or fail for the same reason."""
        topics = transaction.topics
        for other in self.undone:
            each = self.open[other]
            if other != txn and (other.producer == txn.producer or topics & each.topics):
                await self._finish(other, each)

    async def _decide(self, txn: TxnId, transaction: Transaction, chosen: Sequence[ChosenPart]) -> None:
        keys = check_chosen(txn, chosen, transaction.parts)
        self._check_producers(txn)
        if self._broker.refusal:
            raise RefusedError(txn, self._broker.refusal)
        self.open[txn] = transaction
        transaction.is_deciding = True
        try:
            await self._record(txn, transaction, keys)
        finally:
            transaction.is_deciding = False
            if transaction.commit is not None:
                self._undone[txn.producer] = txn
            elif not transaction.parts:
                del self.open[txn]

    async def _record(self, txn: TxnId, transaction: Transaction, keys: list[PartKey]) -> None:
        parts = [transaction.parts[key] for key in keys]
        names = sorted({name for part in parts for name in part.topics})
        topics = [await self._open_topic(txn, name) for name in names]
        self._check_space(sum(part.nbytes for part in parts))  # it will be there twice for a while
        chosen = [
            ChosenPart(*key, len(part.records), part.message_count)
            for key, part in zip(keys, parts, strict=True)
        ]
        logs = {topic.name: (topic.core.log.uuid.hex(), log_of(topic).end) for topic in topics}
        commit = Commit(chosen, logs, self._clock.now_ns())
        await run_on(self._executor, lambda: self._settle_parts(txn, keys, parts))
        try:
            await run_on(self._executor, lambda: self._store.write_commit(txn, commit))
        except OSError:
            if self._store.has_commit(txn):
                # The next start may find it, so it is to happen.
                transaction.commit, transaction.is_recorded = commit, False
                self._stalled[txn] = ""
            raise
        transaction.commit = commit

    async def _open_topic(self, txn: TxnId, name: str) -> LiveTopic:
        topic = await self._broker.open_topic(name)
        if topic.core.is_closed or topic.failure:
            raise RefusedError(txn, f"{topic}: {topic.failure or 'being deleted'}")
        return topic

    def _settle_parts(self, txn: TxnId, keys: list[PartKey], parts: list[StagedPart]) -> None:
        """On another thread: all that was staged is on the disk as it came, or IncompleteError, OSError."""
        self._store.sync_parts(txn, parts)
        for (part, attempt), staged in zip(keys, parts, strict=True):
            damaged = staged.first_damaged()
            if damaged is not None:
                staged.is_lost = True
                raise IncompleteError(
                    txn, f"part {part} attempt {attempt}: record {damaged.number} is damaged on the disk"
                )

    # Finishing ----------------------------------------------------------------------------------------

    async def _finish(self, txn: TxnId, transaction: Transaction) -> Outcome:
        """Everything into the logs, durable; then nothing of it twice; then visible."""
        commit = transaction.commit
        assert commit is not None
        try:
            topics = await self._finishing.apply(txn, transaction, commit)
            messages = sum(sum(transaction.applied[log_of(topic).uuid].values()) for topic in topics)
            done = Done(txn.sequence, self._clock.now_ns(), commit.message_count - messages)
            await run_on(self._executor, lambda: self._store.write_done(txn.producer, done))
        except (NsqlakeError, OSError) as error:
            self._stall(txn, error)
            raise
        self._finishing.release(topics)
        self._conclude(txn, done)
        logger.info("TXN(%s): committed messages=%d topics=%d", txn, messages, len(topics))
        return Outcome(False, messages, done.lost)

    def _stall(self, txn: TxnId, error: Exception) -> None:
        if self._broker.is_exiting:
            logger.info("TXN(%s): committed, comes into the logs at the next start", txn)
        elif self._stalled.get(txn) != str(error):
            logger.error("TXN(%s): committed, not in the logs yet, will be tried again: %s", txn, error)
        self._stalled[txn] = str(error)

    def _conclude(self, txn: TxnId, done: Done) -> None:
        self._producers[txn.producer] = done
        self._undone.pop(txn.producer, None)
        self._committed_count += 1
        if done.lost:
            self._lost_messages += done.lost
            self._store.keep_damaged(txn)
            logger.error(
                "TXN(%s): damaged before it came to the logs, kept aside lost_messages=%d",
                txn,
                done.lost,
                extra=ALWAYS,
            )
        self._forget(txn)
        self._drop_older(txn)

    # Forgetting ---------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Once in a while: finish what could not be finished, forget what nobody commits."""
        if self._stalled and not self.is_busy and not self._broker.is_exiting:
            self._spawn(self.finish_committed())
        now_ns = self._clock.now_ns()
        for txn, transaction in list(self.open.items()):
            is_old = now_ns - transaction.used_ns > self._options.txn_timeout_ns
            if is_old and transaction.commit is None and not transaction.is_deciding:
                logger.warning("TXN(%s): never committed, dropped bytes=%d", txn, transaction.nbytes)
                self._expired_count += 1
                self._forget(txn)
        self._forget_producers(now_ns)

    def _forget_producers(self, now_ns: int) -> None:
        busy = {txn.producer for txn in self.open}
        for producer, done in list(self._producers.items()):
            if producer not in busy and now_ns - done.used_ns > self._options.txn_retention_ns:
                del self._producers[producer]
                self._remove(self._store.hide_producer(producer))

    def _forget(self, txn: TxnId) -> None:
        transaction = self.open.pop(txn)
        self._stalled.pop(txn, None)
        self._staged_bytes -= transaction.nbytes
        self._staged_records -= transaction.record_count
        self._remove(self._store.hide(txn))

    def _remove(self, hidden: str | None) -> None:
        if hidden is not None:
            self._executor.submit(self._store.remove, hidden)
