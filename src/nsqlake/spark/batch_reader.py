"""`spark.read.format("nsq")`: a fixed range of every log."""

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from nsqlake.spark.errors import DataLossError
from nsqlake.spark.log_partitions import plan_partitions, read_partition
from nsqlake.spark.logs import Logs, require_topics
from nsqlake.spark.offsets import LogBounds, LogPosition, Positions, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.progress import ProgressChannel
from nsqlake.spark.starting import check_keys, resolve_bound

__all__ = ["NsqBatchReader"]

logger = logging.getLogger(__name__)


class NsqBatchReader(DataSourceReader):
    """Planned on the driver, read on the executors, to which it is sent by value."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options, logs = self._options, Logs(self._options)
        bounds = logs.survey().bounds
        require_topics(bounds, options)
        check_keys("startingOffsets", options.starting, bounds)
        check_keys("endingOffsets", options.ending, bounds)
        places = _BatchPlaces(logs, options)
        starts, ends = Positions(), Positions()
        for key, found in bounds.items():
            start = self._resolve("startingOffsets", key, found, places)
            end = self._resolve("endingOffsets", key, found, places)
            starts[key] = LogPosition(start, found.log)
            ends[key] = LogPosition(max(start, end), found.log)
        return plan_partitions(logs, options, starts, ends)

    def _resolve(self, option: str, key: SourceKey, found: LogBounds, places: "_BatchPlaces") -> int:
        bound = self._options.starting if option == "startingOffsets" else self._options.ending
        try:
            return resolve_bound(option, bound, key, found, places)
        except DataLossError as loss:
            if self._options.fail_on_data_loss:
                raise
            logger.error("%s", loss)
            return found.first

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)


class _BatchPlaces:
    def __init__(self, logs: Logs, options: ReadOptions) -> None:
        self._logs, self._channel = logs, ProgressChannel(options.channel, options.access)

    def offset_at(self, key: SourceKey, timestamp_ns: int) -> int:
        return self._logs.offset_at(key, timestamp_ns)

    def cursor(self, key: SourceKey, first: int) -> int:
        return self._channel.cursor(key, first)
