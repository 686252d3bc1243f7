"""Seek and commit of a channel while messages are fresh, out, requeued and deferred."""

import pytest

from nsqlake.nsqd.core.channel import Channel, Outcome
from nsqlake.nsqd.core.journal import Kind
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.core.topic import Topic
from tests.nsqd.core.harness import ID_BASE, SECOND_NS, fin_lines, id_of
from tests.nsqd.core.support import (
    FIRST,
    NOW_NS,
    PAGE,
    TIMEOUT_NS,
    channel_with,
    consumer,
    counts,
    offsets_of,
    publish,
    publish_many,
    receive_all,
)

END = FIRST + 10


def busy_channel() -> tuple[Topic, Channel, Subscription]:
    """Ten messages: 0 deferred by REQ, 1 requeued, 2 and 3 out, 4 finished, the rest fresh."""
    topic, channel = channel_with(10)
    sub = consumer(channel, 5)
    assert offsets_of(receive_all(channel)) == list(range(FIRST, FIRST + 5))
    channel.set_ready(sub, 0)
    channel.requeue(sub, id_of(FIRST), 5 * SECOND_NS, NOW_NS)
    channel.requeue(sub, id_of(FIRST + 1), 0, NOW_NS)
    channel.finish(sub, id_of(FIRST + 4))
    assert counts(channel) == (6, 2, 1)
    return topic, channel, sub


def replayed(ledger: Ledger) -> Ledger:
    """What a restart makes of the journal."""
    again = Ledger(ID_BASE, 0)
    assert again.replay([(Kind.RESET, FIRST, FIRST, 0), *ledger.pending.take()])
    return again


# Seek


def test_seek_forgets_what_is_out_requeued_and_deferred() -> None:
    _, channel, sub = busy_channel()

    channel.seek(FIRST + 3, NOW_NS)

    assert counts(channel) == (7, 0, 0)
    assert (sub.in_flight, len(sub.runs)) == (0, 0)
    assert channel.finish(sub, id_of(FIRST + 2)) is Outcome.NOT_IN_FLIGHT
    assert not channel.finish_run(sub, fin_lines([FIRST + 2, FIRST + 3]))


def test_delivery_goes_on_at_the_target_of_a_seek_with_first_attempts() -> None:
    _, channel, sub = busy_channel()

    channel.seek(FIRST, NOW_NS)
    channel.set_ready(sub, 100)
    received = receive_all(channel)

    assert offsets_of(received) == list(range(FIRST, END))
    assert {message.attempts for message in received} == {1}
    assert sub.in_flight == 10


def test_consumers_with_room_need_not_ask_again_after_a_seek() -> None:
    _, channel = channel_with(3)
    consumer(channel, 3)
    receive_all(channel)
    assert not channel.can_deliver

    channel.seek(FIRST + 1, NOW_NS)

    assert offsets_of(receive_all(channel)) == [FIRST + 1, FIRST + 2]


def test_nothing_times_out_that_was_out_before_a_seek() -> None:
    _, channel, sub = busy_channel()

    channel.seek(END, NOW_NS)
    channel.expire(NOW_NS + 10 * TIMEOUT_NS)

    assert (channel.timeout_count, channel.depth, sub.in_flight) == (0, 0, 0)
    assert channel.next_wakeup_ns is None


def test_seek_into_delayed_messages_delivers_none_before_its_time() -> None:
    topic, channel = channel_with()
    base = publish(topic, b"a", b"b", b"c", due_ns=NOW_NS + 5 * SECOND_NS)
    publish(topic, b"now")
    consumer(channel)
    receive_all(channel)

    channel.seek(base + 1, NOW_NS)

    assert counts(channel) == (1, 0, 2)
    assert offsets_of(receive_all(channel)) == [base + 3]
    assert channel.next_wakeup_ns == NOW_NS + 5 * SECOND_NS
    channel.expire(NOW_NS + 5 * SECOND_NS)
    assert offsets_of(receive_all(channel, NOW_NS + 5 * SECOND_NS)) == [base + 1, base + 2]


def test_seek_to_delayed_messages_whose_time_is_over_has_them_at_once() -> None:
    topic, channel = channel_with()
    base = publish(topic, b"a", b"b", due_ns=NOW_NS + SECOND_NS)
    channel.empty()

    channel.seek(base, NOW_NS + 2 * SECOND_NS)

    consumer(channel)
    assert counts(channel) == (2, 0, 0)
    assert offsets_of(receive_all(channel)) == [base, base + 1]


def test_messages_that_a_pause_holds_back_do_not_flow_after_a_seek() -> None:
    topic, channel = channel_with(3)
    topic.pause()
    publish_many(topic, 4)
    consumer(channel, 100)

    channel.seek(FIRST, NOW_NS)

    assert offsets_of(receive_all(channel)) == [FIRST, FIRST + 1, FIRST + 2]


def test_seek_beyond_what_a_pause_holds_back_skips_it() -> None:
    topic, channel = channel_with(3)
    topic.pause()
    publish_many(topic, 4)
    publish(topic, b"late", b"later", due_ns=NOW_NS + SECOND_NS)
    consumer(channel, 100)

    channel.seek(FIRST + 8, NOW_NS)
    channel.empty()  # must not lead back
    topic.unpause(NOW_NS)

    assert counts(channel) == (0, 0, 1)
    channel.expire(NOW_NS + SECOND_NS)
    assert offsets_of(receive_all(channel)) == [FIRST + 8]


def test_seek_moves_only_its_own_channel() -> None:
    topic, channel = channel_with(5)
    other = topic.add_channel("other", NOW_NS, FIRST + 4)

    channel.seek(FIRST + 2, NOW_NS)

    assert (channel.depth, other.depth) == (3, 1)


def test_storage_keeps_what_a_seek_asks_for_again() -> None:
    topic, channel, _ = busy_channel()
    channel.seek(END, NOW_NS)
    assert not topic.needs(FIRST, END)

    channel.seek(FIRST + 3, NOW_NS)

    assert topic.needs(FIRST, FIRST + 4)


@pytest.mark.parametrize("target", [FIRST, FIRST + 3, END])
def test_a_seek_is_in_the_journal_with_all_that_follows_it(target: int) -> None:
    topic, channel, sub = busy_channel()
    publish(topic, b"late", due_ns=NOW_NS + SECOND_NS)

    channel.seek(target, NOW_NS)
    channel.set_ready(sub, 1)
    channel.pump(NOW_NS)

    again = replayed(channel.ledger)
    assert (again.cursor, list(again.requeued)) == ((target + 1, [target]) if target < END else (END, []))
    assert again.deferred.items() == [(END, NOW_NS + SECOND_NS)]


# A channel that begins somewhere


def test_a_channel_may_begin_before_what_flows_or_behind_it() -> None:
    topic, _ = channel_with(10)
    publish(topic, b"late", due_ns=NOW_NS + SECOND_NS)

    early = topic.add_channel("early", NOW_NS, FIRST + 2)
    late = topic.add_channel("late", NOW_NS, topic.log.next)

    assert (counts(early), counts(late)) == ((8, 0, 1), (0, 0, 0))
    assert early.next_wakeup_ns == NOW_NS + SECOND_NS


# Commit


def test_commit_finishes_what_lies_below_in_whatever_state() -> None:
    _, channel, sub = busy_channel()

    cursor = channel.commit(FIRST + 7)

    assert cursor == FIRST + 7
    assert counts(channel) == (3, 0, 0)
    assert (sub.in_flight, len(sub.runs)) == (0, 0)
    assert channel.finish(sub, id_of(FIRST + 3)) is Outcome.NOT_IN_FLIGHT


def test_commit_leaves_what_lies_above_with_its_owner() -> None:
    _, channel, sub = busy_channel()

    cursor = channel.commit(FIRST + 3)

    assert cursor == FIRST + 5
    assert counts(channel) == (5, 1, 0)
    assert sub.in_flight == 1
    assert channel.finish(sub, id_of(FIRST + 2)) is Outcome.NOT_IN_FLIGHT
    assert channel.finish(sub, id_of(FIRST + 3)) is Outcome.DONE
    assert sub.in_flight == 0


def test_what_is_left_of_a_run_times_out_as_before() -> None:
    _, channel, sub = busy_channel()
    channel.commit(FIRST + 3)

    channel.expire(NOW_NS + TIMEOUT_NS)

    assert (channel.timeout_count, sub.in_flight) == (1, 0)
    assert list(channel.ledger.requeued) == [FIRST + 3]


def test_an_older_commit_changes_nothing() -> None:
    _, channel = channel_with(10)
    channel.commit(FIRST + 6)
    channel.ledger.pending.clear()

    assert channel.commit(FIRST + 2) == FIRST + 6
    assert channel.commit(0) == FIRST + 6
    assert channel.depth == 4


def test_a_commit_makes_room_for_the_next_messages() -> None:
    _, channel = channel_with(4)
    consumer(channel, 2)
    receive_all(channel)

    channel.commit(FIRST + 3)

    assert offsets_of(receive_all(channel)) == [FIRST + 3]


def test_commit_in_the_middle_of_delayed_messages_leaves_the_rest_deferred() -> None:
    topic, channel = channel_with(2)
    publish(topic, b"a", b"b", b"c", due_ns=NOW_NS + SECOND_NS)
    publish_many(topic, 2)

    channel.commit(FIRST + 3)

    assert counts(channel) == (2, 0, 2)
    channel.expire(NOW_NS + SECOND_NS)
    assert counts(channel) == (4, 0, 0)
    consumer(channel)
    assert sorted(offsets_of(receive_all(channel))) == [FIRST + 3, FIRST + 4, FIRST + 5, FIRST + 6]


def test_commit_over_many_pages_lets_go_of_all_of_them() -> None:
    topic, channel = channel_with()
    for _ in range(5):
        publish_many(topic, PAGE)
    sub = consumer(channel, 2500)
    while sub.message_count < 3 * PAGE:
        receive_all(channel)
        channel.requeue(sub, id_of(channel.ledger.cursor - 1), 0, NOW_NS)
        channel.set_ready(sub, sub.ready + 2500)

    channel.commit(topic.log.next)

    assert counts(channel) == (0, 0, 0)
    assert len(channel.ledger.out.pages) == 0
    assert not channel.ledger.attempts
    assert not topic.needs(FIRST, topic.log.next)


def test_a_commit_beyond_what_flows_holds_when_it_flows() -> None:
    topic, channel = channel_with(2)
    topic.pause()
    publish_many(topic, 3)
    publish(topic, b"a", b"b", due_ns=NOW_NS + SECOND_NS)

    channel.commit(FIRST + 6)
    topic.unpause(NOW_NS)

    assert counts(channel) == (0, 0, 1)


@pytest.mark.parametrize("offset", [FIRST, FIRST + 3, FIRST + 7, END])
def test_a_commit_is_in_the_journal(offset: int) -> None:
    _, channel, _ = busy_channel()
    channel.commit(offset)

    again = replayed(channel.ledger)

    assert again.cursor == max(offset, FIRST + 5)
    assert sorted(again.requeued) == [at for at in (FIRST + 1, FIRST + 2, FIRST + 3) if at >= offset]
    assert [at for at, _ in again.deferred.items()] == ([FIRST] if offset == FIRST else [])
    assert all(at >= offset for at in again.attempts)


def test_deliveries_after_a_commit_are_replayed_behind_it() -> None:
    _, channel = channel_with(10)
    channel.commit(FIRST + 4)
    sub = consumer(channel, 2)
    receive_all(channel)
    channel.finish(sub, id_of(FIRST + 4))

    again = replayed(channel.ledger)

    assert (again.cursor, list(again.requeued)) == (FIRST + 6, [FIRST + 5])


# Deferred messages that are cancelled


def test_cancelling_one_deferred_message_leaves_the_others() -> None:
    topic, channel = channel_with()
    base = publish(topic, b"a", b"b", b"c", due_ns=NOW_NS + SECOND_NS)

    assert channel.ledger.cancel_deferred(base + 1) == 1
    assert channel.ledger.cancel_deferred(base + 1) == 0
    assert channel.ledger.cancel_deferred(base + 99) == 0

    channel.expire(NOW_NS + SECOND_NS)
    consumer(channel)
    assert offsets_of(receive_all(channel)) == [base, base + 2]


def test_cancelling_all_deferred_messages_leaves_what_is_ready() -> None:
    topic, channel, sub = busy_channel()
    publish(topic, b"late", b"later", due_ns=NOW_NS + SECOND_NS)
    assert counts(channel) == (6, 2, 3)

    assert channel.ledger.cancel_deferred() == 3

    assert counts(channel) == (6, 2, 0)
    assert replayed(channel.ledger).deferred.items() == []
    assert sub.in_flight == 2
    assert not channel.ledger.holds(FIRST, FIRST + 1)
