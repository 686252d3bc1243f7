"""A driver that copies a topic into a parquet table until it is told to stop; killed by its test.

python -m tests.crash.spark_copy NODE TOPIC FOLDER
"""

import os
import sys
import time
from pathlib import Path

from nsqlake.spark import build_session
from tests.spark.conftest import JAVA_OPTIONS, make_slim_home


def main(node: str, topic: str, folder: Path) -> None:
    home = folder / f"home-{os.getpid()}"
    home.mkdir()
    os.environ["SPARK_HOME"] = str(make_slim_home(home))
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-memory 1g --driver-java-options '{JAVA_OPTIONS}' pyspark-shell"
    )
    # A task whose worker was killed is tried again.
    spark = build_session(master="local[2,4]", conf={"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    source = spark.readStream.format("nsq").options(
        nsqd=node, topic=topic, startingOffsets="earliest", channel="spark", columns="body"
    )
    frame = source.options(maxOffsetsPerTrigger="100000", minPartitions="4", maxRequestBytes="1000000").load()
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "table"))
    )
    while query.isActive and not (folder / "stop").exists():
        time.sleep(0.05)
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
