"""`df.writeStream.format("nsq")`: exactly once through the brokers' transactions, or at least once.

A task stages its rows on the node of its partition; the commit of the batch makes the attempts that Spark
chose visible. Transactions are named after query and batch, so a batch that is run again changes nothing
on a node that has it, and what failed attempts staged is never seen.
"""

import json
import logging
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from nsqlake.spark.batch_writer import publish_all
from nsqlake.spark.encode import check_columns, encode_batch
from nsqlake.spark.errors import NodeError, WriteError
from nsqlake.spark.node_client import RefusedError, client_for
from nsqlake.spark.options import EXACTLY_ONCE, WriteOptions
from nsqlake.spark.sink_nodes import node_of

__all__ = ["NsqStreamWriter", "StagedMessage"]

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 300.0  # the brokers wait for their disks
ABORT_TIMEOUT_S = 5.0


@dataclass
class StagedMessage(WriterCommitMessage):
    """What one attempt of one partition has staged, and where."""

    txn: str
    node: str
    part: int
    attempt: int
    records: int
    messages: int


class NsqStreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every batch, and again for its commit."""

    def __init__(self, options: WriteOptions, nodes: Sequence[str]) -> None:
        self._options, self._nodes = options, tuple(nodes)

    # On the executors ----------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.delivery != EXACTLY_ONCE:
            return publish_all(iterator, self._options, self._nodes)
        return self._stage_all(iterator)

    def _stage_all(self, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        query = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        part = context.partitionId()
        # Spark counts attempts anew after a restart; what an earlier one staged must not count as ours.
        staged = StagedMessage(
            f"{query}.{batch_id}", node_of(part, self._nodes), part, secrets.randbits(62), 0, 0
        )
        client = client_for(staged.node, self._options.access)
        for batch in batches:
            check_columns(batch.schema, self._options.topic)
            for mpub in encode_batch(batch, self._options.topic):
                params = {
                    "txn": staged.txn,
                    "part": part,
                    "attempt": staged.attempt,
                    "number": staged.records,
                    "topic": mpub.topic,
                    "defer_ms": mpub.defer_ms,
                }
                try:
                    client.post_json("/txn/stage", params, mpub.body)
                except NodeError as error:
                    raise _write_error(error) from error
                staged.records += 1
                staged.messages += mpub.message_count
        return staged

    # On the driver -------------------------------------------------------------------------------------

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        access = replace(
            self._options.access, timeout_s=max(self._options.access.timeout_s, COMMIT_TIMEOUT_S)
        )
        for (node, txn), staged in _by_node(messages).items():
            parts = [
                {
                    "part": each.part,
                    "attempt": each.attempt,
                    "records": each.records,
                    "messages": each.messages,
                }
                for each in staged
                if each.records
            ]
            body = json.dumps({"parts": parts}).encode()
            try:
                client_for(node, access).post_json("/txn/commit", {"txn": txn}, body)
            except NodeError as error:
                raise _write_error(error) from error

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Only tidies up: what is not committed expires by itself."""
        access = replace(self._options.access, timeout_s=ABORT_TIMEOUT_S, retries=0)
        for node, txn in _by_node(messages):
            try:
                client_for(node, access).post_json("/txn/abort", {"txn": txn})
            except NodeError as error:
                logger.warning("transaction %s not aborted: %s", txn, error)


def _by_node(messages: Sequence[WriterCommitMessage | None]) -> dict[tuple[str, str], list[StagedMessage]]:
    found: dict[tuple[str, str], list[StagedMessage]] = defaultdict(list)
    for message in messages:
        if isinstance(message, StagedMessage):
            found[message.node, message.txn].append(message)
    return dict(sorted(found.items()))


def _write_error(error: NodeError) -> WriteError:
    if isinstance(error, RefusedError) and error.status == 404 and error.code == "NOT_FOUND":
        return WriteError(error.node, "knows no transactions; use delivery=at-least-once")
    return WriteError(error.node, error.reason)
