"""One channel: who gets what, and what FIN and REQ do."""

import random

import pytest

from nsqlake.nsqd.core.channel import Outcome
from nsqlake.nsqd.core.subscription import Locality, Subscription
from tests.nsqd.core.harness import ID_BASE, SECOND_NS, fin_lines, id_of, parse
from tests.nsqd.core.support import (
    FIRST,
    NOW_NS,
    PAGE,
    TIMEOUT_NS,
    MovingLog,
    channel_with,
    consumer,
    counts,
    offsets_of,
    publish,
    receive,
    receive_all,
)

# Consumers


def test_consumer_gets_as_much_as_it_is_ready_for() -> None:
    _, channel = channel_with(10)
    sub = consumer(channel, 3)

    messages = receive_all(channel)

    assert offsets_of(messages) == [FIRST, FIRST + 1, FIRST + 2]
    assert counts(channel) == (7, 3, 0)
    assert sub.in_flight == 3


def test_finishing_one_lets_the_next_through() -> None:
    _, channel = channel_with(10)
    sub = consumer(channel, 2)
    receive_all(channel)

    assert channel.finish(sub, id_of(FIRST)) is Outcome.DONE

    assert offsets_of(receive_all(channel)) == [FIRST + 2]
    assert sub.finish_count == 1


def test_lower_ready_only_stops_delivery() -> None:
    _, channel = channel_with(10)
    sub = consumer(channel, 5)
    receive_all(channel)

    channel.set_ready(sub, 2)
    for offset in range(FIRST, FIRST + 3):
        channel.finish(sub, id_of(offset))

    assert receive_all(channel) == []
    channel.finish(sub, id_of(FIRST + 3))
    assert offsets_of(receive_all(channel)) == [FIRST + 5]


def test_consumer_that_lost_its_room_is_passed_over() -> None:
    _, channel = channel_with(10)
    first, second = consumer(channel, 5), consumer(channel, 5)
    first.ready = 0

    messages = receive_all(channel)

    assert (first.message_count, second.message_count) == (0, 5)
    assert len(messages) == 5


def test_number_of_consumers_may_be_limited() -> None:
    _, channel = channel_with(max_consumers=2)
    consumer(channel)
    second = consumer(channel)

    assert not channel.subscribe(Subscription("third", msg_timeout_ns=1))
    channel.unsubscribe(second)
    assert channel.subscribe(Subscription("third", msg_timeout_ns=1))
    assert len(channel.subscriptions) == 2


def test_slots_are_given_in_turn_and_never_twice() -> None:
    _, channel = channel_with()
    first = consumer(channel)
    channel._next_slot = (1 << 16) - 1
    last = consumer(channel)

    third = consumer(channel)

    assert (first.slot, last.slot, third.slot) == (1, (1 << 16) - 1, 2)


def test_there_are_no_more_consumers_than_slots() -> None:
    _, channel = channel_with()
    channel._subscriptions = dict.fromkeys(range(1, 1 << 16), Subscription("s", msg_timeout_ns=1))

    assert not channel.subscribe(Subscription("one too many", msg_timeout_ns=1))


def test_what_a_consumer_held_is_ready_again_when_it_leaves() -> None:
    _, channel = channel_with(5)
    sub = consumer(channel, 5)
    receive_all(channel)
    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
    receive_all(channel)
    channel.touch(sub, id_of(FIRST + 1), NOW_NS)
    channel.finish(sub, id_of(FIRST + 2))

    channel.unsubscribe(sub)

    assert counts(channel) == (4, 0, 0)
    consumer(channel, 10)
    again = receive_all(channel)
    assert {message.offset: message.attempts for message in again} == {
        FIRST: 3, FIRST + 1: 2, FIRST + 3: 2, FIRST + 4: 2,
    }  # fmt: skip
    assert channel.timeout_count == 0


def test_consumer_that_left_does_nothing_more() -> None:
    _, channel = channel_with(5)
    sub = consumer(channel, 5)
    channel.unsubscribe(sub)
    other = consumer(channel, 0)
    other.slot = sub.slot

    channel.unsubscribe(sub)
    channel.set_ready(sub, 5)

    assert not channel.can_deliver


# Fairness


def test_consumers_share_what_is_there() -> None:
    _, channel = channel_with(50)
    subs = [consumer(channel, 2500), consumer(channel, 2500)]

    receive_all(channel)

    assert [sub.message_count for sub in subs] == [25, 25]


def test_consumers_take_turns_when_there_is_less_than_they_want() -> None:
    topic, channel = channel_with()
    subs = [consumer(channel, 100) for _ in range(3)]

    for _ in range(6):
        publish(topic, b"x")
        receive_all(channel)

    assert [sub.message_count for sub in subs] == [2, 2, 2]


def test_nearest_consumer_comes_first_when_topology_counts() -> None:
    _, channel = channel_with(10, is_topology_aware=True)
    far, region, zone = (consumer(channel, 4) for _ in range(3))
    region.locality, zone.locality = Locality.REGION, Locality.ZONE

    receive_all(channel)

    assert [sub.message_count for sub in (zone, region, far)] == [4, 4, 2]
    assert channel.local_counts == [4, 4, 2]


def test_paused_channel_delivers_nothing() -> None:
    _, channel = channel_with(5)
    consumer(channel)
    channel.is_paused = True

    assert channel.pump(NOW_NS) == []
    assert counts(channel) == (5, 0, 0)


def test_pump_without_anything_to_deliver_moves_on() -> None:
    topic, channel = channel_with()
    consumer(channel)
    publish(topic, b"later", due_ns=NOW_NS + SECOND_NS)
    assert channel.can_deliver

    assert receive(channel) == []

    assert not channel.can_deliver


def test_channel_goes_on_after_deferred_blocks_fell_out_of_memory() -> None:
    topic, channel = channel_with(log=MovingLog(mem_messages=3))
    consumer(channel)
    publish(topic, b"a", b"b", due_ns=NOW_NS + SECOND_NS)
    publish(topic, b"c", b"d", b"e")
    assert channel.depth == 3

    messages = receive_all(channel)

    assert [message.body for message in messages] == [b"c", b"d", b"e"]
    assert channel.depth == 0


def test_unreadable_log_makes_the_channel_wait_and_try_again() -> None:
    log = MovingLog()
    _, channel = channel_with(5, log=log)
    consumer(channel)
    log.is_readable = False

    assert receive_all(channel) == []
    assert channel.read_failure is not None
    assert channel.next_wakeup_ns == NOW_NS + SECOND_NS

    log.is_readable = True
    channel.expire(NOW_NS + SECOND_NS)
    assert len(receive_all(channel)) == 5
    assert channel.read_failure is None


# One at a time


def test_consumer_that_finished_its_only_message_gets_the_next() -> None:
    _, channel = channel_with(3)
    sub = consumer(channel, 1)
    receive(channel)
    channel.finish(sub, id_of(FIRST))

    frame = channel.refill(sub, NOW_NS)

    assert frame is not None
    assert offsets_of(parse([frame])) == [FIRST + 1]
    assert not channel.can_deliver
    assert channel.local_counts == [0, 0, 2]


def test_consumer_with_more_room_stays_ready_after_a_refill() -> None:
    _, channel = channel_with(3)
    sub = consumer(channel, 2)

    assert channel.refill(sub, NOW_NS) is not None

    assert channel.can_deliver


def test_empty_channel_has_no_refill() -> None:
    _, channel = channel_with()

    assert channel.refill(consumer(channel, 1), NOW_NS) is None


@pytest.mark.parametrize(
    "why", ["paused", "requeued", "holds another", "samples", "no room", "another is ready"]
)
def test_refill_leaves_everything_unusual_to_pump(why: str) -> None:
    _, channel = channel_with(5)
    sub = consumer(channel, 2 if why == "holds another" else 1)
    receive(channel)
    if why == "requeued":
        channel.requeue(sub, id_of(FIRST), 0, NOW_NS)
    else:
        channel.finish(sub, id_of(FIRST))
    channel.is_paused = why == "paused"
    sub.sample_rate = 50 if why == "samples" else 0
    sub.is_writable = why != "no room"
    if why == "another is ready":
        consumer(channel, 1)

    assert channel.refill(sub, NOW_NS) is None


def test_refill_leaves_it_to_pump_when_only_others_are_ready() -> None:
    _, channel = channel_with(5)
    first, second = consumer(channel, 0), consumer(channel, 1)
    first.ready = 1

    assert channel.refill(first, NOW_NS) is None
    assert second.message_count == 0


def test_lone_new_message_is_handed_to_the_consumer_whose_turn_it_is() -> None:
    topic, channel = channel_with()
    subs = [consumer(channel, 2), consumer(channel, 2)]
    receivers = []

    for _ in range(5):
        publish(topic, b"x")
        handed = channel.hand_over(NOW_NS)
        if handed is not None:
            receivers.append(subs.index(handed[0]))
            assert offsets_of(parse([handed[1]])) == [FIRST + len(receivers) - 1]

    assert receivers == [0, 1, 0, 1]
    assert counts(channel) == (1, 4, 0)
    assert channel.local_counts == [0, 0, 4]
    assert channel.next_wakeup_ns == NOW_NS + TIMEOUT_NS


@pytest.mark.parametrize(
    "why", ["paused", "requeued", "nobody ready", "not alone", "no room", "samples", "deferred"]
)
def test_anything_but_a_lone_new_message_is_left_to_pump(why: str) -> None:
    topic, channel = channel_with()
    sub = consumer(channel, 0 if why == "nobody ready" else 5)
    if why == "requeued":
        publish(topic, b"earlier")
        channel.requeue(sub, id_of(offsets_of(receive_all(channel))[0]), 0, NOW_NS)
    channel.is_paused = why == "paused"
    sub.is_writable = why != "no room"
    sub.sample_rate = 50 if why == "samples" else 0
    publish(topic, b"x", due_ns=NOW_NS + SECOND_NS if why == "deferred" else 0)
    if why == "not alone":
        publish(topic, b"y")

    assert channel.hand_over(NOW_NS) is None
    assert sub.in_flight == 0


def test_lone_new_message_is_left_to_pump_when_topology_counts() -> None:
    _, channel = channel_with(1, is_topology_aware=True)
    consumer(channel, 5)

    assert channel.hand_over(NOW_NS) is None


def test_consumer_with_room_for_one_swaps_one_for_the_next() -> None:
    _, channel = channel_with(3)
    sub = consumer(channel, 1)
    first = channel.refill(sub, NOW_NS)
    assert first is not None

    second = channel.swap(sub, NOW_NS)

    assert second is not None
    assert offsets_of(parse([second])) == [FIRST + 1]
    assert counts(channel) == (1, 1, 0)
    assert channel.local_counts == [0, 0, 2]


@pytest.mark.parametrize(
    "why", ["holds none", "not ready", "others ready", "paused", "requeued", "samples", "slow", "closing"]
)
def test_swap_leaves_everything_unusual_to_the_long_way(why: str) -> None:
    topic, channel = channel_with(5)
    sub = consumer(channel, 1)
    if why != "holds none":
        channel.refill(sub, NOW_NS)
    sub.ready = 0 if why == "not ready" else 1
    channel.is_paused = why == "paused"
    sub.sample_rate = 50 if why == "samples" else 0
    sub.is_writable, sub.is_closing = why != "slow", why == "closing"
    if why == "others ready":
        consumer(channel, 1)
    if why == "requeued":
        channel.ledger.requeued.append(FIRST)
    before = channel.ledger.cursor

    assert channel.swap(sub, NOW_NS) is None
    assert channel.ledger.cursor == before
    assert topic.depth == 0


def test_swap_without_a_next_message_does_nothing() -> None:
    _, channel = channel_with(1)
    sub = consumer(channel, 1)
    channel.refill(sub, NOW_NS)

    assert channel.swap(sub, NOW_NS) is None
    assert counts(channel) == (0, 1, 0)


# FIN


@pytest.mark.parametrize("count", [1, 2, 100])
def test_run_of_fins_in_order_is_finished(count: int) -> None:
    _, channel = channel_with(200)
    sub = consumer(channel, 200)
    receive_all(channel)

    assert channel.finish_run(sub, fin_lines(range(FIRST + 10, FIRST + 10 + count)))

    assert counts(channel) == (0, 200 - count, 0)
    assert (sub.in_flight, sub.finish_count) == (200 - count, count)


def test_fins_in_any_order_over_pages_are_finished() -> None:
    _, channel = channel_with(2 * PAGE)
    sub = consumer(channel, 2 * PAGE)
    offsets = offsets_of(receive_all(channel))
    random.Random(1).shuffle(offsets)

    assert channel.finish_run(sub, fin_lines(offsets))

    assert counts(channel) == (0, 0, 0)
    assert not sub.runs


@pytest.mark.parametrize(
    "lines",
    [
        fin_lines([FIRST, FIRST]),
        fin_lines([FIRST, FIRST + 50]),
        fin_lines([FIRST + 50]),
        fin_lines([FIRST, FIRST + 100_000]),
        fin_lines([FIRST]) + b"FIN %b\n" % (b"x" * 16),
        fin_lines([FIRST]) + b"FIN %016x\n" % (FIRST + 1),
        fin_lines([FIRST]) + b"FIN %016x\n" % (ID_BASE + (1 << 54) + FIRST + 1),
    ],
)
def test_run_with_a_message_that_is_not_held_changes_nothing(lines: bytes) -> None:
    _, channel = channel_with(20)
    sub = consumer(channel, 20)
    receive_all(channel)

    assert not channel.finish_run(sub, lines)

    assert counts(channel) == (0, 20, 0)
    assert sub.in_flight == 20


@pytest.mark.parametrize(
    ("message_id", "outcome"),
    [
        (id_of(FIRST), Outcome.NOT_OWNER),
        (id_of(FIRST + 1), Outcome.NOT_IN_FLIGHT),
        (id_of(FIRST + 100), Outcome.NOT_IN_FLIGHT),
        (b"x" * 16, Outcome.NOT_IN_FLIGHT),
        (b"\xff" * 16, Outcome.NOT_IN_FLIGHT),
        (b"%016x" % FIRST, Outcome.NOT_IN_FLIGHT),
        (b"-00000000000000f", Outcome.NOT_IN_FLIGHT),
        (b"f" * 16, Outcome.NOT_IN_FLIGHT),
    ],
)
def test_message_that_is_not_held_is_refused_with_the_reason(message_id: bytes, outcome: Outcome) -> None:
    _, channel = channel_with(1)
    consumer(channel, 1)
    receive_all(channel)
    other = consumer(channel, 0)

    assert channel.finish(other, message_id) is outcome
    assert channel.requeue(other, message_id, 0, NOW_NS) is outcome
    assert channel.touch(other, message_id, NOW_NS) is outcome
    assert counts(channel) == (0, 1, 0)
    assert (other.finish_count, other.requeue_count, channel.requeue_count) == (0, 0, 0)


def test_id_in_another_spelling_is_not_in_flight() -> None:
    _, channel = channel_with(20)
    sub = consumer(channel, 20)
    receive_all(channel)
    spelled = id_of(FIRST + 10).upper()
    assert spelled != id_of(FIRST + 10)

    assert channel.finish(sub, spelled) is Outcome.NOT_IN_FLIGHT


def test_message_is_finished_once() -> None:
    _, channel = channel_with(1)
    sub = consumer(channel, 1)
    receive_all(channel)

    assert channel.finish(sub, id_of(FIRST)) is Outcome.DONE
    assert channel.finish(sub, id_of(FIRST)) is Outcome.NOT_IN_FLIGHT
    assert sub.in_flight == 0


# REQ


def test_requeued_message_is_delivered_again_at_once() -> None:
    _, channel = channel_with(1)
    sub = consumer(channel, 1)
    receive_all(channel)

    channel.requeue(sub, id_of(FIRST), 0, NOW_NS)

    assert counts(channel) == (1, 0, 0)
    assert [message.attempts for message in receive_all(channel)] == [2]
    assert (channel.requeue_count, sub.requeue_count) == (1, 1)


def test_requeued_message_is_delivered_again_after_its_delay() -> None:
    _, channel = channel_with(1)
    sub = consumer(channel, 1)
    receive_all(channel)
    channel.requeue(sub, id_of(FIRST), SECOND_NS, NOW_NS)
    assert counts(channel) == (0, 0, 1)
    assert channel.next_wakeup_ns == NOW_NS + SECOND_NS

    channel.expire(NOW_NS + SECOND_NS - 1)
    assert receive_all(channel, NOW_NS + SECOND_NS - 1) == []
    channel.expire(NOW_NS + SECOND_NS)

    assert [message.attempts for message in receive_all(channel, NOW_NS + SECOND_NS)] == [2]
