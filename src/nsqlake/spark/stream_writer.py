"""`df.writeStream.format("nsq")`: exactly once through the brokers' transactions, or at least once.

A task stages its rows on one node. When all have, the driver writes down which attempts count, and tells the
nodes to publish them. Transactions are named after query and batch: what failed attempts staged is never
seen, and a batch that was decided is completed when Spark runs it again, whatever its rows are then.
"""

import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from nsqlake.spark.batch_writer import publish_all
from nsqlake.spark.decisions import Decision, DecisionFile, StagedPart
from nsqlake.spark.encode import Mpub, encode_batch
from nsqlake.spark.errors import NodeError, WriteError
from nsqlake.spark.failover import Failover
from nsqlake.spark.node_transaction import NodeTransaction
from nsqlake.spark.options import EXACTLY_ONCE, WriteOptions

__all__ = ["NsqStreamWriter", "StagedMessage"]

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 300.0  # the brokers wait for their disks
ABORT_TIMEOUT_S = 5.0
MAX_THREADS = 16


@dataclass
class StagedMessage(WriterCommitMessage):
    """What one attempt at a partition has staged: nothing if the batch is decided already, or has no rows."""

    txn: str
    staged: StagedPart | None = None
    ignored_rows: int = 0


class NsqStreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every batch, and again for its commit. `decided` is the last transaction that was."""

    def __init__(self, options: WriteOptions, nodes: Sequence[str], decided: str = "") -> None:
        self._options, self._nodes, self._decided = options, tuple(nodes), decided

    # On the executors ----------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.delivery != EXACTLY_ONCE:
            return publish_all(iterator, self._options, self._nodes)
        txn = _txn_of_task()
        if txn == self._decided:
            return StagedMessage(txn, ignored_rows=sum(batch.num_rows for batch in iterator))
        return StagedMessage(txn, self._stage_all(txn, iterator))

    def _stage_all(self, txn: str, batches: Iterator[pa.RecordBatch]) -> StagedPart | None:
        staged = transaction = None
        for batch in batches:
            for mpub in encode_batch(batch, self._options.topic, self._options.request_bytes):
                if staged is None or transaction is None:
                    transaction, staged = self._begin(txn, mpub)
                else:
                    _stage(transaction, staged, mpub)
                staged = replace(
                    staged, records=staged.records + 1, messages=staged.messages + mpub.message_count
                )
        return staged

    def _begin(self, txn: str, mpub: Mpub) -> tuple[NodeTransaction, StagedPart]:
        """Stage the first request of a partition on the first node that takes it."""
        context = TaskContext.get()
        assert context is not None
        part, access = context.partitionId(), self._options.access

        def stage(node: str) -> tuple[NodeTransaction, StagedPart]:
            # Spark counts attempts anew after a restart; what an earlier one staged must not count as ours.
            staged = StagedPart(node, part, secrets.randbits(62))
            NodeTransaction(node, txn, replace(access, retries=0)).stage(staged, mpub)
            return NodeTransaction(node, txn, access), staged

        failover = Failover(self._nodes, first=part + context.attemptNumber(), retries=access.retries)
        return failover.run(stage)

    # On the driver -------------------------------------------------------------------------------------

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        messages_of_ours = [message for message in messages if isinstance(message, StagedMessage)]
        if not messages_of_ours:
            return
        txn = messages_of_ours[0].txn
        parts = tuple(message.staged for message in messages_of_ours if message.staged is not None)
        file = DecisionFile(self._options.checkpoint)
        decision = file.read()
        if decision is None or decision.txn != txn:
            if not parts:
                return
            decision = Decision(txn, parts)
            self._on_nodes(decision, NodeTransaction.require)
            file.write(decision)
        else:
            _compare(decision, sum(message.ignored_rows for message in messages_of_ours))
        self._on_nodes(decision, NodeTransaction.commit)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Only tidies up: what is not committed expires by itself. What is decided has to stay."""
        txns = {message.txn for message in messages if isinstance(message, StagedMessage)}
        access = replace(self._options.access, timeout_s=ABORT_TIMEOUT_S, retries=0)
        for txn in txns - {self._decided}:
            for node in self._nodes:
                try:
                    NodeTransaction(node, txn, access).abort()
                except NodeError as error:
                    logger.warning("SINK(%s): not aborted on %s: %s", txn, node, error.reason)

    def _on_nodes(
        self, decision: Decision, call: Callable[[NodeTransaction, Sequence[StagedPart]], None]
    ) -> None:
        """On all at once, and on each whatever the others say. Raises WriteError."""
        timeout_s = max(self._options.access.timeout_s, COMMIT_TIMEOUT_S)
        access = replace(self._options.access, timeout_s=timeout_s)
        by_node: Mapping[str, list[StagedPart]] = defaultdict(list)
        for part in decision.parts:
            by_node[part.node].append(part)
        with ThreadPoolExecutor(min(len(by_node), MAX_THREADS)) as pool:
            calls = {
                node: pool.submit(call, NodeTransaction(node, decision.txn, access), parts)
                for node, parts in by_node.items()
            }
        failures = {node: _failure(each.exception()) for node, each in calls.items() if each.exception()}
        if failures:
            raise WriteError.of_nodes(failures)


def _txn_of_task() -> str:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    query = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    assert query, "Spark names the query"
    assert batch_id, "Spark names the batch"
    return f"{query}.{batch_id}"


def _compare(decision: Decision, row_count: int) -> None:
    message_count = sum(part.messages for part in decision.parts)
    if row_count != message_count:
        logger.warning(
            "SINK(%s): has other rows than when it was published, which are ignored messages=%d rows=%d",
            decision.txn,
            message_count,
            row_count,
        )


def _stage(transaction: NodeTransaction, staged: StagedPart, mpub: Mpub) -> None:
    try:
        transaction.stage(staged, mpub)
    except NodeError as error:
        raise WriteError(error.node, error.reason) from error


def _failure(error: BaseException | None) -> str:
    if isinstance(error, NodeError | WriteError):
        return error.reason
    raise error or AssertionError
