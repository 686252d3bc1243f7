"""Partitions of a read: plain values, sent to the tasks."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from nsqlake.spark.errors import DataLossError
from nsqlake.spark.logs import Logs
from nsqlake.spark.nodes import ask_each
from nsqlake.spark.offsets import LogPosition, Positions, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.planning import LogRange, LogSizes, plan_parts
from nsqlake.spark.range_reader import RangeReader
from nsqlake.spark.schema import arrow_schema

__all__ = ["LogPartition", "plan_partitions", "read_partition"]

logger = logging.getLogger(__name__)

BYTES_PER_PARTITION = 128 * 1024 * 1024
WORTH_SPLITTING = 1024 * 1024  # below it another task costs more than it saves


class LogPartition(InputPartition):
    """Ranges that one task reads after each other."""

    def __init__(self, wanted: tuple[LogRange, ...]) -> None:
        super().__init__(tuple(map(tuple, wanted)))
        self.wanted = wanted


def plan_partitions(
    logs: Logs, options: ReadOptions, starts: Positions, ends: Positions
) -> list[InputPartition]:
    """Parts of about equal size: as many as asked for, else enough for the cores of this machine.

    Raises NodeError, and DataLossError unless that is allowed.
    """
    new = {key: starts[key] for key, end in ends.items() if starts[key].offset < end.offset}

    def measure(node: str) -> dict[SourceKey, LogSizes]:
        return {key: _sizes(logs, options, key, new[key], ends[key]) for key in new if key.node == node}

    measured = ask_each(sorted({key.node for key in new}), measure)
    sizes = {key: each for of_node in measured.values() for key, each in of_node.items()}
    uuids = {key: ends[key].log for key in sizes}
    return [LogPartition(part) for part in plan_parts(sizes, uuids, _wished(sizes, options))]


def _sizes(
    logs: Logs, options: ReadOptions, key: SourceKey, start: LogPosition, end: LogPosition
) -> LogSizes:
    try:
        return logs.sizes(key, LogPosition(start.offset, end.log), end.offset)
    except DataLossError as loss:
        if options.fail_on_data_loss:
            raise
        logger.error("%s", loss)
        resume = end.offset if loss.resume is None else min(loss.resume, end.offset)
        return logs.sizes(key, LogPosition(resume, end.log), end.offset)


def _wished(sizes: Mapping[SourceKey, LogSizes], options: ReadOptions) -> int:
    total = sum(each.nbytes for each in sizes.values())
    if options.min_partitions is not None:
        return options.min_partitions
    cores = min(os.cpu_count() or 1, max(1, total // WORTH_SPLITTING))
    return max(cores, -(-total // BYTES_PER_PARTITION))


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    # Spark makes a partition of its own of an empty list.
    wanted: Sequence[LogRange] = partition.wanted if isinstance(partition, LogPartition) else ()
    schema = arrow_schema(options.columns)
    for each in wanted:
        reader = RangeReader(
            each,
            options.access,
            request_bytes=options.request_bytes,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        yield from reader.batches(schema)
