"""`spark.read.format("nsq")`: a fixed range of every log."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from nsqlake.spark.errors import DataLossError
from nsqlake.spark.log_partitions import plan_partitions, read_partition
from nsqlake.spark.logs import LogBounds, Logs, require_topics
from nsqlake.spark.offsets import LogPosition, Positions, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.progress import ProgressChannel
from nsqlake.spark.starting import resolve_bound

__all__ = ["NsqBatchReader"]


class NsqBatchReader(DataSourceReader):
    """Planned on the driver, read on the executors, to which it is sent by value."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options, logs = self._options, Logs(self._options)
        found = logs.bounds(options.starting.timestamp_ns)
        require_topics(found, options)
        # An end by time has to be asked for by itself: an answer is about one time.
        until = found if options.ending.timestamp_ns is None else logs.bounds(options.ending.timestamp_ns)
        starts, ends = Positions(), Positions()
        for key, bounds in found.items():
            start = self._start(key, bounds)
            end = resolve_bound("endingOffsets", options.ending, key, until.get(key, bounds), _no_cursor)
            starts[key] = LogPosition(start, bounds.log)
            ends[key] = LogPosition(max(start, end), bounds.log)
        return list(plan_partitions(logs, options, starts, ends))

    def _start(self, key: SourceKey, bounds: LogBounds) -> int:
        options = self._options
        channel = ProgressChannel(options.channel, options.access)
        try:
            return resolve_bound("startingOffsets", options.starting, key, bounds, channel.cursor)
        except DataLossError:
            if options.fail_on_data_loss:
                raise
            return bounds.first

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)


def _no_cursor(key: SourceKey, first: int) -> int:
    raise AssertionError("an end is never that of a channel")
