"""`mode=consume`: at least once from any nsqd. Offsets are numbers of files in the write-ahead folder."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from nsqlake.client import Message
from nsqlake.spark.consume.intake import DEFAULT_IN_FLIGHT, Intake
from nsqlake.spark.consume.wal_folder import WalFolder
from nsqlake.spark.errors import OptionError
from nsqlake.spark.options import COLUMNS, ReadOptions
from nsqlake.spark.schema import arrow_schema

__all__ = ["ConsumeReader", "WalPartition"]

ROWS_PER_BATCH = 10_000
WAIT_S = 0.2  # for a first message, before Spark is told that there is nothing new


class WalPartition(InputPartition):
    """One file of the folder."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class ConsumeReader(DataSourceStreamReader):
    """Takes messages on the driver; tasks read what it has written down."""

    def __init__(self, options: ReadOptions) -> None:
        if len(options.topics) != 1:
            raise OptionError("topic", ",".join(options.topics), "mode=consume takes exactly one topic")
        self._options = options
        self._folder = WalFolder(options.wal_dir)
        self._intake: Intake | None = None
        self._unfinished: dict[int, list[Message]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the options and the folder; the connection stays here."""
        return {"_options": self._options, "_folder": self._folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_intake": None, "_unfinished": {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"wal": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        intake = self._begin(start["wal"])
        intake.wait(WAIT_S)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else DEFAULT_IN_FLIGHT
        messages = intake.take(most, self._options.max_bytes)
        if not messages:
            return start
        number = max([start["wal"], *self._folder.numbers()]) + 1
        self._folder.write(number, list(_batches(messages)))
        self._unfinished[number] = messages
        return {"wal": number}

    def _begin(self, start: int) -> Intake:
        if self._intake is None:
            # Files behind the offset were never part of a batch: nsqd delivers their messages again.
            self._folder.remove([number for number in self._folder.numbers() if number > start])
            self._intake = Intake(self._options, self._folder.known_ids(start))
        return self._intake

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        numbers = [number for number in self._folder.numbers() if start["wal"] < number <= end["wal"]]
        return [WalPartition(number) for number in numbers]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, WalPartition):
            for batch in self._folder.read(partition.number):
                yield batch.select(list(self._options.columns))

    def commit(self, end: dict[str, int]) -> None:
        """Spark has these batches for good: finish their messages, then forget them."""
        done = [number for number in self._unfinished if number <= end["wal"]]
        for number in done:
            if self._intake is not None:
                self._intake.finish(self._unfinished.pop(number))
        self._folder.remove([number for number in done if number <= end["wal"]])

    def stop(self) -> None:
        if self._intake is not None:
            self._intake.close()


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
