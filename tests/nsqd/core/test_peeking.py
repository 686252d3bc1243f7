"""Looking at messages: nothing of the channel or the log changes."""

from nsqlake.nsqd.core.channel import Channel
from nsqlake.nsqd.core.peeking import MessageState, PeekedMessage, peek_channel, peek_log
from nsqlake.nsqd.core.topic import Topic
from tests.nsqd.core.harness import SECOND_NS, id_of
from tests.nsqd.core.support import (
    FIRST,
    NOW_NS,
    channel_with,
    consumer,
    counts,
    new_topic,
    publish,
    publish_many,
    receive_all,
)

DUE_NS = NOW_NS + 5 * SECOND_NS


def look(topic: Topic, offset: int = 0, *, count: int = 100, max_bytes: int = 10**6) -> list[PeekedMessage]:
    return peek_log(topic.backlog, offset, limit=topic.log.next, count=count, max_bytes=max_bytes)


def states(topic: Topic, channel: Channel, offset: int) -> list[tuple[int, MessageState, int, int]]:
    seen = peek_channel(topic.backlog, channel.ledger, offset, count=100, max_bytes=10**6)
    return [(message.offset - FIRST, message.state, message.attempts, message.due_ns) for message in seen]


def test_messages_are_seen_as_they_were_published() -> None:
    topic = new_topic()
    publish(topic, b"a", b"bb")
    publish(topic, b"late", now_ns=NOW_NS + 1, due_ns=DUE_NS)

    assert look(topic) == [
        PeekedMessage(FIRST, NOW_NS, 0, b"a"),
        PeekedMessage(FIRST + 1, NOW_NS, 0, b"bb"),
        PeekedMessage(FIRST + 2, NOW_NS + 1, DUE_NS, b"late"),
    ]
    assert look(topic, FIRST + 2, count=1)[0].body == b"late"
    assert look(topic, FIRST + 3) == []


def test_a_look_is_bounded_by_count_and_by_bytes_but_shows_one() -> None:
    topic = new_topic()
    publish_many(topic, 10, size=100)

    assert len(look(topic, count=3)) == 3
    assert len(look(topic, max_bytes=250)) == 2
    assert len(look(topic, max_bytes=1)) == 1
    assert look(topic, count=0) == []


def test_what_was_emptied_is_not_seen() -> None:
    topic = new_topic()
    publish(topic, b"gone", b"gone too")
    topic.empty()
    publish(topic, b"here")

    assert [message.body for message in look(topic)] == [b"here"]


def test_a_look_at_a_channel_tells_what_became_of_each_message() -> None:
    topic, channel = channel_with(6)
    publish(topic, b"late", b"later", due_ns=DUE_NS)
    sub = consumer(channel, 4)
    receive_all(channel)
    channel.set_ready(sub, 0)
    channel.finish(sub, id_of(FIRST))
    channel.requeue(sub, id_of(FIRST + 1), 0, NOW_NS)
    channel.requeue(sub, id_of(FIRST + 2), SECOND_NS, NOW_NS)
    before = counts(channel)

    seen = states(topic, channel, FIRST)

    assert seen == [
        (0, MessageState.FINISHED, 0, 0),
        (1, MessageState.REQUEUED, 1, 0),
        (2, MessageState.DEFERRED, 1, NOW_NS + SECOND_NS),
        (3, MessageState.OUT, 1, 0),
        (4, MessageState.FRESH, 0, 0),
        (5, MessageState.FRESH, 0, 0),
        (6, MessageState.DEFERRED, 0, DUE_NS),
        (7, MessageState.DEFERRED, 0, DUE_NS),
    ]
    assert counts(channel) == before


def test_delayed_messages_before_the_cursor_are_told_by_what_became_of_them() -> None:
    topic, channel = channel_with(1)
    publish(topic, b"a", b"b", b"c", due_ns=DUE_NS)
    sub = consumer(channel, 2)
    channel.expire(DUE_NS)
    assert [message.offset - FIRST for message in receive_all(channel, DUE_NS)] == [1, 2]
    channel.finish(sub, id_of(FIRST + 1))

    channel.set_ready(sub, 0)

    assert [(at, state, attempts) for at, state, attempts, _ in states(topic, channel, FIRST)] == [
        (0, MessageState.FRESH, 0),
        (1, MessageState.FINISHED, 0),
        (2, MessageState.OUT, 1),
        (3, MessageState.REQUEUED, 0),
    ]


def test_a_look_at_a_channel_ends_where_messages_flow_no_further() -> None:
    topic, channel = channel_with(2)
    topic.pause()
    publish_many(topic, 3)

    assert [at for at, *_ in states(topic, channel, FIRST)] == [0, 1]
    assert states(topic, channel, FIRST + 2) == []
    assert len(look(topic)) == 5


def test_a_message_that_was_given_up_is_dead() -> None:
    topic, channel = channel_with(1, max_attempts=1)
    sub = consumer(channel, 1)
    receive_all(channel)
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)

    assert [state for _, state, _, _ in states(topic, channel, FIRST)] == [MessageState.DEAD]
