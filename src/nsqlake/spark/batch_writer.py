"""`df.write.format("nsq")`: at least once, over several nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from nsqlake.spark.encode import encode_batch
from nsqlake.spark.options import WriteOptions
from nsqlake.spark.publishing import FailoverPublisher

__all__ = ["NsqBatchWriter", "PublishedMessage", "publish_all"]


@dataclass
class PublishedMessage(WriterCommitMessage):
    """How many messages a task has published."""

    message_count: int


class NsqBatchWriter(DataSourceArrowWriter):
    """Tasks start at different nodes, and go on with another when theirs fails."""

    def __init__(self, options: WriteOptions, nodes: Sequence[str]) -> None:
        self._options, self._nodes = options, tuple(nodes)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return publish_all(iterator, self._options, self._nodes)


def publish_all(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, nodes: Sequence[str]
) -> PublishedMessage:
    """Publish every row, at least once."""
    context = TaskContext.get()
    publisher = FailoverPublisher(nodes, options.access, first=context.partitionId() if context else 0)
    for batch in batches:
        for mpub in encode_batch(batch, options.topic, options.request_bytes):
            publisher.publish(mpub)
    return PublishedMessage(publisher.message_count)
