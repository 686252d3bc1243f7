"""Messages that are given up: when, what they count as, what a restart makes of them, how they leave."""

import msgspec
import pytest

from nsqlake.nsqd.core.channel import Channel
from nsqlake.nsqd.core.dead_letters import (
    DeadTag,
    Reason,
    dead_topic_name,
    decode_tag,
    discard_waiting,
    is_dead_topic,
    pass_over,
    unfinished,
)
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.core.topic import Topic
from nsqlake.wire.names import is_valid_name
from tests.nsqd.core.harness import ID_BASE, SECOND_NS, id_of
from tests.nsqd.core.support import (
    FIRST,
    NOW_NS,
    PAGE,
    TIMEOUT_NS,
    channel_with,
    consumer,
    counts,
    new_topic,
    offsets_of,
    publish,
    publish_many,
    receive_all,
)


def tried_out(max_attempts: int = 2, messages: int = 1, ready: int = 10) -> tuple[Channel, Subscription]:
    """A channel whose consumer has every message for the last time."""
    _, channel = channel_with(messages, max_attempts=max_attempts)
    sub = consumer(channel, ready)
    receive_all(channel)
    for _ in range(max_attempts - 1):
        for offset in range(FIRST, FIRST + messages):
            channel.requeue(sub, id_of(offset), 0, NOW_NS)
        receive_all(channel)
    return channel, sub


def replayed(ledger: Ledger) -> Ledger:
    """The ledger as a restart finds it."""
    again = Ledger(ID_BASE, 0)
    assert again.replay(ledger.snapshot())
    return again


# Given up


def test_a_message_requeued_too_often_is_given_up() -> None:
    channel, sub = tried_out(2)

    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)

    assert channel.ledger.dead == {FIRST: Reason.REQUEUED}
    assert (receive_all(channel), sub.in_flight, channel.dead_count) == ([], 0, 1)
    assert (sub.requeue_count, channel.requeue_count) == (2, 2)


def test_a_delay_does_not_save_it() -> None:
    channel, sub = tried_out(1)

    channel.requeue(sub, id_of(FIRST), 5 * SECOND_NS, NOW_NS)
    channel.expire(NOW_NS + 6 * SECOND_NS)

    assert (list(channel.ledger.dead), receive_all(channel)) == ([FIRST], [])


def test_messages_that_time_out_too_often_are_given_up() -> None:
    channel, _ = tried_out(1, messages=3)

    channel.expire(NOW_NS + TIMEOUT_NS)

    assert channel.ledger.dead == dict.fromkeys(range(FIRST, FIRST + 3), Reason.TIMED_OUT)
    assert channel.timeout_count == 3


def test_a_message_that_costs_every_consumer_its_connection_is_given_up() -> None:
    channel, sub = tried_out(2)

    channel.unsubscribe(sub)

    assert channel.ledger.dead == {FIRST: Reason.DISCONNECTED}


def test_nothing_is_given_up_before_its_time() -> None:
    channel, sub = tried_out(3)
    channel.max_attempts = 4

    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)

    assert (channel.ledger.dead, receive_all(channel)[0].attempts) == ({}, 4)


def test_without_a_limit_a_message_comes_for_ever() -> None:
    channel, sub = tried_out(1)
    channel.max_attempts = 0

    for _ in range(100):
        channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
        receive_all(channel)

    assert (channel.ledger.dead, channel.ledger.attempts[FIRST]) == ({}, 101)


def test_what_is_given_up_counts_in_the_depth_until_it_is_buried() -> None:
    channel, sub = tried_out(1, messages=3)
    for offset in (FIRST, FIRST + 1):
        channel.requeue(sub, id_of(offset), 0, NOW_NS)
    assert counts(channel) == (2, 1, 0)

    channel.ledger.bury(FIRST)
    channel.ledger.bury(FIRST)

    assert counts(channel) == (1, 1, 0)
    assert channel.ledger.holds(FIRST + 1, FIRST + 2)
    assert not channel.ledger.holds(FIRST, FIRST + 1)


def test_an_ephemeral_channel_drops_no_fresh_message_for_one_that_is_given_up() -> None:
    topic, channel = channel_with(2, name="c#ephemeral", max_attempts=1)
    sub = consumer(channel, 2)
    receive_all(channel)
    channel.set_ready(sub, 0)
    for offset in (FIRST, FIRST + 1):
        channel.requeue(sub, id_of(offset), 0, NOW_NS)

    publish_many(topic, 3)
    channel.trim()

    assert channel.depth == 5


def test_emptying_and_committing_forget_what_was_given_up() -> None:
    channel, sub = tried_out(1, messages=2)
    channel.expire(NOW_NS + TIMEOUT_NS)
    channel.commit(FIRST + 1)
    assert (list(channel.ledger.dead), channel.depth) == ([FIRST + 1], 1)

    channel.empty()
    channel.ledger.bury(FIRST + 1)

    assert (channel.ledger.dead, counts(channel), sub.in_flight) == ({}, (0, 0, 0), 0)


# Restart


def test_after_a_restart_it_is_delivered_once_more() -> None:
    channel, sub = tried_out(2)
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)

    again = replayed(channel.ledger)

    assert (list(again.requeued), again.attempts, again.dead) == ([FIRST], {FIRST: 2}, {})


def test_what_was_buried_does_not_come_back() -> None:
    channel, sub = tried_out(1, messages=2)
    entries = channel.ledger.snapshot()
    channel.ledger.pending.clear()
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
    channel.ledger.bury(FIRST)

    again = Ledger(ID_BASE, 0)
    again.replay([*entries, *channel.ledger.pending.take()])

    assert list(again.requeued) == [FIRST + 1]


# Policy


def limits_of(topic: Topic, own: int | None) -> int:
    channel = topic.add_channel("c", NOW_NS)
    topic.set_max_attempts(channel, own)
    return channel.max_attempts


def test_a_channel_may_have_a_limit_of_its_own() -> None:
    assert limits_of(new_topic(max_attempts=5), None) == 5
    assert limits_of(new_topic(max_attempts=5), 2) == 2
    assert limits_of(new_topic(max_attempts=5), 0) == 0
    assert limits_of(new_topic(), 2) == 2


def test_a_dead_letter_does_not_die_again_unless_its_channel_says_so() -> None:
    assert limits_of(new_topic(name="orders.c.dead", max_attempts=5), None) == 0
    assert limits_of(new_topic(name="orders.c.dead", max_attempts=5), 3) == 3


# Names and tags


def test_the_dead_topic_has_the_names_of_topic_and_channel() -> None:
    assert dead_topic_name("orders", "archive") == "orders.archive.dead"
    assert dead_topic_name("orders#ephemeral", "archive#ephemeral") == "orders.archive.dead"
    assert is_dead_topic("orders.archive.dead")
    assert not is_dead_topic("deadorders")


@pytest.mark.parametrize(("topic", "channel"), [(60, 60), (64, 1), (1, 64), (50, 8), (50, 9)])
def test_long_names_are_shortened_and_stay_apart(topic: int, channel: int) -> None:
    name = dead_topic_name("t" * topic, "c" * channel)

    assert is_valid_name(name.encode())
    assert is_dead_topic(name)
    assert name != dead_topic_name("t" * topic, "c" * (channel - 1) + "d")


def test_only_the_tag_of_a_dead_letter_is_taken_for_one() -> None:
    tag = DeadTag("requeued", "t", "c", "0" * 16, 5, 1, 2)

    assert decode_tag(msgspec.json.encode(tag)) == tag
    assert decode_tag(b'{"replayed_from":"t.c.dead","channel":"c","id":"1"}') is None
    assert decode_tag(b"\xff") is None


# Leaving


def test_unfinished_messages_are_those_that_wait_are_out_or_are_fresh() -> None:
    topic, channel = channel_with(6)
    sub = consumer(channel, 5)
    receive_all(channel)
    channel.finish(sub, id_of(FIRST))
    channel.requeue(sub, id_of(FIRST + 4), SECOND_NS, NOW_NS)
    channel.set_ready(sub, 0)
    channel.requeue(sub, id_of(FIRST + 2), 0, NOW_NS)

    ranges = unfinished(channel.ledger, topic.backlog.fanout)

    assert [offset for start, stop in ranges for offset in range(start, stop)] == [
        FIRST + number for number in (1, 2, 3, 4, 5)
    ]


def test_passing_over_leaves_messages_ready_as_if_never_sent() -> None:
    topic, channel = channel_with(5)

    assert not pass_over(channel.ledger, topic.backlog, FIRST + 3, 2)
    assert pass_over(channel.ledger, topic.backlog, FIRST + 3, 2)
    channel.ledger.drop_fresh(FIRST + 3, 1)

    assert channel.depth == 4
    consumer(channel)
    received = receive_all(channel)
    assert sorted(offsets_of(received)) == [FIRST, FIRST + 1, FIRST + 2, FIRST + 4]
    assert {message.attempts for message in received} == {1}


def test_what_was_passed_over_outlives_a_restart() -> None:
    topic, channel = channel_with(5)
    entries = channel.ledger.snapshot()
    channel.ledger.pending.clear()
    pass_over(channel.ledger, topic.backlog, FIRST + 3, 100)
    channel.ledger.drop_fresh(FIRST + 3, 1)

    again = Ledger(ID_BASE, 0)
    again.replay([*entries, *channel.ledger.pending.take()])

    assert (again.cursor, sorted(again.requeued)) == (FIRST + 4, [FIRST, FIRST + 1, FIRST + 2])


def test_passing_over_skips_delayed_blocks_and_gaps() -> None:
    topic, channel = channel_with(2)
    publish(topic, b"late", due_ns=NOW_NS + SECOND_NS)
    publish(topic, b"now")

    assert pass_over(channel.ledger, topic.backlog, FIRST + 3, 100)

    assert (channel.ledger.ahead, counts(channel)) == (0, (3, 0, 1))
    assert pass_over(channel.ledger, topic.backlog, topic.backlog.fanout, 100)
    assert channel.depth == 3


def test_passing_over_what_was_emptied_only_moves_the_cursor() -> None:
    topic, channel = channel_with(2)
    topic.backlog.skip(FIRST, FIRST + 2)
    publish(topic, b"kept")

    assert pass_over(channel.ledger, topic.backlog, FIRST + 2, 100)

    assert (channel.ledger.cursor, channel.depth) == (FIRST + 2, 1)


def test_passing_over_crosses_pages() -> None:
    topic, channel = channel_with(PAGE + 10)

    assert pass_over(channel.ledger, topic.backlog, FIRST + PAGE + 5, 2 * PAGE)

    assert channel.depth == PAGE + 10
    assert channel.ledger.holds(FIRST + PAGE + 1, FIRST + PAGE + 2)


def test_messages_that_wait_are_finished_and_others_left() -> None:
    _, channel = channel_with(5)
    sub = consumer(channel, 4)
    receive_all(channel)
    channel.set_ready(sub, 0)
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
    channel.requeue(sub, id_of(FIRST + 1), 0, NOW_NS)
    channel.requeue(sub, id_of(FIRST + 2), SECOND_NS, NOW_NS)

    gone = discard_waiting(channel.ledger, [FIRST, FIRST + 2, FIRST + 3, FIRST + 4])

    assert (gone, counts(channel)) == (2, (2, 1, 0))
    assert discard_waiting(channel.ledger, [FIRST + 3]) == 0
