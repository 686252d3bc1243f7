"""The streaming source as Spark's driver calls it: where batches begin and end, and what is never lost."""

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nsqlake.spark.errors import DataLossError, NodeError, OptionError
from nsqlake.testing.nsqd import running_nsqd
from tests.fakes.http_node import STALL, http_node, json_reply
from tests.fakes.nsqd_process import NsqdProcess
from tests.spark.support import (
    SMALL_FILES,
    Query,
    ask,
    bounds,
    channel_depth,
    lookupd_of,
    lose_all,
    make_reader,
    numbers,
    publish,
    tell_nodes,
    through_text,
)

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with running_nsqd(max_bytes_per_file=SMALL_FILES) as nsqd:
        yield nsqd.http_address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[-60:]


def query(node: str, topic: str, /, start: dict[str, Any] | None = None, **options: object) -> Query:
    given = {"nsqd": node, "topic": topic, "startingOffsets": "earliest", **options}
    return Query(make_reader(**{name: value for name, value in given.items() if value is not None}), start)


# From batch to batch ----------------------------------------------------------------------------------


def test_every_message_comes_once_in_its_order(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic)

    assert running.run() == numbers(0, 10)
    publish(node, topic, numbers(10, 15))
    assert running.run() == numbers(10, 15)
    assert running.is_idle


def test_a_query_without_news_makes_no_batches(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    publish(node, f"{topic[:50]}_b", numbers(0, 10))
    running = query(node, topic, topics=f"{topic},{topic[:50]}_b", topic=None)

    running.run()

    assert running.is_idle
    assert running.is_idle


def test_the_first_batch_begins_where_it_began_when_it_is_run_again(node: str, topic: str) -> None:
    """Spark does not journal the initial offset, and asks for it again: by then "latest" is elsewhere."""
    publish(node, topic, numbers(0, 10))
    failed = query(node, topic, startingOffsets="latest")
    begun = failed.plan()
    publish(node, topic, numbers(10, 20))
    failed.at = begun
    end = failed.plan()

    publish(node, topic, numbers(20, 30))
    recovered = query(node, topic, startingOffsets="latest")

    assert recovered.read(recovered.reader.initialOffset(), begun) == []
    assert recovered.read(begun, end) == numbers(10, 20)


def test_the_initial_offset_never_changes(node: str, topic: str) -> None:
    before = json.dumps(query(node, topic).reader.initialOffset())
    publish(node, topic, numbers(0, 10))

    assert json.dumps(query(node, topic).reader.initialOffset()) == before


def test_a_first_batch_that_is_planned_and_recovered_reads_the_same(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    planned = query(node, topic, startingOffsets=json.dumps({topic: {node: -2}}))
    end = planned.plan()

    publish(node, topic, numbers(10, 20))
    recovered = query(node, topic, startingOffsets="latest")

    assert recovered.read(recovered.reader.initialOffset(), end) == numbers(0, 10)


def test_a_restart_goes_on_from_the_checkpoint_whatever_the_options_say(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    before = query(node, topic)
    before.run()
    publish(node, topic, numbers(10, 20))

    assert query(node, topic, start=before.at, startingOffsets="latest").run() == numbers(10, 20)


def test_what_comes_after_latest_to_a_topic_that_was_not_there_is_not_lost(node: str, topic: str) -> None:
    running = query(node, topic, startingOffsets="latest")
    assert not running.is_idle  # an empty batch that journals the beginning
    assert running.run() == []
    assert running.is_idle

    publish(node, topic, numbers(0, 10))

    assert query(node, topic, start=running.at, startingOffsets="latest").run() == numbers(0, 10)


# Where it begins --------------------------------------------------------------------------------------


def test_latest_reads_what_comes_later(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, startingOffsets=None)

    assert running.run() == []
    publish(node, topic, numbers(10, 12))
    assert running.run() == numbers(10, 12)


def test_offsets_can_be_named(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    at = bounds(node, topic)[0] + 4

    assert query(node, topic, startingOffsets=json.dumps({topic: {node: at}})).run() == numbers(4, 10)


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ({"T": {"N": 5 << 50}}, r"option startingOffsets .*: topic T on node N ends at offset \d+"),
        ({"T": {"n2:1": 5}}, "option startingOffsets: there is no topic T on node n2:1"),
        ({}, "option startingOffsets: has no offset for topic T on node N"),
    ],
)
def test_offsets_that_were_never_there_are_refused(
    node: str, topic: str, offsets: dict[str, Any], text: str
) -> None:
    publish(node, topic, numbers(0, 10))
    given = json.dumps(offsets).replace('"T"', f'"{topic}"').replace('"N"', f'"{node}"')

    with pytest.raises(OptionError, match=text.replace("T on", f"{topic} on").replace(" N", f" {node}")):
        query(node, topic, startingOffsets=given).plan()


def test_a_time_can_be_named(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    found = query(node, topic)
    (part,) = found.reader.partitions(found.at, found.plan())
    (batch,) = found.reader.read(part)
    stamp_ms = batch.column("timestamp")[0].value // 1000

    def since(at_ms: int) -> list[bytes]:
        return query(node, topic, startingOffsets=None, startingTimestamp=at_ms).run()

    assert since(stamp_ms) == since(0) == numbers(0, 10)
    assert since(stamp_ms + 1) == []
    assert since(stamp_ms + 10**9) == []


def test_a_channel_remembers_the_place_without_a_checkpoint(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    first = query(node, topic, channel="spark", startingOffsets="channel")
    assert first.run() == numbers(0, 10)
    first.reader.commit(first.at)
    publish(node, topic, numbers(10, 20))

    assert query(node, topic, channel="spark", startingOffsets="channel").run() == numbers(10, 20)


# Limits -----------------------------------------------------------------------------------------------


def test_batches_have_at_most_so_many_messages(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, maxOffsetsPerTrigger=4)

    assert [running.run() for _ in range(3)] == [numbers(0, 4), numbers(4, 8), numbers(8, 10)]
    assert running.is_idle


def test_batches_have_about_so_many_bytes(node: str, topic: str) -> None:
    for number in range(10):
        publish(node, topic, [b"%d" % number * 1000])
    running = query(node, topic, maxBytesPerTrigger=3500)

    counts = [len(running.run()) for _ in range(10)]

    assert sum(counts) == 10
    assert max(counts) == 3


@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": 4}, {"maxBytesPerTrigger": 10}])
def test_trigger_once_takes_all_whatever_the_limits_say(node: str, topic: str, limit: dict[str, int]) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, **limit)

    assert not isinstance(running.reader.getDefaultReadLimit(), ReadAllAvailable)
    assert running.run_all() == numbers(0, 10)


def test_without_limits_all_is_read() -> None:
    assert isinstance(query(NOWHERE, "t").reader.getDefaultReadLimit(), ReadAllAvailable)


def test_a_small_batch_of_a_large_log_does_not_fetch_all_of_it(topic: str) -> None:
    with running_nsqd() as nsqd:
        for _ in range(40):
            publish(nsqd.http_address, topic, [b"x" * 1000] * 100)
        running = query(nsqd.http_address, topic, maxOffsetsPerTrigger=100)
        (part,) = running.reader.partitions(running.at, running.plan())

        (wanted,) = part.wanted  # type: ignore[attr-defined]
        assert wanted.end - wanted.start == 100
        assert wanted.nbytes < 200_000


# Available now ----------------------------------------------------------------------------------------


def test_available_now_stops_at_what_was_there(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, maxOffsetsPerTrigger=6)
    running.reader.prepareForTriggerAvailableNow()
    publish(node, topic, numbers(10, 20))

    assert [running.run() for _ in range(2)] == [numbers(0, 6), numbers(6, 10)]
    assert running.is_idle


def test_available_now_leaves_topics_that_come_meanwhile_for_the_next_time(node: str, topic: str) -> None:
    pattern = f"{topic}.*"
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, topic=None, topicPattern=pattern)
    running.reader.prepareForTriggerAvailableNow()
    publish(node, f"{topic}_b", numbers(10, 20))

    assert running.run() == numbers(0, 10)
    assert running.run() == []
    assert running.is_idle
    again = query(node, topic, start=running.at, topic=None, topicPattern=pattern)
    assert again.run() == numbers(10, 20)


# Nodes and topics that come and go --------------------------------------------------------------------


def test_topics_that_match_a_pattern_join(node: str, topic: str) -> None:
    publish(node, f"{topic}_a", numbers(0, 3))
    running = query(node, topic, topic=None, topicPattern=f"{topic}_.", startingOffsets="latest")
    assert running.run() == []

    publish(node, f"{topic}_b", numbers(3, 6))
    publish(node, f"{topic}_xx", numbers(6, 9))

    assert running.run() == numbers(3, 6)
    assert running.is_idle


def test_a_new_node_joins_and_one_that_leaves_is_waited_for(
    node: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running_nsqd() as second, lookupd_of(node) as lookupd:
        other = second.http_address
        publish(node, topic, numbers(0, 3))
        running = query(node, topic, nsqd=None, lookupd=lookupd.address)
        assert running.run() == numbers(0, 3)

        publish(other, topic, numbers(3, 6))
        tell_nodes(lookupd, node, other)
        assert running.run() == numbers(3, 6)

        publish(node, topic, numbers(6, 9))
        publish(other, topic, numbers(9, 12))
        tell_nodes(lookupd, node)
        assert running.run() == numbers(6, 9)
        assert running.is_idle
        assert caplog.text.count(f"topic {topic} waits for node {other}, which is not there") == 1

        tell_nodes(lookupd, node, other)
        assert running.run() == numbers(9, 12)


def test_a_node_that_comes_back_at_another_address_goes_on(tmp_path: Path, topic: str) -> None:
    with lookupd_of() as lookupd:
        with running_nsqd(data_path=str(tmp_path)) as nsqd:
            publish(nsqd.http_address, topic, numbers(0, 3))
            tell_nodes(lookupd, nsqd.http_address)
            running = query("", topic, nsqd=None, lookupd=lookupd.address)
            assert running.run() == numbers(0, 3)
            publish(nsqd.http_address, topic, numbers(3, 6))

        with running_nsqd(data_path=str(tmp_path)) as nsqd:
            tell_nodes(lookupd, nsqd.http_address)

            assert running.run() == numbers(3, 6)
            assert running.is_idle


def test_a_planned_batch_is_read_from_where_its_node_is_now(tmp_path: Path, topic: str) -> None:
    with lookupd_of() as lookupd:
        with running_nsqd(data_path=str(tmp_path)) as nsqd:
            publish(nsqd.http_address, topic, numbers(0, 3))
            tell_nodes(lookupd, nsqd.http_address)
            running = query("", topic, nsqd=None, lookupd=lookupd.address)
            end = running.plan()

        with running_nsqd(data_path=str(tmp_path)) as nsqd:
            tell_nodes(lookupd, nsqd.http_address)

            assert running.read(running.at, end) == numbers(0, 3)


def test_one_node_under_two_addresses_is_refused(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 3))
    twins = f"{node},{node.replace('127.0.0.1', 'localhost')}"

    with pytest.raises(OptionError, match=f"option nsqd '{twins}': have the same log of topic {topic}"):
        query(twins, topic).plan()


def test_a_node_that_is_down_is_named(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 3))

    with pytest.raises(NodeError, match=r"node 127\.0\.0\.1:1: /log/offsets failed 1 times: .*refused"):
        query(f"{node},{NOWHERE}", topic).plan()


def test_a_node_that_goes_down_before_its_range_is_read_is_named(topic: str) -> None:
    with running_nsqd() as nsqd:
        publish(nsqd.http_address, topic, numbers(0, 3))
        running = query(nsqd.http_address, topic)
        end = running.plan()
        parts = running.reader.partitions(running.at, end)
        address = nsqd.http_address

    with pytest.raises(NodeError, match=f"node {address}: /log/index failed 1 times"):
        running.reader.partitions(running.at, end)
    with pytest.raises(NodeError, match=f"node {address}: /log/read failed 1 times"):
        list(running.reader.read(parts[0]))


def test_a_hanging_node_does_not_hang_the_query(topic: str) -> None:
    with http_node() as hanging:
        hanging.answers["/log/offsets"] = STALL

        with pytest.raises(
            NodeError, match=f"node {hanging.address}: /log/offsets failed 1 times: timed out"
        ):
            query(hanging.address, topic, requestTimeout=0.05).plan()


def test_offsets_that_jump_after_a_crash_are_read_over(tmp_path: Path, topic: str) -> None:
    with NsqdProcess(str(tmp_path)) as nsqd:
        publish(nsqd.http_address, topic, numbers(0, 5))
        nsqd.kill()
    with NsqdProcess(str(tmp_path)) as nsqd, lookupd_of(nsqd.http_address) as lookupd:
        publish(nsqd.http_address, topic, numbers(5, 10))
        first, next_ = bounds(nsqd.http_address, topic)
        assert next_ - first > 1 << 20

        options = {"nsqd": None, "lookupd": lookupd.address}
        limited = query("", topic, **options, maxOffsetsPerTrigger=3)
        split = query("", topic, **options, minPartitions=4)

        assert [body for _ in range(6) for body in limited.run()] == numbers(0, 10)
        assert limited.is_idle
        assert split.run() == numbers(0, 10)
        nsqd.kill()
    with NsqdProcess(str(tmp_path)) as nsqd:
        tell_nodes(lookupd, nsqd.http_address)
        with lookupd_of(nsqd.http_address) as lookupd:
            after = query("", topic, start=split.at, nsqd=None, lookupd=lookupd.address)
            assert after.run() == []
            publish(nsqd.http_address, topic, numbers(10, 12))
            assert after.run() == numbers(10, 12)


# What is gone -----------------------------------------------------------------------------------------


def recreate(node: str, topic: str) -> None:
    ask(node, "POST", "/topic/delete", topic=topic)
    publish(node, topic, numbers(100, 105))


def test_a_topic_that_was_made_anew_is_an_error_or_a_logged_gap(
    node: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic)
    running.run()
    recreate(node, topic)

    with pytest.raises(
        DataLossError, match=rf"topic {topic} on node {node}: was deleted and made anew after"
    ):
        running.plan()
    lenient = query(node, topic, start=running.at, failOnDataLoss="false")
    assert lenient.run() == numbers(100, 105)
    assert lenient.is_idle
    assert "was deleted and made anew" in caplog.text


def test_a_topic_that_was_deleted_is_an_error_or_a_logged_gap(
    node: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic)
    running.run()
    ask(node, "POST", "/topic/delete", topic=topic)

    with pytest.raises(DataLossError, match="was deleted after offset"):
        running.plan()
    lenient = query(node, topic, start=running.at, failOnDataLoss="false")
    assert lenient.run() == []
    assert lenient.is_idle
    publish(node, topic, numbers(10, 20))
    assert lenient.run() == numbers(10, 20)
    assert caplog.text.count("was deleted") == 1


def test_what_retention_removed_is_an_error_or_a_logged_gap(
    node: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, maxOffsetsPerTrigger=5)
    assert running.run() == numbers(0, 5)
    first = lose_all(node, topic)

    with pytest.raises(DataLossError, match=rf"offsets \d+ to {first} are no longer kept"):
        running.plan()
    lenient = query(node, topic, start=running.at, failOnDataLoss="false")
    assert lenient.run()[-1] == b"y"
    assert f"to {first} are no longer kept" in caplog.text


def test_what_goes_between_planning_and_reading_is_an_error_or_a_logged_gap(
    node: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(node, topic, numbers(0, 10))
    strict, lenient = query(node, topic), query(node, topic, failOnDataLoss="false")
    end = strict.plan()
    parts = strict.reader.partitions(strict.at, end)
    recreate(node, topic)

    with pytest.raises(DataLossError, match="was deleted and made anew; offsets from"):
        strict.reader.partitions(strict.at, end)
    with pytest.raises(DataLossError, match="was deleted and made anew; offsets from"):
        list(strict.reader.read(parts[0]))
    assert lenient.read(lenient.at, end) == []
    assert list(lenient.reader.read(parts[0])) == []
    assert caplog.text.count("was deleted and made anew") == 2


def test_what_retention_takes_while_it_is_read_is_an_error_or_a_logged_gap(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, failOnDataLoss="false")
    end = running.plan()
    parts = running.reader.partitions(running.at, end)
    lose_all(node, topic)

    assert running.read(running.at, end) == []
    assert list(running.reader.read(parts[0])) == []
    with pytest.raises(DataLossError, match="are no longer kept; see --retention-time"):
        list(query(node, topic).reader.read(parts[0]))


def test_what_goes_while_a_batch_is_planned_is_left_to_the_next() -> None:
    with http_node() as node:
        found = {"uuid": "f00d", "first": 1, "next": 9}
        node.answers["/log/offsets"] = [json_reply(found), json_reply({**found, "first": 5})]
        node.answers["/log/index"] = json_reply({"message": "OFFSET_OUT_OF_RANGE"}, 416)
        lenient = query(node.address, "t", maxOffsetsPerTrigger=3, failOnDataLoss="false")

        assert lenient.plan()["n"]["t"][node.address]["at"] == 1


def test_a_starting_offset_that_is_gone_is_an_error_or_a_logged_gap(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    at = json.dumps({topic: {node: bounds(node, topic)[0]}})
    lose_all(node, topic)

    with pytest.raises(DataLossError, match="of startingOffsets is older than"):
        query(node, topic, startingOffsets=at).plan()
    assert query(node, topic, startingOffsets=at, failOnDataLoss="false").run()[-1] == b"y"


# Partitions -------------------------------------------------------------------------------------------


def test_a_log_is_read_by_as_many_tasks_as_wished(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 1000))
    running = query(node, topic, minPartitions=4)

    parts = running.parts(running.at, running.plan())

    assert len(parts) == 4
    assert all(245 < len(part) < 255 for part in parts)
    assert [body for part in parts for body in part] == numbers(0, 1000)


def test_many_small_topics_are_read_by_one_task(node: str, topic: str) -> None:
    names = [f"{topic[:50]}_{number}" for number in range(20)]
    for name in names:
        publish(node, name, [name.encode()])
    running = query(node, topic, topic=None, topics=",".join(names))

    assert [sorted(part) for part in running.parts(running.at, running.plan())] == [
        sorted(name.encode() for name in names)
    ]


def test_what_spark_makes_of_no_partitions_is_read_as_nothing(node: str, topic: str) -> None:
    running = query(node, topic)

    assert running.reader.partitions(running.at, running.plan()) == []
    assert list(running.reader.read(InputPartition(None))) == []


def test_the_reader_and_its_partitions_travel_by_value(node: str, topic: str) -> None:
    """Tasks get another instance: what planning left in the first one must not matter."""
    publish(node, topic, numbers(0, 10))
    running = query(node, topic)
    parts = running.reader.partitions(running.at, running.plan())

    reader, sent = pickle.loads(pickle.dumps((running.reader, parts)))

    assert vars(reader).keys() == {"_options"}
    assert [batch.num_rows for part in sent for batch in reader.read(part)] == [10]


# Progress ---------------------------------------------------------------------------------------------


def test_the_channel_follows_what_spark_has_committed(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, channel="spark", maxOffsetsPerTrigger=6)
    running.run()
    assert channel_depth(node, topic, "spark") == 10

    running.reader.commit(through_text(running.at))

    assert channel_depth(node, topic, "spark") == 4


def test_retention_waits_for_the_channel(topic: str) -> None:
    with running_nsqd(max_bytes_per_file=SMALL_FILES) as nsqd:
        node = nsqd.http_address
        publish(node, topic, numbers(0, 10))
        running = query(node, topic, channel="spark", maxOffsetsPerTrigger=6)
        running.run()
        first, next_ = bounds(node, topic)
        ask(node, "POST", "/channel/create", topic=topic, channel="other", **{"from": first})
        ask(node, "POST", "/channel/commit", topic=topic, channel="other", offset=next_)

        lost = nsqd.call(lambda daemon: daemon.broker.topics[topic].core.log.first)
        assert lost == first
        assert running.run() == numbers(6, 10)


def test_a_commit_that_fails_does_not_kill_the_query(
    node: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, channel="spark")
    running.run()
    ask(node, "POST", "/topic/delete", topic=topic)

    with caplog.at_level(logging.WARNING):
        running.reader.commit(running.at)

    assert "channel spark of topic" in caplog.text


def test_what_is_reported_as_latest_is_what_was_seen_and_asks_nobody(node: str, topic: str) -> None:
    publish(node, topic, numbers(0, 10))
    running = query(node, topic, maxOffsetsPerTrigger=3)
    assert running.reader.reportLatestOffset() is None
    running.plan()

    found = running.reader.reportLatestOffset()

    assert found is not None
    assert found["n"][topic][node]["at"] == bounds(node, topic)[1]


def test_stopping_needs_nothing_and_may_come_never(node: str, topic: str) -> None:
    running = query(node, topic)
    running.reader.stop()

    assert running.run() == []


def test_a_batch_takes_few_calls(topic: str) -> None:
    with http_node() as counted:
        counted.answers["/log/offsets"] = json_reply({"uuid": "f00d", "first": 1, "next": 9})
        counted.answers["/log/index"] = json_reply({"uuid": "f00d", "marks": [[9, 100, 8]]})
        counted.answers["/channel/create"] = counted.answers["/channel/commit"] = json_reply({"offset": 1})
        running = query(counted.address, topic, channel="spark", maxOffsetsPerTrigger=100)
        end = running.plan()
        running.reader.partitions(running.at, end)
        counted.asked.clear()

        running.reader.latestOffset(end, ReadMaxRows(100))
        running.reader.reportLatestOffset()
        running.reader.commit(end)
        running.reader.commit(end)

        assert counted.paths() == ["/log/offsets", "/channel/commit"]
