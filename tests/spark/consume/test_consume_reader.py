"""mode=consume as Spark's driver calls it: what is taken, when it is finished, what a restart finds."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nsqlake.spark.consume.reader import ConsumeReader
from nsqlake.spark.errors import DataLossError, NodeError, OptionError
from nsqlake.spark.options import parse_read
from nsqlake.testing.broker_view import ChannelCounts
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_node import json_reply
from tests.fakes.nsqd_process import wait_for
from tests.spark.support import ask, lookupd_of, numbers

BEGIN = {"wal": 0}
MakeReader = Callable[..., ConsumeReader]


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[-60:]


@pytest.fixture
def make_reader(nsqd: NsqdFixture, topic: str, tmp_path: Path) -> Iterator[MakeReader]:
    made: list[ConsumeReader] = []

    def make(**options: object) -> ConsumeReader:
        given = {
            "nsqd": nsqd.http_address,
            "topic": topic,
            "channel": "spark",
            "mode": "consume",
            "walDir": tmp_path / "wal",
            "retries": 0,
            **options,
        }
        texts = {name: str(value) for name, value in given.items() if value is not None}
        made.append(ConsumeReader(parse_read(texts, streaming=True)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def advance(reader: ConsumeReader, start: dict[str, int], most: int = 1000) -> dict[str, int]:
    return reader.latestOffset(start, ReadMaxRows(most))


def bodies(reader: ConsumeReader, start: dict[str, int], end: dict[str, int]) -> list[bytes]:
    sent: ConsumeReader = pickle.loads(pickle.dumps(reader))
    partitions = reader.partitions(start, end)
    batches = [batch for partition in partitions for batch in sent.read(partition)]
    return [body for batch in batches for body in batch.column("body").to_pylist()]


def crash(reader: ConsumeReader) -> None:
    """The connection goes, and nobody answers anything."""
    assert reader._intake is not None
    reader._intake._consumer._thread.post(reader._intake._consumer._consumer.stop_now)
    reader._folder.close()
    reader._intake = None


def counts(nsqd: NsqdFixture, topic: str) -> ChannelCounts:
    found = nsqd.channel(topic, "spark")
    assert found is not None
    return found


def take_all(reader: ConsumeReader, start: dict[str, int], count: int) -> tuple[list[bytes], dict[str, int]]:
    found: list[bytes] = []
    while len(found) < count:
        end = advance(reader, start)
        found += bodies(reader, start, end)
        start = end
    return found, start


# From nsqd to Spark -----------------------------------------------------------------------------------


def test_messages_arrive_with_all_columns(nsqd: NsqdFixture, topic: str, make_reader: MakeReader) -> None:
    nsqd.publish(topic, b"hello")
    reader = make_reader()

    end = advance(reader, BEGIN)

    (partition,) = reader.partitions(BEGIN, end)
    (batch,) = reader.read(partition)
    (row,) = batch.to_pylist()
    (stored,) = nsqd.messages(topic)
    answer = ask(nsqd.http_address, "GET", "/message/peek", topic=topic, offset=stored.offset, count=1)
    (peeked,) = answer["messages"]
    assert row["body"] == b"hello"
    assert row["id"] == peeked["id"]
    assert (row["offset"], row["topic"], row["node"]) == (None, topic, nsqd.tcp_address)
    assert row["timestamp"].timestamp() == pytest.approx(stored.timestamp_ns / 1e9, abs=1e-5)


def test_columns_can_be_chosen(nsqd: NsqdFixture, topic: str, make_reader: MakeReader) -> None:
    nsqd.publish(topic, b"hello")
    reader = make_reader(columns="id,body")

    (partition,) = reader.partitions(BEGIN, advance(reader, BEGIN))

    (batch,) = reader.read(partition)
    assert batch.schema.names == ["id", "body"]


def test_nothing_new_leaves_the_offset_as_it_is(topic: str, make_reader: MakeReader) -> None:
    assert advance(make_reader(), BEGIN) == BEGIN


def test_limits_are_kept(nsqd: NsqdFixture, topic: str, make_reader: MakeReader) -> None:
    nsqd.publish(topic, *numbers(0, 30))
    reader = make_reader(maxOffsetsPerTrigger=7)
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)

    found: list[int] = []
    start = BEGIN
    while sum(found) < 30:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        found.append(len(bodies(reader, start, end)))
        start = end

    assert max(found) <= 7


def test_the_nodes_of_a_lookupd_are_taken_from(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, b"hello")
    host, tcp_port = nsqd.tcp_address.rsplit(":", 1)
    producer = {
        "broadcast_address": host,
        "hostname": host,
        "tcp_port": int(tcp_port),
        "http_port": nsqd.http_port,
        "version": "1",
    }
    with lookupd_of() as lookupd:
        lookupd.answers["/lookup"] = json_reply({"channels": [], "producers": [producer]})
        reader = make_reader(nsqd=None, lookupd=lookupd.address)

        assert bodies(reader, BEGIN, advance(reader, BEGIN)) == [b"hello"]
        reader.stop()


# FIN --------------------------------------------------------------------------------------------------


def test_messages_are_finished_when_spark_asks_for_what_follows_them(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, *numbers(0, 5))
    reader = make_reader()

    found, end = take_all(reader, BEGIN, 5)
    in_flight = counts(nsqd, topic).in_flight
    assert advance(reader, end) == end

    assert sorted(found) == numbers(0, 5)
    assert in_flight > 0
    wait_for(lambda: (counts(nsqd, topic).in_flight, counts(nsqd, topic).depth) == (0, 0))


def test_commit_finishes_too(nsqd: NsqdFixture, topic: str, make_reader: MakeReader) -> None:
    nsqd.publish(topic, b"x")
    reader = make_reader()
    end = advance(reader, BEGIN)
    assert counts(nsqd, topic).in_flight == 1

    reader.commit(end)

    wait_for(lambda: counts(nsqd, topic).in_flight == 0)


def test_a_long_batch_keeps_its_messages(topic: str, make_reader: MakeReader) -> None:
    with running_nsqd(msg_timeout_ns=1_000_000_000) as impatient:
        impatient.publish(topic, b"x")
        reader = make_reader(nsqd=impatient.http_address)
        end = advance(reader, BEGIN)
        assert reader._intake is not None
        consumer = reader._intake._consumer

        wait_for(lambda: consumer.stats().touched >= 4)

        assert advance(reader, end) == end
        wait_for(lambda: counts(impatient, topic).in_flight == 0)
        channel = ask(impatient.http_address, "GET", "/stats", format="json", topic=topic)["topics"][0][
            "channels"
        ]
        assert (channel[0]["timeout_count"], channel[0]["requeue_count"]) == (0, 0)
        reader.stop()


def test_a_message_that_nsqd_gives_up_during_its_batch_makes_no_second_row(
    topic: str, make_reader: MakeReader
) -> None:
    with running_nsqd(msg_timeout_ns=500_000_000, max_msg_timeout_ns=1_000_000_000) as impatient:
        impatient.publish(topic, b"x")
        reader = make_reader(nsqd=impatient.http_address)
        end = advance(reader, BEGIN)
        assert reader._intake is not None
        consumer = reader._intake._consumer

        wait_for(lambda: consumer.stats().received >= 3)

        assert advance(reader, end) == end
        wait_for(lambda: counts(impatient, topic).in_flight == 0 and counts(impatient, topic).depth == 0)
        reader.stop()


# Restart ----------------------------------------------------------------------------------------------


def test_a_batch_that_is_run_again_reads_the_same_file(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, *numbers(0, 5))
    crashed = make_reader()
    end = advance(crashed, BEGIN)
    before = bodies(crashed, BEGIN, end)
    crash(crashed)

    restarted = make_reader()

    assert bodies(restarted, BEGIN, end) == before
    rest, _ = take_all(restarted, end, 5 - len(before))
    assert sorted(before + rest) == numbers(0, 5)
    wait_for(lambda: counts(nsqd, topic).in_flight <= len(rest))


def test_what_spark_never_heard_of_comes_again(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, *numbers(0, 5))
    crashed = make_reader()
    take_all(crashed, BEGIN, 5)
    crash(crashed)

    restarted = make_reader()

    found, _ = take_all(restarted, BEGIN, 5)
    assert sorted(found) == numbers(0, 5)


def test_what_spark_has_is_finished_when_it_comes_again(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, *numbers(0, 5))
    crashed = make_reader()
    _, end = take_all(crashed, BEGIN, 5)
    crash(crashed)

    restarted = make_reader()

    assert advance(restarted, end) == end
    wait_for(lambda: counts(nsqd, topic).in_flight == 0 and counts(nsqd, topic).depth == 0)


def test_a_reader_that_stops_gives_its_messages_back_at_once(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, *numbers(0, 5))
    reader = make_reader(maxOffsetsPerTrigger=2)
    advance(reader, BEGIN, most=2)

    reader.stop()

    wait_for(lambda: counts(nsqd, topic).depth == 5)
    assert counts(nsqd, topic).in_flight == 0


def test_a_file_that_is_gone_is_a_loss(nsqd: NsqdFixture, topic: str, make_reader: MakeReader) -> None:
    nsqd.publish(topic, b"x")
    reader = make_reader()
    end = advance(reader, BEGIN)
    reader._folder.remove([1])

    with pytest.raises(DataLossError, match=r"files 1 to 1 of walDir .* are gone"):
        reader.partitions(BEGIN, end)
    reader.stop()
    tolerant = make_reader(failOnDataLoss=False)
    tolerant._folder.open()
    assert tolerant.partitions(BEGIN, end) == []
    tolerant._folder.close()


# All there is -----------------------------------------------------------------------------------------


def test_available_now_takes_all_there_is_and_ends(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    nsqd.publish(topic, *numbers(0, 10))
    reader = make_reader(maxOffsetsPerTrigger=4)
    reader.prepareForTriggerAvailableNow()

    found, start = take_all(reader, BEGIN, 10)

    assert sorted(found) == numbers(0, 10)
    assert advance(reader, start) == start


def test_available_now_ends_although_messages_keep_coming(
    nsqd: NsqdFixture, topic: str, make_reader: MakeReader
) -> None:
    reader = make_reader(maxOffsetsPerTrigger=4)
    reader.prepareForTriggerAvailableNow()
    nsqd.publish(topic, b"late")
    end = advance(reader, BEGIN)
    nsqd.publish(topic, b"later")

    assert advance(reader, end) == end
    assert advance(reader, end) == end
    wait_for(lambda: (counts(nsqd, topic).in_flight, counts(nsqd, topic).depth) == (0, 1))


def test_trigger_once_takes_what_comes(nsqd: NsqdFixture, topic: str, make_reader: MakeReader) -> None:
    nsqd.publish(topic, b"x")
    reader = make_reader()

    end = reader.latestOffset(BEGIN, ReadAllAvailable())

    assert bodies(reader, BEGIN, end) == [b"x"]


# Errors -----------------------------------------------------------------------------------------------


def test_a_node_that_is_not_there_is_named(make_reader: MakeReader) -> None:
    with pytest.raises(NodeError, match=r"node 127\.0\.0\.1:1: /info failed"):
        advance(make_reader(nsqd="127.0.0.1:1"), BEGIN)


def test_two_queries_cannot_share_a_folder(
    make_reader: MakeReader, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance(make_reader(), BEGIN)
    other = make_reader()
    monkeypatch.setattr(other._folder, "open", lambda: type(other._folder).open(other._folder, wait_s=0))

    with pytest.raises(OptionError, match="is used by another query"):
        advance(other, BEGIN)
