"""A job in a process of its own, for a cluster or for Spark Connect: a topic to a topic, and read back."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(job: dict[str, Any]) -> "SparkSession":
    from nsqlake.spark import build_session

    if job["remote"]:
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(job["remote"]).getOrCreate()
    return build_session("cluster job", master=job["master"], conf=job["conf"])


def copy(spark: "SparkSession", job: dict[str, Any]) -> None:
    rows = spark.readStream.format("nsq").options(**job["source"]).load().select("body")
    writer = rows.writeStream.format("nsq").options(**job["sink"]).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))


def look(spark: "SparkSession", job: dict[str, Any]) -> dict[str, Any]:
    """How many there are, their checksum, and how many workers of Spark have read them."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    frame = spark.read.format("nsq").options(**job["read_back"]).load()
    summed = frame.agg(F.count("*").alias("count"), F.sum(F.crc32("body")).alias("crc32")).first()
    pids = frame.select("offset").mapInPandas(count_process, "pid long").distinct().count()
    assert summed is not None
    return {"count": summed["count"], "crc32": summed["crc32"], "processes": pids}


def count_process(frames: Any) -> Any:
    import os

    import pandas as pd

    for _ in frames:
        yield pd.DataFrame({"pid": [os.getppid()]})


def run(job: dict[str, Any]) -> None:
    spark = session(job)
    copy(spark, job)
    Path(job["result"]).write_text(json.dumps(look(spark, job)))
    spark.stop()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
