"""`spark.readStream.format("nsq")`: every log from where the query is to where it ends, batch by batch."""

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nsqlake.spark.advancing import starts_of
from nsqlake.spark.log_partitions import plan_partitions, read_partition
from nsqlake.spark.logs import Logs
from nsqlake.spark.offsets import Positions, QueryOffset
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.stream_planner import StreamPlanner

__all__ = ["NsqStreamReader"]

logger = logging.getLogger(__name__)

_ANY_NUMBER = (1 << 63) - 1


class NsqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance plans on the driver; another one, sent by value to the tasks, only reads."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def __reduce__(self) -> tuple[type["NsqStreamReader"], tuple[ReadOptions]]:
        return NsqStreamReader, (self._options,)

    # Spark calls these on the driver, one after the other ----------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Never ReadAllAvailable if there is any limit: that is what trigger `once` passes."""
        if self._options.max_messages is None and self._options.max_bytes is None:
            return ReadAllAvailable()
        return ReadMaxRows(self._options.max_messages or _ANY_NUMBER)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Always the same: where reading begins is in the offset that the first batch ends with."""
        return QueryOffset.not_begun().encode()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begun, options = QueryOffset.decode(start), self._options
        is_limited = isinstance(limit, ReadMaxRows)
        max_messages = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._planner.next_end(
            begun,
            max_messages=None if max_messages == _ANY_NUMBER else max_messages,
            max_bytes=options.max_bytes if is_limited else None,
        )
        return end.encode()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._planner.stop_at_present()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """As `latestOffset` has just seen it: to ask again could fail, and this is for statistics only."""
        newest = self._planner.newest
        return None if newest is None else QueryOffset(newest, None).encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ended = QueryOffset.decode(start), QueryOffset.decode(end)
        starts = starts_of(begun, ended)
        new = Positions((key, end) for key, end in ended.positions.items() if starts[key].offset < end.offset)
        places = self._planner.find_again(new)
        return plan_partitions(
            Logs(self._options),
            self._options,
            Positions((places[key], starts[key]) for key in new),
            Positions((places[key], end) for key, end in new.items()),
        )

    def commit(self, end: dict[str, Any]) -> None:
        self._planner.commit(QueryOffset.decode(end).positions)

    def stop(self) -> None:
        """Nothing to do: Spark does not always call it, so nothing may depend on it."""

    @cached_property
    def _planner(self) -> StreamPlanner:
        if not self._options.channel:
            logger.warning(
                "no option channel: retention does not wait for this query, and nodes do not show its lag"
            )
        return StreamPlanner(self._options)

    # On the executors ----------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)
