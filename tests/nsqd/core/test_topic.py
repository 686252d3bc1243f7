"""A topic, its channels, and how far messages flow to them."""

from pathlib import Path

import pytest

from nsqlake.nsqd.core.topic import Topic
from nsqlake.topiclog import AppendError
from tests.fakes.faulty_files import FaultyFiles
from tests.nsqd.core.harness import ID_BASE, SECOND_NS
from tests.nsqd.core.support import (
    FIRST,
    NOW_NS,
    PAGE,
    MovingLog,
    consumer,
    new_topic,
    offsets_of,
    publish,
    publish_many,
    receive,
    receive_all,
)
from tests.topiclog.support import open_log, segment_paths


def test_messages_wait_in_a_topic_without_channels() -> None:
    topic = new_topic()

    assert publish(topic, b"a", b"bc") == FIRST

    assert topic.depth == 2
    assert (topic.message_count, topic.message_bytes) == (2, 3)


def test_first_channel_gets_the_backlog_and_later_ones_what_comes_after_them() -> None:
    topic = new_topic()
    publish_many(topic, 5)

    first = topic.add_channel("first", NOW_NS)
    second = topic.add_channel("second", NOW_NS)
    publish_many(topic, 2)

    assert (first.depth, second.depth, topic.depth) == (7, 2, 0)
    assert (first.message_count, second.message_count) == (7, 2)


def test_topic_that_lost_its_channels_keeps_messages_for_the_next_first_one() -> None:
    topic = new_topic()
    topic.add_channel("first", NOW_NS)
    publish_many(topic, 2)
    removed = topic.remove_channel("first")
    publish_many(topic, 3)

    again = topic.add_channel("again", NOW_NS)

    assert removed is not None
    assert removed.is_closed
    assert again.depth == 3
    assert topic.remove_channel("unknown") is None


def test_paused_topic_takes_messages_but_lets_none_flow() -> None:
    topic = new_topic()
    channel = topic.add_channel("c", NOW_NS)
    publish_many(topic, 2)
    topic.pause()
    publish_many(topic, 3)
    assert (topic.depth, channel.depth) == (3, 2)

    topic.unpause(NOW_NS)

    assert (topic.depth, channel.depth) == (0, 5)
    assert channel.message_count == 5


def test_channel_made_while_paused_gets_what_flows_later() -> None:
    topic = new_topic()
    topic.add_channel("a", NOW_NS)
    topic.pause()
    publish_many(topic, 3)

    late = topic.add_channel("b", NOW_NS)
    assert late.depth == 0
    topic.unpause(NOW_NS)

    assert late.depth == 3


def test_emptied_topic_drops_what_has_not_flowed_yet() -> None:
    topic = new_topic()
    channel = topic.add_channel("c", NOW_NS)
    publish_many(topic, 2)
    topic.pause()
    publish_many(topic, 3)

    topic.empty()
    publish(topic, b"next")
    topic.unpause(NOW_NS)

    assert (topic.depth, channel.depth, channel.message_count) == (0, 3, 3)
    consumer(channel)
    assert offsets_of(receive_all(channel)) == [FIRST, FIRST + 1, FIRST + 5]


def test_topic_that_is_emptied_again_and_again_delivers_none_of_it() -> None:
    topic = new_topic()
    for _ in range(3):
        publish_many(topic, 4)
        topic.empty()
    publish(topic, b"kept")

    channel = topic.add_channel("c", NOW_NS)
    consumer(channel)

    assert [message.body for message in receive_all(channel)] == [b"kept"]
    assert channel.message_count == 1


def test_delayed_publish_is_deferred_in_every_channel() -> None:
    topic = new_topic()
    channels = [topic.add_channel(name, NOW_NS) for name in "ab"]

    publish(topic, b"x", b"y", due_ns=NOW_NS + SECOND_NS)

    for channel in channels:
        assert (channel.depth, len(channel.ledger.deferred), channel.message_count) == (0, 2, 2)
        assert channel.next_wakeup_ns == NOW_NS + SECOND_NS


def test_delay_goes_on_while_no_channel_is_there() -> None:
    topic = new_topic()
    publish(topic, b"now")
    publish(topic, b"later", due_ns=NOW_NS + SECOND_NS)

    channel = topic.add_channel("c", NOW_NS)

    assert (channel.depth, len(channel.ledger.deferred)) == (1, 1)


@pytest.mark.parametrize("is_paused", [False, True])
def test_single_publish_is_like_any_other(is_paused: bool) -> None:
    topic = new_topic()
    channel = topic.add_channel("c", NOW_NS)
    topic.is_paused = is_paused

    topic.publish_one(b"\0\0\0\3abc", NOW_NS)

    assert (topic.message_count, topic.message_bytes) == (1, 3)
    assert (topic.depth, channel.depth, channel.message_count) == ((1, 0, 0) if is_paused else (0, 1, 1))


def test_single_publish_to_a_topic_without_channels_waits_there() -> None:
    topic = new_topic()

    topic.publish_one(b"\0\0\0\3abc", NOW_NS)
    topic.publish_one(b"\0\0\0\3def", NOW_NS)

    assert topic.depth == 2
    assert topic.add_channel("c", NOW_NS).depth == 2


def test_failed_append_changes_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    log, _ = open_log(tmp_path / "log", files=files)
    topic = new_topic(log)
    channel = topic.add_channel("c", NOW_NS)
    files.fail("writev", 28)

    with pytest.raises(AppendError, match="disk full"):
        publish(topic, b"x")

    assert (topic.message_count, topic.message_bytes, channel.depth) == (0, 0, 0)
    publish(topic, b"x")
    assert channel.depth == 1
    log.close()


def test_topic_is_ephemeral_by_its_name() -> None:
    assert new_topic(name="t#ephemeral").is_ephemeral
    assert not new_topic(name="t").is_ephemeral


def test_backend_depth_is_what_is_not_in_memory() -> None:
    log = MovingLog()
    topic = new_topic(log)
    publish_many(topic, 10)

    log.in_memory_from = FIRST + 6

    assert topic.backend_depth == 6


def test_fanout_and_emptied_parts_come_back_from_the_state_file() -> None:
    topic = new_topic()
    publish_many(topic, 3)
    topic.empty()
    publish_many(topic, 2)

    limits, random = topic._limits, topic._random
    again = Topic(
        "orders",
        topic.log,
        id_base=ID_BASE,
        limits=limits,
        random=random,
        fanout=topic.backlog.fanout,
        emptied=topic.backlog.emptied,
    )

    assert again.depth == 2
    assert again.new_ledger(FIRST).out.id_base == ID_BASE


# Storage


def test_nothing_is_retired_before_it_flowed_and_was_finished(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", max_bytes_per_file=200)
    topic = new_topic(log)
    for number in range(10):
        publish(topic, b"%090d" % number)
    assert topic.retire() == []

    channel = topic.add_channel("c", NOW_NS)
    sub = consumer(channel, 100)
    assert topic.retire() == []
    messages = receive_all(channel)
    assert topic.retire() == []

    for message in messages[:5]:
        channel.finish(sub, b"%016x" % (ID_BASE + message.offset))
    removed = topic.retire()

    assert len(removed) == 5
    assert log.oldest == messages[5].offset
    assert len(segment_paths(log.path)) == 5
    log.close()


def test_emptied_parts_are_forgotten_with_their_segments(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", max_bytes_per_file=200)
    topic = new_topic(log)
    publish(topic, b"%090d" % 1)
    topic.empty()
    publish(topic, b"%090d" % 2)
    topic.add_channel("c", NOW_NS)

    topic.retire()

    assert topic.backlog.emptied == []
    log.close()


def test_memory_is_trimmed_to_what_the_slowest_channel_needs(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", mem_messages=100)
    topic = new_topic(log)
    slow, quick = topic.add_channel("slow", NOW_NS), topic.add_channel("quick", NOW_NS)
    bases = [publish_many(topic, 5, size=size) for size in (10, 20, 30)]
    slow_sub = consumer(slow, 7)
    consumer(quick, 100)
    receive(slow)
    receive(quick)

    topic.trim()
    assert log.memory_first == bases[1]
    slow.set_ready(slow_sub, 100)
    receive(slow)
    topic.trim()

    assert log.memory_first == log.next
    log.close()


def test_message_count_does_not_shrink_when_storage_lets_go() -> None:
    topic = new_topic()
    channel = topic.add_channel("c", NOW_NS)
    sub = consumer(channel, 2 * PAGE)
    publish_many(topic, 10)
    for message in receive_all(channel):
        channel.finish(sub, b"%016x" % (ID_BASE + message.offset))

    topic.retire()

    assert topic.log.oldest == topic.log.next
    assert (channel.message_count, topic.message_count) == (10, 10)
