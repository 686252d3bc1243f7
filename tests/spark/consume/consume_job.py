"""A streaming job in a process of its own, so that it can be killed: a channel to parquet files."""

import json
import sys
from typing import Any


def run(job: dict[str, Any]) -> None:
    from nsqlake.spark import build_session

    spark = build_session("consume job", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.format("nsq").options(**job["options"]).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", job["checkpoint"])
    writer.start(job["table"]).awaitTermination()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
