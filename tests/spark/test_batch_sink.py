"""`df.write.format("nsq")` with Spark and nsqd in a process of its own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.fakes.http_node import http_node, json_reply
from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.spark.log_reading import read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    flags = ("--max-msg-size=2000", "--max-body-size=100000")
    with (
        NsqdProcess(str(tmp_path_factory.mktemp("one")), *flags) as one,
        NsqdProcess(str(tmp_path_factory.mktemp("other")), *flags) as other,
    ):
        yield [one.http_address, other.http_address]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:]


def write(frame: "DataFrame", nodes: list[str], **options: object) -> None:
    given = {"nsqd": ",".join(nodes), "maxRequestBytes": 90_000, **options}
    writer = frame.write.format("nsq").mode("append")
    for name, value in given.items():
        writer = writer.option(name, str(value))
    writer.save()


def numbers(spark: "SparkSession", count: int, *more: str) -> "DataFrame":
    return spark.range(count).selectExpr("cast(id as string) as body", *more)


def test_every_row_comes_once_to_a_topic_that_was_not_there(
    spark: "SparkSession", nodes: list[str], topic: str
) -> None:
    write(numbers(spark, 20_000).repartition(4), nodes, topic=topic)

    assert sorted(map(int, read_topic(nodes, topic))) == list(range(20_000))
    assert all(read_topic([node], topic) for node in nodes)


def test_bodies_may_be_bytes(spark: "SparkSession", nodes: list[str], topic: str) -> None:
    write(spark.createDataFrame([(bytearray(b"\0\xff\n"),)], "body binary"), nodes, topic=topic)

    assert read_topic(nodes, topic) == [b"\0\xff\n"]


def test_a_column_names_the_topic_and_rows_of_a_partition_keep_their_order(
    spark: "SparkSession", nodes: list[str], topic: str
) -> None:
    topics = f"if(id % 3 = 0, null, concat('{topic[-50:]}', id % 3)) as topic"

    write(numbers(spark, 9000, topics).coalesce(1), nodes, topic=topic)

    for rest, name in enumerate([topic, f"{topic[-50:]}1", f"{topic[-50:]}2"]):
        assert [int(body) for body in read_topic(nodes, name)] == list(range(rest, 9000, 3))


def test_messages_may_be_deferred(spark: "SparkSession", nodes: list[str], topic: str) -> None:
    httpx.post(f"http://{nodes[0]}/topic/create", params={"topic": topic})
    httpx.post(f"http://{nodes[0]}/channel/create", params={"topic": topic, "channel": "c"})

    write(numbers(spark, 6, "if(id < 4, 3000000, null) as defer_ms").coalesce(1), nodes[:1], topic=topic)

    stats = httpx.get(f"http://{nodes[0]}/stats", params={"format": "json", "topic": topic}).json()
    channel = stats["topics"][0]["channels"][0]
    wait_for(lambda: channel["deferred_count"] == 4 and channel["depth"] == 2)


def test_no_rows_are_no_messages(spark: "SparkSession", nodes: list[str], topic: str) -> None:
    write(numbers(spark, 0), nodes, topic=topic)

    assert not read_topic(nodes, topic)


def test_nodes_are_found_by_nsqlookupd(spark: "SparkSession", nodes: list[str], topic: str) -> None:
    one, other = (
        dict(zip(("broadcast_address", "http_port"), node.split(":"), strict=True)) for node in nodes
    )
    with http_node() as lookupd:
        lookupd.answers["/nodes"] = json_reply({"producers": [one, other]})
        write(numbers(spark, 100).repartition(2), [], nsqd="", lookupd=lookupd.address, topic=topic)

    assert [len(read_topic([node], topic)) for node in nodes] == [50, 50]


def test_a_node_that_is_down_is_passed_over(spark: "SparkSession", nodes: list[str], topic: str) -> None:
    write(numbers(spark, 1000), [NOWHERE, nodes[0]], topic=topic)

    assert len(read_topic(nodes[:1], topic)) == 1000


def kill_once_it_has(node: NsqdProcess, topic: str) -> None:
    wait_for(lambda: bool(read_topic([node.http_address], topic)), limit_s=60)
    node.kill()


@pytest.mark.slow
def test_a_node_that_is_killed_hands_over_to_another(spark: "SparkSession", tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    with NsqdProcess(str(folders[0])) as one, NsqdProcess(str(folders[1])) as other:
        addresses = [one.http_address, other.http_address]
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(kill_once_it_has, one, "killed")
            write(numbers(spark, 400_000).repartition(2), addresses, topic="killed")
            killing.result()
        rest = read_topic(addresses[1:], "killed")
    with NsqdProcess(str(folders[0])) as one:
        kept = read_topic([one.http_address], "killed")

    assert kept
    assert {int(body) for body in kept + rest} == set(range(400_000))


def test_when_all_nodes_are_down_the_error_names_them(spark: "SparkSession", topic: str) -> None:
    with pytest.raises(Exception, match="refused") as raised:
        write(numbers(spark, 10), [NOWHERE, "127.0.0.1:2"], topic=topic, retries=0)

    assert "WriteError: node 127.0.0.1:" in str(raised.value)
    assert "; node 127.0.0.1:" in str(raised.value)


def test_rows_that_are_too_large_name_node_and_topic(
    spark: "SparkSession", nodes: list[str], topic: str
) -> None:
    with pytest.raises(
        Exception, match=f"WriteError: node .*: topic {topic}: answered 413 .*larger than its"
    ):
        write(spark.createDataFrame([("x" * 2001,)], "body string"), nodes, topic=topic)


def test_requests_are_as_large_as_the_node_takes_them(
    spark: "SparkSession", nodes: list[str], topic: str
) -> None:
    rows = spark.range(2000).selectExpr("repeat('x', 200) as body").coalesce(1)
    with pytest.raises(Exception, match=f"WriteError: node .*: topic {topic}: answered 413"):
        write(rows, nodes, topic=topic, maxRequestBytes=1_000_000)

    write(rows, nodes, topic=topic, maxRequestBytes=100_000)

    assert len(read_topic(nodes, topic)) == 2000


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("id", {"topic": "t"}, "RowError: column body is missing; there are: id"),
        ("id as body", {"topic": "t"}, "RowError: column body must be binary or string"),
        ("'x' as body", {}, "RowError: column topic is missing"),
        ("'x' as body, id", {"topic": "t"}, "RowError: column id is not known"),
        ("'x' as body, 1.5 as defer_ms", {"topic": "t"}, "RowError: column defer_ms must be"),
        ("'x' as body", {"topic": "no spaces"}, "OptionError: option topic 'no spaces'"),
        ("'x' as body", {"topic": "t", "nsqd": ""}, "OptionError: option nsqd"),
        ("'x' as body", {"topic": "t", "lookupd": "127.0.0.1:1"}, "OptionError: option nsqd"),
        ("'x' as body", {"topic": "t", "startingOffsets": "latest"}, "OptionError: option startingoffsets"),
        ("'x' as body", {"topic": "t", "delivery": "exactly-once"}, "OptionError: option delivery"),
        ("'x' as body", {"topic": "t", "delivery": "once"}, "OptionError: option delivery 'once'"),
        ("'x' as body", {"topic": "t", "maxRequestBytes": "0"}, "OptionError: option maxRequestBytes '0'"),
        ("cast(null as string) as body", {"topic": "t"}, "RowError: column body is null in 1 rows"),
        ("'' as body", {"topic": "t"}, "RowError: column body is empty in 1 rows"),
        ("'x' as body, 'a b' as topic", {}, "RowError: column topic 'a b' is no valid name"),
        ("'x' as body, -1 as defer_ms", {"topic": "t"}, "RowError: column defer_ms -1 is negative"),
        ("'x' as body, 99999999 as defer_ms", {"topic": "t"}, "WriteError: node .*: topic t: answered 400"),
    ],
)
def test_what_is_wrong_is_named(
    spark: "SparkSession", nodes: list[str], columns: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(spark.sql(f"select {columns} from range(1)"), nodes, **options)


def test_a_topic_is_not_overwritten(spark: "SparkSession", nodes: list[str]) -> None:
    with pytest.raises(Exception, match="OptionError: option mode 'overwrite': a topic can only be appended"):
        numbers(spark, 1).write.format("nsq").mode("overwrite").option("nsqd", nodes[0]).save()
