"""`spark.readStream.format("nsq")`: every log from where the query is to where it ends, batch by batch."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nsqlake.spark.advancing import Advance, advance, starts_of
from nsqlake.spark.errors import DataLossError
from nsqlake.spark.log_partitions import plan_partitions, read_partition
from nsqlake.spark.logs import LogBounds, Logs
from nsqlake.spark.offsets import LogPosition, Positions, QueryOffset, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.planning import cut_to_limits
from nsqlake.spark.progress import ProgressChannel
from nsqlake.spark.starting import resolve_bound

__all__ = ["NsqStreamReader"]

logger = logging.getLogger(__name__)


class NsqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance plans on the driver; others, sent by value, only `read`."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._target: Positions | None = None  # where an availableNow query stops

    # Spark calls these on the driver, one after the other ----------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing is known yet. Spark asks again when the first batch is recovered, so this never changes;
        where reading began is in the offset that the first batch ends with."""
        return QueryOffset(Positions(), Positions()).encode()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begun = QueryOffset.decode(start)
        found = self._advance(begun, Logs(self._options))
        ends = self._limited(found, limit)
        return QueryOffset(ends, found.init).encode()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        bounds = Logs(self._options).bounds()
        self._target = Positions((key, LogPosition(each.next, each.log)) for key, each in bounds.items())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        bounds = Logs(self._options).bounds()
        ends = Positions((key, LogPosition(each.next, each.log)) for key, each in bounds.items())
        return QueryOffset(ends, Positions()).encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ended = QueryOffset.decode(start), QueryOffset.decode(end)
        logs = Logs(self._options)
        starts, ends = self._kept(logs, starts_of(begun, ended), ended.positions)
        return list(plan_partitions(logs, self._options, starts, ends))

    def commit(self, end: dict[str, Any]) -> None:
        self._channel.commit(QueryOffset.decode(end).positions)

    def stop(self) -> None:
        """Nothing to do: Spark does not always call it, so nothing may depend on it."""

    # On the executors ----------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)

    # ---------------------------------------------------------------------------------------------------

    @property
    def _channel(self) -> ProgressChannel:
        channel: ProgressChannel | None = self.__dict__.get("_made_channel")
        if channel is None:
            channel = self._made_channel = ProgressChannel(self._options.channel, self._options.access)
        return channel

    def _advance(self, begun: QueryOffset, logs: Logs) -> Advance:
        """Where we may go from `begun`, with a channel on every log that is new to us."""
        is_first = not begun.init
        bounds = logs.bounds(self._options.starting.timestamp_ns if is_first else None)

        def begin(key: SourceKey, found: LogBounds) -> int:
            # A log that appears later is read from its beginning: nobody could name its offset before.
            if not is_first:
                return found.first
            return resolve_bound("startingOffsets", self._options.starting, key, found, self._channel.cursor)

        result = advance(begun, bounds, begin)
        for loss in result.losses:
            self._tell(loss.error())
        self._channel.ensure({key: at for key, at in result.starts.items() if key in bounds})
        return result

    def _limited(self, found: Advance, limit: ReadLimit) -> Positions:
        limits = Positions(found.limits)
        for key, stop in (self._target or {}).items():
            if key in limits and limits[key].log == stop.log:
                at = max(min(limits[key].offset, stop.offset), found.starts[key].offset)
                limits[key] = LogPosition(at, stop.log)
        max_messages = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        max_bytes = (
            None if isinstance(limit, ReadAllAvailable) and self._is_once() else self._options.max_bytes
        )
        if max_messages is None and max_bytes is None:
            return limits
        logs = Logs(self._options)
        new = {key: at for key, at in limits.items() if at.offset > found.starts[key].offset}
        sizes = {key: logs.sizes(key, found.starts[key].offset, at.offset) for key, at in new.items()}
        for key, end in cut_to_limits(sizes, max_messages=max_messages, max_bytes=max_bytes).items():
            limits[key] = LogPosition(end, limits[key].log)
        return limits

    def _is_once(self) -> bool:
        """Trigger once passes ReadAllAvailable although the default limit is another one."""
        return self._options.max_messages is not None

    def _kept(self, logs: Logs, starts: Positions, ends: Positions) -> tuple[Positions, Positions]:
        """Starts moved to what the logs still hold; logs that are gone are left out, if that is allowed."""
        bounds = logs.bounds() if any(starts[key] != ends[key] for key in ends) else {}
        kept_starts, kept_ends = Positions(), Positions()
        for key, end in ends.items():
            start, found = starts[key], bounds.get(key)
            if start.offset >= end.offset:
                continue
            if found is None or found.log != end.log:
                self._tell(
                    DataLossError(key.topic, key.node, f"offsets {start.offset} to {end.offset} are gone")
                )
                continue
            if start.offset < found.first:
                reason = f"offsets {start.offset} to {found.first} are no longer kept; see --retention-time"
                self._tell(DataLossError(key.topic, key.node, reason))
                start = LogPosition(min(found.first, end.offset), end.log)
            kept_starts[key], kept_ends[key] = start, end
        return kept_starts, kept_ends

    def _tell(self, loss: DataLossError) -> None:
        if self._options.fail_on_data_loss:
            raise loss
        logger.error("%s", loss)
