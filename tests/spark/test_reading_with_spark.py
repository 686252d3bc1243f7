"""`spark.read` and `spark.readStream` with `format("nsq")`, found without registration."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming import StreamingQuery

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_node import STALL, http_node
from tests.fakes.nsqd_process import wait_for
from tests.spark.support import (
    SMALL_FILES,
    ask,
    bounds,
    channel_depth,
    lookupd_of,
    lose_all,
    numbers,
    publish,
    tell_nodes,
)

pytestmark = pytest.mark.spark

NOWHERE = "127.0.0.1:1"
LIMIT_S = 60


@pytest.fixture(scope="module")
def nsqds() -> Iterator[tuple[NsqdFixture, NsqdFixture]]:
    with running_nsqd(max_bytes_per_file=SMALL_FILES) as one, running_nsqd() as other:
        yield one, other


@pytest.fixture(scope="module")
def node(nsqds: tuple[NsqdFixture, NsqdFixture]) -> str:
    return nsqds[0].http_address


@pytest.fixture(scope="module")
def other(nsqds: tuple[NsqdFixture, NsqdFixture]) -> str:
    return nsqds[1].http_address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[-60:]


def as_texts(**options: object) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def read(spark: SparkSession, **options: object) -> DataFrame:
    return spark.read.format("nsq").options(**as_texts(requestTimeout=10, retries=0, **options)).load()


def bodies(frame: DataFrame) -> list[bytes]:
    return [bytes(row["body"]) for row in frame.orderBy("offset").select("body").collect()]


# Batches ----------------------------------------------------------------------------------------------


def test_columns_are_as_documented(spark: SparkSession, node: str, topic: str) -> None:
    before = datetime.now(UTC)
    publish(node, topic, [b"hello"])
    frame = read(spark, nsqd=node, topic=topic)

    (row,) = frame.collect()

    assert frame.schema.simpleString() == (
        "struct<body:binary,id:string,offset:bigint,timestamp:timestamp,topic:string,node:string>"
    )
    peeked = ask(node, "GET", "/message/peek", topic=topic, offset=row["offset"], count=1)["messages"][0]
    assert (bytes(row["body"]), row["id"], row["topic"], row["node"]) == (b"hello", peeked["id"], topic, node)
    (stamp,) = frame.select(F.unix_micros("timestamp")).first() or ()
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=stamp)
    assert before - timedelta(seconds=1) < at < datetime.now(UTC)


def test_columns_can_be_chosen(spark: SparkSession, node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 2))
    first = bounds(node, topic)[0]

    rows = read(spark, nsqd=node, topic=topic, columns="offset,body").collect()

    assert rows == [Row(offset=first, body=bytearray(b"0")), Row(offset=first + 1, body=bytearray(b"1"))]


def test_another_schema_is_refused(spark: SparkSession, node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 2))

    with pytest.raises(PySparkException, match="option schema 'struct<value:string>': the columns are"):
        spark.read.format("nsq").schema("value string").options(nsqd=node, topic=topic).load().collect()


def test_several_topics_of_several_nodes(spark: SparkSession, node: str, other: str, topic: str) -> None:
    a, b = f"{topic}_a", f"{topic}_b"
    publish(node, a, numbers(0, 10))
    publish(other, a, numbers(10, 20))
    publish(other, b, numbers(20, 30))
    expected = {(node, a): 10, (other, a): 10, (other, b): 10}

    for options in (
        {"nsqd": f"{node},{other}", "topics": f"{a},{b}"},
        {"nsqd": f"{node},{other}", "topicPattern": f"{topic}_[ab]"},
    ):
        counts = read(spark, **options).groupBy("node", "topic").count().collect()
        assert {(row["node"], row["topic"]): row["count"] for row in counts} == expected


def test_nodes_are_found_by_lookupd(spark: SparkSession, node: str, other: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    publish(other, topic, numbers(10, 20))

    with lookupd_of(node, other) as lookupd:
        frame = read(spark, lookupd=f"{NOWHERE},{lookupd.address}", topic=topic)

        assert sorted(bodies(frame)) == sorted(numbers(0, 20))


def test_a_batch_has_a_beginning_and_an_end(spark: SparkSession, node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    first = bounds(node, topic)[0]

    def between(start: object, end: object) -> list[bytes]:
        named = {"startingOffsets": {topic: {node: start}}, "endingOffsets": {topic: {node: end}}}
        return bodies(
            read(spark, nsqd=node, topic=topic, **{name: json.dumps(value) for name, value in named.items()})
        )

    assert between(first + 2, first + 5) == numbers(2, 5)
    assert between(-2, -1) == numbers(0, 10)
    assert between(first + 5, first + 2) == []


def test_a_batch_between_two_times(spark: SparkSession, node: str, topic: str) -> None:
    publish(node, topic, [b"early"])
    middle = datetime.now(UTC).isoformat()
    publish(node, topic, [b"late"])

    assert bodies(read(spark, nsqd=node, topic=topic, endingTimestamp=middle)) == [b"early"]
    assert bodies(read(spark, nsqd=node, topic=topic, startingTimestamp=middle)) == [b"late"]


def test_a_batch_from_where_a_channel_is(spark: SparkSession, node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    at = bounds(node, topic)[0] + 7
    ask(node, "POST", "/channel/create", topic=topic, channel="c", **{"from": at})

    assert bodies(read(spark, nsqd=node, topic=topic, channel="c", startingOffsets="channel")) == numbers(
        7, 10
    )


def test_one_log_feeds_all_cores(spark: SparkSession, other: str, topic: str) -> None:
    for at in range(0, 20_000, 5_000):
        publish(other, topic, [b"%0200d" % number for number in range(at, at + 5000)])

    by_itself = read(spark, nsqd=other, topic=topic)
    wished = read(spark, nsqd=other, topic=topic, minPartitions=5, maxRequestBytes=100_000)

    assert by_itself.rdd.getNumPartitions() == 2
    assert wished.rdd.getNumPartitions() == 5
    counts = [row["count"] for row in wished.groupBy(F.spark_partition_id()).count().collect()]
    assert sum(counts) == 20_000
    assert max(counts) - min(counts) <= 2
    total = wished.agg(F.sum(F.col("body").cast("string").cast("long")).alias("total"))
    assert total.first() == Row(total=199_990_000)


def test_a_topic_that_is_nowhere_is_an_error(spark: SparkSession, node: str, topic: str) -> None:
    with pytest.raises(PySparkException, match=f"option topic '{topic}': is on none of the nodes"):
        read(spark, nsqd=node, topic=topic).collect()
    with pytest.raises(PySparkException, match=r"option topicPattern 'nothing\.\*': matches no topic"):
        read(spark, nsqd=node, topicPattern="nothing.*").collect()


def test_an_empty_topic_gives_no_rows(spark: SparkSession, node: str, topic: str) -> None:
    """Spark makes a partition of its own of an empty list, and reads it."""
    ask(node, "POST", "/topic/create", topic=topic)

    assert read(spark, nsqd=node, topic=topic).collect() == []


def test_errors_name_what_is_wrong(spark: SparkSession, node: str, topic: str) -> None:
    with pytest.raises(PySparkException, match="option startingofset: is not known"):
        read(spark, nsqd=node, topic=topic, startingOfset="x").collect()
    with pytest.raises(PySparkException, match=r"node 127\.0\.0\.1:1: /log/offsets failed 1 times"):
        read(spark, nsqd=NOWHERE, topic=topic).collect()


def test_a_batch_whose_beginning_is_gone(spark: SparkSession, node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    gone = json.dumps({topic: {node: bounds(node, topic)[0]}})
    lose_all(node, topic)
    lenient = read(spark, nsqd=node, topic=topic, startingOffsets=gone, failOnDataLoss="false")

    with pytest.raises(PySparkException, match="of startingOffsets is older than"):
        read(spark, nsqd=node, topic=topic, startingOffsets=gone).collect()
    assert bodies(lenient)[-1] == b"y"


# Streams ----------------------------------------------------------------------------------------------


class Stream:
    """A query into a parquet table, which Spark fills exactly once."""

    def __init__(self, spark: SparkSession, folder: Path, **options: object) -> None:
        self._spark = spark
        self._table, self._checkpoint = str(folder / "table"), str(folder / "checkpoint")
        self._options = as_texts(requestTimeout=10, retries=0, startingOffsets="earliest", **options)

    def start(self, **trigger: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("nsq").options(**self._options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", self._checkpoint)
        return writer.trigger(**trigger).start(self._table)

    def run(self, **trigger: Any) -> list[int]:
        """Until it ends by itself; how many rows each batch had."""
        query = self.start(**(trigger or {"availableNow": True}))
        assert query.awaitTermination(LIMIT_S)
        return [progress["numInputRows"] for progress in query.recentProgress]

    def rows(self) -> list[bytes]:
        return bodies(self._spark.read.parquet(self._table))


def test_available_now_reads_in_batches_and_goes_on_after_a_restart(
    spark: SparkSession, node: str, topic: str, tmp_path: Path
) -> None:
    publish(node, topic, numbers(0, 10))
    stream = Stream(spark, tmp_path, nsqd=node, topic=topic, maxOffsetsPerTrigger=6, channel="spark")

    assert stream.run() == [6, 4]
    assert channel_depth(node, topic, "spark") == 4  # the last commit comes with the next start
    publish(node, topic, numbers(10, 13))
    assert stream.run() == [3]

    assert stream.rows() == numbers(0, 13)
    assert channel_depth(node, topic, "spark") == 3


def test_once_reads_all_in_one_batch(spark: SparkSession, node: str, topic: str, tmp_path: Path) -> None:
    publish(node, topic, numbers(0, 10))
    stream = Stream(spark, tmp_path, nsqd=node, topic=topic, maxOffsetsPerTrigger=3)

    assert stream.run(once=True) == [10]
    assert stream.rows() == numbers(0, 10)


def test_a_running_query_follows_topics_and_nodes_and_reports_its_lag(
    spark: SparkSession, node: str, other: str, topic: str, tmp_path: Path
) -> None:
    publish(node, f"{topic}_a", numbers(0, 10))
    with lookupd_of(node) as lookupd:
        stream = Stream(spark, tmp_path, lookupd=lookupd.address, topicPattern=f"{topic}_.", channel="spark")
        query = stream.start(processingTime="0 seconds")
        try:
            wait_for(lambda: query.lastProgress is not None and len(stream.rows()) == 10, LIMIT_S)
            publish(node, f"{topic}_b", numbers(10, 20))
            publish(other, f"{topic}_a", numbers(20, 30))
            tell_nodes(lookupd, node, other)
            wait_for(lambda: len(stream.rows()) == 30, LIMIT_S)
            publish(node, f"{topic}_a", numbers(30, 31))
            wait_for(lambda: len(stream.rows()) == 31, LIMIT_S)
            wait_for(lambda: channel_depth(node, f"{topic}_b", "spark") == 0, LIMIT_S)
            reported = json.loads(query.lastProgress["sources"][0]["latestOffset"])
        finally:
            query.stop()

    assert sorted(stream.rows()) == sorted(numbers(0, 31))
    assert reported["n"][f"{topic}_a"][node]["at"] == bounds(node, f"{topic}_a")[1]


def test_a_query_without_news_makes_no_batches(
    spark: SparkSession, node: str, topic: str, tmp_path: Path
) -> None:
    publish(node, topic, numbers(0, 10))
    stream = Stream(spark, tmp_path, nsqd=node, topic=topic, channel="spark")
    query = stream.start(processingTime="0 seconds")
    try:
        wait_for(lambda: len(stream.rows() if query.lastProgress else []) == 10, LIMIT_S)
        seen: list[str] = []
        wait_for(lambda: seen.append(query.status["message"]) or len(seen) > 40, LIMIT_S)
        batches = {progress["batchId"] for progress in query.recentProgress}
    finally:
        query.stop()

    assert batches <= {0, 1}


def test_a_first_batch_that_failed_is_run_again_from_where_it_began(
    spark: SparkSession, node: str, topic: str, tmp_path: Path
) -> None:
    """The trap: "latest" is asked for again, and by then it is behind what the failed batch had."""
    publish(node, topic, numbers(0, 10))
    options = as_texts(nsqd=node, topic=topic, startingOffsets="latest")
    frame = spark.readStream.format("nsq").options(**options).load()
    marker = tmp_path / "fixed"
    got: list[bytes] = []

    def sink(batch: DataFrame, _batch_id: int) -> None:
        rows = bodies(batch)
        if rows and not marker.exists():
            raise RuntimeError("not yet")
        got.extend(rows)

    def start() -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(processingTime="0 seconds").start()

    failing = start()
    wait_for(lambda: failing.lastProgress is not None, LIMIT_S)
    publish(node, topic, numbers(10, 20))
    wait_for(lambda: not failing.isActive, LIMIT_S)
    publish(node, topic, numbers(20, 30))
    marker.touch()
    recovered = start()
    try:
        wait_for(lambda: len(got) == 20, LIMIT_S)
    finally:
        recovered.stop()

    assert got == numbers(10, 30)


def test_a_topic_that_was_made_anew_stops_the_query_or_is_read_on(
    spark: SparkSession, node: str, topic: str, tmp_path: Path
) -> None:
    publish(node, topic, numbers(0, 10))
    Stream(spark, tmp_path, nsqd=node, topic=topic).run()
    ask(node, "POST", "/topic/delete", topic=topic)
    publish(node, topic, numbers(10, 20))

    with pytest.raises(PySparkException, match=f"topic {topic} on node {node}: was deleted and made anew"):
        Stream(spark, tmp_path, nsqd=node, topic=topic).run()
    lenient = Stream(spark, tmp_path, nsqd=node, topic=topic, failOnDataLoss="false")
    assert sum(lenient.run()) == 10
    assert lenient.rows() == numbers(0, 20)


def test_what_retention_took_stops_the_query_or_is_passed(
    spark: SparkSession, node: str, topic: str, tmp_path: Path
) -> None:
    publish(node, topic, numbers(0, 10))
    Stream(spark, tmp_path, nsqd=node, topic=topic).run()
    publish(node, topic, numbers(10, 20))
    first = lose_all(node, topic)

    with pytest.raises(PySparkException, match=rf"offsets \d+ to {first} are no longer kept"):
        Stream(spark, tmp_path, nsqd=node, topic=topic).run()
    lenient = Stream(spark, tmp_path, nsqd=node, topic=topic, failOnDataLoss="false")
    lenient.run()
    assert lenient.rows()[:10] == numbers(0, 10)
    assert lenient.rows()[-1] == b"y"


def test_a_hanging_node_stops_the_query_instead_of_hanging_it(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    with http_node() as hanging:
        hanging.answers["/log/offsets"] = STALL
        stream = Stream(spark, tmp_path, nsqd=hanging.address, topic=topic)
        stream._options["requestTimeout"] = "0.2"

        with pytest.raises(PySparkException, match=f"node {hanging.address}: .*timed out"):
            stream.run()
