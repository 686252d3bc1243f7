"""`mode=consume`: at least once from any nsqd. Offsets are numbers of files in the write-ahead folder."""

import logging
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from nsqlake.client import Message
from nsqlake.spark.consume.intake import DEFAULT_BATCH, Intake
from nsqlake.spark.consume.wal_folder import WalFolder
from nsqlake.spark.errors import DataLossError
from nsqlake.spark.options import COLUMNS, ReadOptions
from nsqlake.spark.schema import arrow_schema

__all__ = ["ConsumeReader", "WalPartition"]

logger = logging.getLogger(__name__)

ROWS_PER_BATCH = 10_000
WAIT_S = 0.2  # for a first message, before Spark is told that there is nothing new
QUIET_S = 2.0  # the same for who wants all there is: nsqd cannot say that there is no more


class WalPartition(InputPartition):
    """One file of the folder."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class ConsumeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes messages on the driver; tasks read what it has written down."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._folder = WalFolder(options.wal_dir)
        self._intake: Intake | None = None
        self._until_ns: int | None = None  # AvailableNow: messages published later are for another run
        self._is_over = False

    def __reduce__(self) -> tuple[type["ConsumeReader"], tuple[ReadOptions]]:
        return ConsumeReader, (self._options,)

    # Spark calls these on the driver, one after the other ----------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self._options.max_messages or DEFAULT_BATCH)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"wal": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._until_ns = time.time_ns()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        last = start["wal"]
        if self._is_over:
            self.commit(start)
            self.stop()  # Spark does not, and the Go nsqd would wait for what is in flight
            return start
        intake = self._intake or self._begin(last)
        # Spark asks for the next batch when the one before is in its commit log. Its `commit` comes later:
        # with the next batch, if there ever is one.
        self._settle(last)
        messages = self._next_batch(intake, last + 1, limit)
        if self._until_ns is not None:
            self._is_over = all(message.timestamp_ns > self._until_ns for message in messages)
        if not messages:
            return self.latestOffset(start, limit) if self._is_over else start
        self._folder.write(last + 1, list(_batches(messages)))
        return {"wal": last + 1}

    def _begin(self, last: int) -> Intake:
        self._folder.open()
        # No batch has ever had them: nsqd delivers their messages again.
        self._folder.remove_after(last)
        intake = Intake(self._options)
        for number in self._folder.numbers():
            intake.remember(number, self._folder.read_keys(number))
        intake.start()
        self._intake = intake
        return intake

    def _next_batch(self, intake: Intake, number: int, limit: ReadLimit) -> list[Message]:
        if isinstance(limit, ReadMaxRows):
            most, wait_s = limit.max_rows, WAIT_S if self._until_ns is None else QUIET_S
        else:  # trigger `once`
            most, wait_s = DEFAULT_BATCH, QUIET_S
        return intake.next_batch(number, most, self._options.max_bytes, wait_s=wait_s)

    def _settle(self, last: int) -> None:
        if self._intake is not None:
            self._folder.remove(self._intake.settle(last))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        wanted, there = range(start["wal"] + 1, end["wal"] + 1), set(self._folder.numbers())
        gone = [number for number in wanted if number not in there]
        if gone:
            self._report_loss(gone)
        return [WalPartition(number) for number in wanted if number in there]

    def _report_loss(self, gone: list[int]) -> None:
        error = DataLossError(
            self._options.topics[0],
            ",".join(self._options.access.nsqd or self._options.access.lookupd),
            f"files {gone[0]} to {gone[-1]} of walDir {self._folder.path}, which were to be read, are gone",
        )
        if self._options.fail_on_data_loss:
            raise error
        logger.warning("%s", error)

    def commit(self, end: dict[str, int]) -> None:
        self._settle(end["wal"])

    def stop(self) -> None:
        """Not always called; what is left undone then, nsqd does when the connection ends."""
        if self._intake is not None:
            self._intake.close()
            self._intake = None
            self._folder.close()

    # On the executors ----------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, WalPartition):
            for batch in self._folder.read(partition.number):
                yield batch.select(list(self._options.columns))


def _batches(messages: Sequence[Message]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(COLUMNS)
    for start in range(0, len(messages), ROWS_PER_BATCH):
        rows = messages[start : start + ROWS_PER_BATCH]
        stamps = np.array([message.timestamp_ns // 1000 for message in rows], np.int64)
        columns = {
            "body": pa.array([message.body for message in rows], pa.binary()),
            "id": pa.array([message.id.decode() for message in rows]),
            "offset": pa.nulls(len(rows), pa.int64()),  # an nsqd without a log has none
            "timestamp": pa.array(stamps).view(pa.timestamp("us", "UTC")),
            "topic": pa.repeat(pa.scalar(rows[0].topic), len(rows)),
            "node": pa.array([message.nsqd_address for message in rows]),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS], schema=schema)
