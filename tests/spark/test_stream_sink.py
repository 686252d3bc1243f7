"""`df.writeStream.format("nsq")` with Spark and nsqd in a process of its own."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from nsqlake.spark.decisions import FILE_NAME, DecisionFile
from tests.fakes.nsqd_process import NsqdProcess
from tests.spark.log_reading import read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with (
        NsqdProcess(str(tmp_path_factory.mktemp("one"))) as one,
        NsqdProcess(str(tmp_path_factory.mktemp("other"))) as other,
    ):
        yield [one.http_address, other.http_address]


class Stream:
    """Files of numbers, each a batch, published to a topic."""

    def __init__(self, spark: "SparkSession", folder: Path, nodes: list[str], topic: str) -> None:
        self._spark, self._folder, self.nodes, self.topic = spark, folder, nodes, topic
        self.checkpoint = folder / "check point"
        self._count = 0
        (folder / "input").mkdir()

    def add(self, count: int) -> None:
        """A file that becomes a batch of `count` rows."""
        numbers = range(self._count, self._count + count)
        self._count += count
        path = self._folder / "input" / f"{self._count:08}.txt"
        path.write_text("".join(f"{number}\n" for number in numbers))
        stamp = time.time() - 1000 + self._count / 1000  # Spark reads the oldest first
        os.utime(path, (stamp, stamp))

    def run(self, *columns: str, mode: str = "append", **options: str) -> None:
        given = {
            "nsqd": ",".join(self.nodes),
            "topic": self.topic,
            "checkpointLocation": str(self.checkpoint),
            **options,
        }
        rows = self._spark.readStream.option("maxFilesPerTrigger", "1").text(str(self._folder / "input"))
        frame = rows.selectExpr("value as body", *columns)
        if mode == "complete":
            frame = frame.groupBy("body").count().select("body")
        writer = frame.writeStream.format("nsq").outputMode(mode).trigger(availableNow=True)
        query = writer.options(**given).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_commit(self, batch: int) -> None:
        """As if Spark had been killed before it wrote down that the batch is done."""
        self._forget("commits", batch)

    def set_back(self, batch: int) -> None:
        """As if the batch had never been planned."""
        self._forget("commits", batch)
        self._forget("offsets", batch)

    def _forget(self, log: str, batch: int) -> None:
        for name in (f"{log}/{batch}", f"{log}/.{batch}.crc"):
            (self.checkpoint / name).unlink(missing_ok=True)

    def counts(self) -> Counter[int]:
        """How often a number is in the topic."""
        return Counter(map(int, read_topic(self.nodes, self.topic)))

    @property
    def once(self) -> Counter[int]:
        return Counter(range(self._count))


@pytest.fixture
def stream(spark: "SparkSession", tmp_path: Path, nodes: list[str], request: pytest.FixtureRequest) -> Stream:
    topic = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:]
    return Stream(spark, tmp_path, nodes, topic)


def cut_finely(spark: "SparkSession", nbytes: int) -> None:
    """Partitions of so many bytes from now on."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(nbytes))
    spark.conf.set("spark.sql.files.openCostInBytes", "1")


@pytest.fixture(autouse=True)
def in_several_partitions(spark: "SparkSession") -> Iterator[None]:
    cut_finely(spark, 2000)
    yield
    spark.conf.unset("spark.sql.files.maxPartitionBytes")
    spark.conf.unset("spark.sql.files.openCostInBytes")


def test_every_row_is_published_once_on_all_nodes(stream: Stream) -> None:
    for count in (1000, 1, 500):
        stream.add(count)
        stream.run()

    assert stream.counts() == stream.once
    assert all(read_topic([node], stream.topic) for node in stream.nodes)


def test_a_batch_that_is_run_again_stores_nothing_twice_however_it_is_cut(
    spark: "SparkSession", stream: Stream
) -> None:
    stream.add(2000)
    stream.run()
    stream.forget_commit(0)
    cut_finely(spark, 700)
    stream.add(10)

    stream.run()

    assert stream.counts() == stream.once


def test_a_batch_that_is_run_again_may_go_to_other_nodes(stream: Stream) -> None:
    stream.add(1000)
    both = stream.nodes
    stream.nodes = both[:1]
    stream.run()
    stream.forget_commit(0)
    stream.nodes = both[::-1]
    stream.add(1000)

    stream.run()

    assert stream.counts() == stream.once


def test_a_batch_that_no_node_took_is_published_by_the_next_run(stream: Stream) -> None:
    stream.add(1000)
    with pytest.raises(Exception, match=f"WriteError: node {NOWHERE}"):
        stream.run(nsqd=NOWHERE, retries="0")
    assert not stream.counts()

    stream.run()

    assert stream.counts() == stream.once


def test_a_node_that_is_down_when_a_batch_begins_is_passed_over(stream: Stream) -> None:
    stream.add(1000)

    stream.run(nsqd=",".join([NOWHERE, *stream.nodes]))

    assert stream.counts() == stream.once


def test_topics_and_delays_come_from_columns(stream: Stream) -> None:
    stream.add(100)
    topics = f"if(value % 2 = 0, '{stream.topic}', '{stream.topic}2') as topic"

    stream.run(topics, "if(value < 50, 3600000, 0) as defer_ms")

    found = [read_topic(stream.nodes, name) for name in (stream.topic, f"{stream.topic}2")]
    assert [{int(body) % 2 for body in bodies} for bodies in found] == [{0}, {1}]
    assert sorted(int(body) for bodies in found for body in bodies) == list(range(100))


def test_an_empty_batch_publishes_nothing(stream: Stream) -> None:
    (stream.checkpoint.parent / "input" / "empty.txt").write_text("")
    stream.run()

    assert not stream.counts()
    assert not (stream.checkpoint / FILE_NAME).exists()


@pytest.mark.unsteady
def test_what_a_failed_batch_staged_is_not_seen_and_is_dropped(stream: Stream) -> None:
    stream.add(3000)
    bad = "if(value = 2900, cast(raise_error('not this row') as string), null) as topic"

    with pytest.raises(Exception, match="not this row"):
        stream.run(bad)

    assert not stream.counts()
    assert all("staged_bytes 0" in metrics(node) for node in stream.nodes)
    stream.run()
    assert stream.counts() == stream.once


def metrics(node: str) -> str:
    return httpx.get(f"http://{node}/metrics").text


@pytest.mark.parametrize("form", ["file://{}", "{}/"])
def test_the_checkpoint_may_be_a_uri(stream: Stream, form: str) -> None:
    stream.add(10)

    stream.run(checkpointLocation=form.format(stream.checkpoint))

    decision = DecisionFile(str(stream.checkpoint)).read()
    assert decision is not None
    assert decision.txn.endswith(".0")
    assert stream.counts() == stream.once


def test_a_checkpoint_that_was_set_back_is_told(stream: Stream) -> None:
    for count in (10, 20, 30):
        stream.add(count)
    stream.run()
    stream.set_back(1)
    stream.set_back(2)
    before = stream.counts()

    with pytest.raises(Exception, match="or a later batch, of which this checkpoint does not know"):
        stream.run()

    assert stream.counts() == before


def test_at_least_once_publishes_a_batch_again_that_is_run_again(stream: Stream) -> None:
    stream.add(1000)
    stream.run(delivery="at-least-once")
    stream.forget_commit(0)
    stream.run(delivery="at-least-once")

    assert stream.counts() == Counter(dict.fromkeys(range(1000), 2))


def test_an_ephemeral_topic_can_be_published_to_at_least_once(stream: Stream) -> None:
    stream.add(1)
    stream.topic = "fleeting#ephemeral"

    with pytest.raises(Exception, match="option topic 'fleeting#ephemeral': is ephemeral"):
        stream.run()
    stream.run(delivery="at-least-once")


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        (["1 as x"], {}, "RowError: column x is not known"),
        ([], {"delivery": "maybe"}, "OptionError: option delivery 'maybe'"),
        ([], {"topic": "a b"}, "OptionError: option topic 'a b'"),
        ([], {"columns": "body"}, "OptionError: option columns: is not known"),
        (["'a#ephemeral' as topic"], {}, "WriteError: node .*: topic a#ephemeral: answered 400"),
        (["99999999 as defer_ms"], {}, "WriteError: node .*: topic .*: answered 400 INVALID_ARG_DEFER_MS"),
        ([], {"nsqd": f"{NOWHERE},127.0.0.1:2", "retries": "0"}, "WriteError: node .*; node 127.0.0.1"),
    ],
)
def test_what_is_wrong_is_named(
    stream: Stream, columns: list[str], options: dict[str, str], text: str
) -> None:
    stream.add(10)

    with pytest.raises(Exception, match=text):
        stream.run(*columns, **options)


def test_only_append_is_for_topics(stream: Stream) -> None:
    stream.add(10)

    with pytest.raises(
        Exception, match="OptionError: option outputMode 'complete': a topic can only be appended"
    ):
        stream.run(mode="complete")
    with pytest.raises(Exception, match="does not support Update mode"):
        stream.run(mode="update")
