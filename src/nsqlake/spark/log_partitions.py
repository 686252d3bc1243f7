"""Partitions of a read: plain values, sent to the tasks."""

import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from nsqlake.spark.logs import Logs
from nsqlake.spark.offsets import Positions, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.planning import LogRange, LogSizes, plan_ranges
from nsqlake.spark.range_reader import RangeReader
from nsqlake.spark.schema import arrow_schema

__all__ = ["LogPartition", "plan_partitions", "read_partition"]

BYTES_PER_PARTITION = 128 * 1024 * 1024
WORTH_SPLITTING = 1024 * 1024  # below it another task costs more than it saves


class LogPartition(InputPartition):
    """One range of one log."""

    def __init__(self, wanted: LogRange) -> None:
        super().__init__(tuple(wanted))
        self.wanted = wanted


def plan_partitions(
    logs: Logs, options: ReadOptions, starts: Positions, ends: Positions
) -> Sequence[LogPartition]:
    """Ranges of about equal size: as many as asked for, else enough for the cores of this machine."""
    sizes = {key: logs.sizes(key, starts[key].offset, ends[key].offset) for key in ends}
    uuids = {key: position.log for key, position in ends.items()}
    return [LogPartition(wanted) for wanted in plan_ranges(sizes, uuids, _wished(sizes, options))]


def _wished(sizes: Mapping[SourceKey, LogSizes], options: ReadOptions) -> int:
    total = sum(each.nbytes for each in sizes.values())
    if options.min_partitions is not None:
        return options.min_partitions
    cores = min(os.cpu_count() or 1, max(1, total // WORTH_SPLITTING))
    return max(cores, -(-total // BYTES_PER_PARTITION))


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, LogPartition):
        return  # what Spark makes of an empty list
    reader = RangeReader(
        partition.wanted,
        options.access,
        request_bytes=options.request_bytes,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    yield from reader.batches(arrow_schema(options.columns))
