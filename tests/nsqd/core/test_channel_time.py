"""One channel over time: timeouts, delays, what is dropped, and restarts."""

import pytest

from nsqlake.nsqd.core.channel import Channel, Outcome
from nsqlake.nsqd.core.topic import Topic
from tests.nsqd.core.harness import SECOND_NS, fin_lines, id_of
from tests.nsqd.core.support import (
    FIRST,
    MAX_TIMEOUT_NS,
    NOW_NS,
    TIMEOUT_NS,
    MovingLog,
    channel_with,
    consumer,
    counts,
    new_topic,
    offsets_of,
    publish,
    publish_many,
    receive,
    receive_all,
)

# Timeouts


def test_message_times_out_at_its_deadline_and_not_before() -> None:
    _, channel = channel_with(2)
    sub = consumer(channel, 2)
    receive_all(channel)
    assert channel.next_wakeup_ns == NOW_NS + TIMEOUT_NS

    channel.expire(NOW_NS + TIMEOUT_NS - 1)
    assert counts(channel) == (0, 2, 0)
    channel.expire(NOW_NS + TIMEOUT_NS)

    assert counts(channel) == (2, 0, 0)
    assert (channel.timeout_count, sub.in_flight) == (2, 0)
    assert channel.next_wakeup_ns is None
    assert channel.finish(sub, id_of(FIRST)) is Outcome.NOT_IN_FLIGHT


def test_only_the_rest_of_a_run_times_out() -> None:
    _, channel = channel_with(5)
    sub = consumer(channel, 5)
    receive_all(channel)
    channel.finish(sub, id_of(FIRST + 1))
    channel.requeue(sub, id_of(FIRST + 2), 0, NOW_NS)
    receive_all(channel, NOW_NS + SECOND_NS)

    channel.expire(NOW_NS + TIMEOUT_NS)

    assert counts(channel) == (3, 1, 0)
    assert channel.next_wakeup_ns == NOW_NS + TIMEOUT_NS + SECOND_NS
    channel.expire(NOW_NS + TIMEOUT_NS + SECOND_NS)
    assert counts(channel) == (4, 0, 0)


def test_each_consumer_has_its_own_timeout() -> None:
    _, channel = channel_with(2)
    consumer(channel, 1, msg_timeout_ns=2 * SECOND_NS)
    consumer(channel, 1, msg_timeout_ns=SECOND_NS)
    receive_all(channel)

    channel.expire(NOW_NS + SECOND_NS)

    assert counts(channel) == (1, 1, 0)
    assert channel.next_wakeup_ns == NOW_NS + 2 * SECOND_NS


def test_touched_message_lives_longer() -> None:
    _, channel = channel_with(2)
    sub = consumer(channel, 2)
    receive_all(channel)

    assert channel.touch(sub, id_of(FIRST), NOW_NS + SECOND_NS) is Outcome.DONE
    channel.expire(NOW_NS + TIMEOUT_NS)

    assert counts(channel) == (1, 1, 0)
    channel.expire(NOW_NS + TIMEOUT_NS + SECOND_NS)
    assert counts(channel) == (2, 0, 0)


def test_touch_cannot_go_beyond_the_longest_timeout() -> None:
    _, channel = channel_with(2)
    sub = consumer(channel, 2)
    receive_all(channel)
    almost_ns = NOW_NS + MAX_TIMEOUT_NS - SECOND_NS

    for now_ns in range(NOW_NS, almost_ns + 1, 30 * SECOND_NS):
        channel.touch(sub, id_of(FIRST + 1), now_ns)
        channel.expire(now_ns)
    assert channel.ledger.out.owner(FIRST + 1) == sub.slot
    channel.touch(sub, id_of(FIRST + 1), almost_ns)
    channel.expire(NOW_NS + MAX_TIMEOUT_NS)

    assert counts(channel) == (2, 0, 0)


def test_touch_of_a_message_delivered_again_counts_from_its_latest_delivery() -> None:
    _, channel = channel_with(1, max_msg_timeout_ns=TIMEOUT_NS + SECOND_NS)
    sub = consumer(channel, 1)
    receive_all(channel)
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
    later_ns = NOW_NS + 10 * SECOND_NS
    receive_all(channel, later_ns)

    channel.touch(sub, id_of(FIRST), later_ns + 5 * SECOND_NS)

    assert channel.ledger.deadlines.items() == [(FIRST, later_ns + TIMEOUT_NS + SECOND_NS)]


def test_touch_finds_the_run_of_a_message_among_others() -> None:
    topic, channel = channel_with(1)
    sub = consumer(channel, 9)
    receive_all(channel)
    publish(topic, b"x")
    receive_all(channel, NOW_NS + SECOND_NS)

    channel.touch(sub, id_of(FIRST + 1), NOW_NS + 2 * SECOND_NS)

    assert channel.ledger.sent_ns == {FIRST + 1: NOW_NS + SECOND_NS}


def test_touch_of_a_message_whose_run_is_unknown_counts_from_now() -> None:
    _, channel = channel_with(1)
    sub = consumer(channel, 9)
    receive_all(channel)
    sub.runs.clear()

    channel.touch(sub, id_of(FIRST), NOW_NS + 2 * SECOND_NS)

    assert channel.ledger.sent_ns == {FIRST: NOW_NS + 2 * SECOND_NS}


def test_deadline_of_a_message_nobody_owns_is_passed_over() -> None:
    _, channel = channel_with(1)
    channel.ledger.deadlines.add(FIRST, NOW_NS)

    channel.expire(NOW_NS)

    assert channel.timeout_count == 0


@pytest.mark.parametrize("is_fin_first", [True, False])
def test_exactly_one_of_timeout_and_fin_wins(is_fin_first: bool) -> None:
    _, channel = channel_with(1)
    sub = consumer(channel, 1)
    receive_all(channel)

    if is_fin_first:
        assert channel.finish(sub, id_of(FIRST)) is Outcome.DONE
    channel.expire(NOW_NS + TIMEOUT_NS)
    if not is_fin_first:
        assert channel.finish(sub, id_of(FIRST)) is Outcome.NOT_IN_FLIGHT

    assert counts(channel) == ((0, 0, 0) if is_fin_first else (1, 0, 0))
    assert sub.in_flight == 0


def test_old_runs_are_forgotten_although_one_message_of_the_first_stays() -> None:
    topic, channel = channel_with()
    sub = consumer(channel, 2500)
    for number in range(300):
        publish(topic, b"x")
        receive(channel, NOW_NS + number)
        if number:
            channel.finish(sub, id_of(FIRST + number))

    assert len(sub.runs) < 70
    assert sub.runs[0] == (NOW_NS + TIMEOUT_NS, FIRST, 1)


def test_first_run_is_forgotten_when_it_is_over() -> None:
    topic, channel = channel_with(2)
    sub = consumer(channel, 10)
    receive(channel)
    publish(topic, b"x")
    receive(channel, NOW_NS + 5)

    channel.finish_run(sub, fin_lines([FIRST, FIRST + 1]))

    assert list(sub.runs) == [(NOW_NS + 5 + TIMEOUT_NS, FIRST + 2, 1)]


# Deferred


def test_delayed_message_comes_when_it_is_due() -> None:
    topic, channel = channel_with()
    consumer(channel)
    publish(topic, b"later", due_ns=NOW_NS + SECOND_NS)
    publish(topic, b"now")

    assert [message.body for message in receive_all(channel)] == [b"now"]
    channel.expire(NOW_NS + SECOND_NS)
    messages = receive_all(channel, NOW_NS + SECOND_NS)

    assert [(message.body, message.attempts) for message in messages] == [(b"later", 1)]


def test_block_that_is_absorbed_in_part_is_absorbed_once() -> None:
    topic, channel = channel_with()
    publish(topic, b"a", b"b", b"c", due_ns=NOW_NS + SECOND_NS)
    channel.ledger.reset(FIRST)
    channel.ledger.absorbed = FIRST + 1

    channel.absorb_due(NOW_NS)

    assert [offset for offset, _ in channel.ledger.deferred.items()] == [FIRST + 1, FIRST + 2]


def test_delay_that_is_over_wakes_the_channel_at_once() -> None:
    topic = new_topic()
    publish(topic, b"past", due_ns=NOW_NS - SECOND_NS)

    channel = topic.add_channel("c", NOW_NS)

    assert channel.next_wakeup_ns == NOW_NS


# Depth


def test_backend_depth_is_what_is_to_be_delivered_and_not_in_memory() -> None:
    log = MovingLog()
    topic, channel = channel_with(10, log=log)
    publish(topic, b"x", b"y", due_ns=NOW_NS + SECOND_NS)
    publish_many(topic, 5)
    log.in_memory_from = FIRST + 14

    assert (channel.depth, channel.backend_depth) == (15, 12)


def test_backend_depth_leaves_deferred_blocks_in_memory_alone() -> None:
    log = MovingLog()
    topic, channel = channel_with(10, log=log)
    publish(topic, b"x", b"y", due_ns=NOW_NS + SECOND_NS)
    log.in_memory_from = FIRST + 10

    assert channel.backend_depth == 10


# Ephemeral channels


def test_ephemeral_channel_keeps_the_newest_messages() -> None:
    topic, channel = channel_with(2, name="c#ephemeral", ephemeral_depth=3)
    publish(topic, b"later", due_ns=NOW_NS + SECOND_NS)
    publish_many(topic, 4)

    channel.trim()

    assert counts(channel) == (3, 0, 1)
    consumer(channel)
    assert offsets_of(receive_all(channel)) == [FIRST + 4, FIRST + 5, FIRST + 6]


def test_ephemeral_channel_with_little_in_it_keeps_all() -> None:
    _, channel = channel_with(3, name="c#ephemeral", ephemeral_depth=3)

    channel.trim()

    assert channel.depth == 3


def test_other_channels_keep_all() -> None:
    _, channel = channel_with(50)

    channel.trim()

    assert channel.depth == 50


def test_trimming_ends_where_nothing_is_left_or_can_be_read() -> None:
    log = MovingLog()
    _, channel = channel_with(50, name="c#ephemeral", log=log)
    log.is_readable = False
    channel.trim()
    assert channel.depth == 50

    log.is_readable = True
    log.has_content = False
    channel.trim()
    assert channel.ledger.cursor == log.next


# Administration


def test_emptied_channel_forgets_everything_and_goes_on() -> None:
    topic, channel = channel_with(10)
    sub = consumer(channel, 4)
    receive_all(channel)
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
    channel.requeue(sub, id_of(FIRST + 1), SECOND_NS, NOW_NS)

    channel.empty()

    assert counts(channel) == (0, 0, 0)
    assert sub.in_flight == 0
    assert channel.next_wakeup_ns is None
    assert channel.finish(sub, id_of(FIRST + 2)) is Outcome.NOT_IN_FLIGHT
    publish(topic, b"next")
    assert [message.body for message in receive_all(channel)] == [b"next"]


def test_emptied_channel_tries_an_unreadable_log_again() -> None:
    log = MovingLog()
    topic, channel = channel_with(10, log=log)
    consumer(channel, 4)
    log.is_readable = False
    receive_all(channel)
    log.is_readable = True

    channel.empty()
    publish(topic, b"next")

    assert len(receive_all(channel)) == 1


# After a restart


def restarted(topic: Topic, channel: Channel) -> Channel:
    ledger = topic.new_ledger(0)
    assert ledger.replay(channel.ledger.snapshot())
    again = topic.restore_channel(channel.name, ledger)
    again.recover(NOW_NS)
    return again


def test_recovered_channel_has_everything_with_its_attempts() -> None:
    topic, channel = channel_with(6)
    sub = consumer(channel, 4)
    receive_all(channel)
    channel.finish(sub, id_of(FIRST))
    channel.requeue(sub, id_of(FIRST + 1), SECOND_NS, NOW_NS)
    publish(topic, b"later", due_ns=NOW_NS + 2 * SECOND_NS)

    again = restarted(topic, channel)

    assert counts(again) == (4, 0, 2)
    assert again.next_wakeup_ns == NOW_NS
    assert again.message_count == 0
    consumer(again)
    again.expire(NOW_NS + 2 * SECOND_NS)
    messages = receive_all(again, NOW_NS + 2 * SECOND_NS)
    assert {message.offset - FIRST: message.attempts for message in messages} == {
        1: 2, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1,
    }  # fmt: skip


def test_recovered_channel_begins_at_the_oldest_message_there_is() -> None:
    topic, channel = channel_with(log=MovingLog(mem_messages=4))
    publish_many(topic, 3)
    publish_many(topic, 3)

    again = restarted(topic, channel)

    assert again.ledger.cursor == FIRST + 3
    assert again.depth == 3
    assert again.next_wakeup_ns is None


def test_what_waits_but_is_gone_from_the_log_is_not_counted_after_a_restart() -> None:
    topic, channel = channel_with(log=MovingLog(mem_messages=4))
    publish_many(topic, 3)
    sub = consumer(channel, 3)
    receive_all(channel)
    channel.requeue(sub, id_of(FIRST), SECOND_NS, NOW_NS)
    publish_many(topic, 4)

    again = restarted(topic, channel)

    assert counts(again) == (4, 0, 0)
