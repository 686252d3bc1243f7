"""A committed transaction on its way into the logs: read back in portions, appended in slices, hidden."""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, TypeVar

from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.transactions.applying import Applied, Entry, append_hidden, batches, plan_work
from nsqlake.nsqd.transactions.errors import RefusedError
from nsqlake.nsqd.transactions.store import Commit, TransactionStore
from nsqlake.nsqd.transactions.transaction import Transaction
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.pace import run_in_slices
from nsqlake.topiclog.topic_log import TopicLog
from nsqlake.wire.command_reader import Messages

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker

__all__ = ["Finishing", "log_of", "run_on"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_FAILED_READS = 10  # of one part; after that it counts as damaged


async def run_on(executor: Executor, job: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(executor, job)


def log_of(topic: LiveTopic) -> TopicLog:
    assert topic.log is not None, "ephemeral topics are refused when they are staged"
    return topic.log


class Finishing:
    """For one transaction after the other."""

    def __init__(
        self, broker: "Broker", store: TransactionStore, *, clock: Clock, executor: Executor
    ) -> None:
        self._broker, self._store, self._clock, self._executor = broker, store, clock, executor

    async def apply(self, txn: TxnId, transaction: Transaction, commit: Commit) -> list[LiveTopic]:
        """All that can be read of it is in the logs, durable and hidden, when this returns.

        Raises RefusedError when the daemon stops, TopicLogError, CreationError and OSError; then it may be
        called again, and does the rest.
        """
        if not transaction.is_recorded:
            await run_on(self._executor, lambda: self._store.write_commit(txn, commit))
            transaction.is_recorded = True
        work = await run_on(self._executor, lambda: plan_work(commit, transaction.parts))
        topics = [
            await self._append(txn, transaction, name, work.get(name, [])) for name in sorted(commit.logs)
        ]
        for topic in topics:
            synced = topic.wait_synced()
            if synced is not None:
                await synced
        return topics

    async def _append(self, txn: TxnId, transaction: Transaction, name: str, work: list[Entry]) -> LiveTopic:
        assert transaction.commit is not None
        topic = await self._broker.open_topic(name, while_draining=True)
        self._broker.turn.flush(topic)
        applied = transaction.applied.setdefault(log_of(topic).uuid, Applied())
        for batch in await run_on(self._executor, lambda: list(batches(work, applied))):
            if self._broker.is_exiting:
                raise RefusedError(txn, self._broker.refusal)
            found = await self._read(txn, transaction, batch)
            await run_in_slices(
                append_hidden(
                    txn,
                    topic,
                    found,
                    applied,
                    at_ns=transaction.commit.at_ns,
                    timestamp_ns=self._clock.timestamp_ns(),
                )
            )
        return topic

    async def _read(
        self, txn: TxnId, transaction: Transaction, batch: list[Entry]
    ) -> list[tuple[Entry, Messages]]:
        """What can be read of a batch. What is damaged is left out, said, and counted at the end."""
        key, part, _ = batch[0]
        try:
            found = await run_on(self._executor, lambda: part.read([entry.record for entry in batch]))
        except OSError as error:
            transaction.failed_reads[key] += 1
            if transaction.failed_reads[key] < _MAX_FAILED_READS:
                raise
            logger.error("TXN(%s): cannot be read file=%s: %s", txn, os.path.basename(part.path), error)
            return []
        whole: list[tuple[Entry, Messages]] = []
        for entry, messages in zip(batch, found, strict=True):
            if messages is not None:
                whole.append((entry, messages))
            else:
                logger.error(
                    "TXN(%s): damaged record file=%s record=%d messages=%d",
                    txn,
                    os.path.basename(part.path),
                    entry.record.number,
                    entry.record.message_count,
                )
        return whole

    def release(self, topics: list[LiveTopic]) -> None:
        """Let everybody see what was hidden, in all topics at once."""
        now_ns = self._clock.now_ns()
        for topic in topics:
            if not topic.core.is_closed:
                log_of(topic).release()
                topic.core.flow(now_ns)
                self._broker.turn.flowed(topic)
