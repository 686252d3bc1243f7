"""A streaming job in a process of its own, so that it can be killed: files to a topic, exactly once."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def fail_twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In the first two batches, hands on some rows, then breaks, unless this is the third attempt."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    is_bad = context.attemptNumber() < 2 and context.getLocalProperty("streaming.sql.batchId") in ("0", "1")
    for number, batch in enumerate(batches):
        if number and is_bad:
            raise RuntimeError("this attempt was to fail")
        yield batch


def run(job: dict[str, Any]) -> None:
    from nsqlake.spark import build_session

    spark = build_session("sink job", master="local[2,3]", conf=job["conf"])
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.schema("body string").option("maxFilesPerTrigger", "1").parquet(job["input"])
    if job["fails_twice"]:
        rows = rows.mapInArrow(fail_twice, "body string")
    writer = rows.writeStream.format("nsq").trigger(availableNow=True).options(**job["options"])
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
