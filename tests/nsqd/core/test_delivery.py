"""Frames for one consumer, from the backlog and from what was requeued."""

import itertools
from pathlib import Path

import pytest

from nsqlake.nsqd.core.delivery import BATCH_BYTES, Delivery
from nsqlake.nsqd.core.journal import Kind
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.core.topic import Topic
from tests.nsqd.core.harness import ID_BASE, SECOND_NS, Delivered, fin_lines, parse
from tests.nsqd.core.support import (
    FIRST,
    NOW_NS,
    PAGE,
    TIMEOUT_NS,
    MovingLog,
    new_topic,
    offsets_of,
    publish,
    publish_many,
)
from tests.topiclog.support import flip_bit, open_log, segment_paths


class Counter:
    """A consumer and the delivery that serves it."""

    def __init__(self, topic: Topic, *, sample_rate: int = 0, draws: list[float] | None = None) -> None:
        topic.add_channel("c", NOW_NS)
        self.ledger = Ledger(ID_BASE, FIRST)
        drawn = itertools.cycle(draws or [0.5])
        self.delivery = Delivery(topic.backlog, self.ledger, lambda: next(drawn))
        self.sub = Subscription("s", msg_timeout_ns=TIMEOUT_NS, sample_rate=sample_rate)
        self.sub.slot = 3

    def serve(self, count: int = 1000) -> list[Delivered]:
        before = self.sub.message_count
        messages = parse(self.delivery.serve(self.sub, count, NOW_NS))
        assert self.sub.message_count - before == len(messages)
        return messages

    def next(self) -> list[Delivered]:
        frame = self.delivery.next_frame(self.sub, NOW_NS)
        return [] if frame is None else parse([frame])

    def requeue(self, *offsets: int) -> None:
        for offset in offsets:
            self.ledger.put_back(offset)
            self.sub.in_flight -= 1


# Fresh


def test_messages_come_in_order_with_their_bodies() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, b"one", b"two", now_ns=NOW_NS)
    publish(topic, b"three", b"fourteen", now_ns=NOW_NS + 5)

    messages = counter.serve()

    assert messages == [
        (FIRST, 1, NOW_NS, b"one"),
        (FIRST + 1, 1, NOW_NS, b"two"),
        (FIRST + 2, 1, NOW_NS + 5, b"three"),
        (FIRST + 3, 1, NOW_NS + 5, b"fourteen"),
    ]
    assert counter.ledger.cursor == FIRST + 4
    assert counter.sub.in_flight == 4
    assert list(counter.sub.runs) == [(NOW_NS + TIMEOUT_NS, FIRST, 4)]


def test_no_more_than_asked_for_is_served() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish_many(topic, 10)

    assert offsets_of(counter.serve(3)) == [FIRST, FIRST + 1, FIRST + 2]
    assert offsets_of(counter.serve(2)) == [FIRST + 3, FIRST + 4]


@pytest.mark.parametrize("size", [4, 200])
def test_run_is_cut_where_a_page_of_ids_ends(size: int) -> None:
    topic = new_topic(MovingLog(FIRST + PAGE - 20))
    counter = Counter(topic)
    counter.ledger.cursor = FIRST + PAGE - 20
    publish_many(topic, 50, size=size)

    frames = counter.delivery.serve(counter.sub, 100, NOW_NS)

    assert [len(parse([frame])) for frame in frames] == [20, 30]
    assert len(counter.sub.runs) == 2
    assert offsets_of(parse(frames)) == list(range(FIRST + PAGE - 20, FIRST + PAGE + 30))


@pytest.mark.parametrize("bodies", [[b"x" * 20_000] * 20, [b"x" * 20_000, b"y" * 19_000] * 10])
def test_one_turn_is_bounded_in_bytes(bodies: list[bytes]) -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, *bodies)

    first = counter.serve()

    assert 5 < len(first) < 12
    assert sum(len(message.body) for message in first[:-1]) <= BATCH_BYTES
    rest = [message for _ in range(4) for message in counter.serve()]
    assert [message.body for message in first + rest] == bodies


@pytest.mark.parametrize("bodies", [[b"x" * 2 * BATCH_BYTES] * 2, [b"x" * 2 * BATCH_BYTES, b"y"]])
def test_message_larger_than_a_turn_comes_alone(bodies: list[bytes]) -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, *bodies)

    assert [message.body for message in counter.serve()] == bodies[:1]
    assert [message.body for message in counter.serve()] == bodies[1:]


def test_gaps_and_deferred_blocks_are_passed_over() -> None:
    log = MovingLog()
    topic = new_topic(log)
    counter = Counter(topic)
    publish(topic, b"a")
    publish(topic, b"later", due_ns=NOW_NS + SECOND_NS)
    log.next += 500
    publish(topic, b"b")
    counter.ledger.absorb(FIRST + 1, 1, NOW_NS + SECOND_NS)

    messages = counter.serve()

    assert offsets_of(messages) == [FIRST, FIRST + 502]
    assert counter.ledger.ahead == 0


def test_cursor_follows_to_the_end_although_nothing_is_there() -> None:
    log = MovingLog()
    topic = new_topic(log)
    counter = Counter(topic)
    log.next += 500
    topic.flow(NOW_NS)

    assert counter.serve() == []
    assert counter.ledger.cursor == FIRST + 500


def test_deferred_block_that_fell_out_of_memory_is_not_counted_any_more() -> None:
    topic = new_topic(MovingLog(mem_messages=4))
    counter = Counter(topic)
    publish(topic, b"a", b"b", due_ns=NOW_NS + SECOND_NS)
    counter.ledger.absorb(FIRST, 2, NOW_NS + SECOND_NS)
    publish(topic, b"later", due_ns=NOW_NS + SECOND_NS)
    counter.ledger.absorb(FIRST + 2, 1, NOW_NS + SECOND_NS)

    publish(topic, b"c", b"d", b"e")

    assert offsets_of(counter.serve(2)) == [FIRST + 3, FIRST + 4]
    assert counter.ledger.ahead == 0


@pytest.mark.parametrize("is_mixed", [False, True])
def test_stamps_of_single_publishes_read_from_disk_are_their_own(tmp_path: Path, is_mixed: bool) -> None:
    log, _ = open_log(tmp_path / "log")
    topic = new_topic(log)
    counter = Counter(topic)
    counter.ledger.cursor = log.next
    sizes = [5, 7] * 20 if is_mixed else [5] * 40
    for number, size in enumerate(sizes):
        publish(topic, b"%0*d" % (size, number), now_ns=NOW_NS + number)

    messages = counter.serve(7) + counter.serve()

    assert [message.timestamp_ns - NOW_NS for message in messages] == list(range(40))
    assert [message.body for message in messages] == [b"%0*d" % (s, n) for n, s in enumerate(sizes)]
    log.close()


def test_rest_of_the_run_at_the_cursor_is_known() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish_many(topic, 5)
    counter.serve(2)

    assert counter.delivery.skip_to_fresh() is not None
    assert counter.delivery.fresh_run == 3


def test_forgotten_span_is_read_again() -> None:
    log = MovingLog()
    topic = new_topic(log)
    counter = Counter(topic)
    publish_many(topic, 5)
    counter.serve(2)
    counter.delivery.forget_span()
    log.is_readable = False

    assert counter.serve() == []
    assert counter.delivery.failure is not None


# One at a time


def test_next_frame_is_the_next_fresh_message() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, b"one", b"two")
    publish(topic, b"three")

    messages = [counter.next(), counter.next(), counter.next(), counter.next()]

    assert [message[0].body for message in messages[:3]] == [b"one", b"two", b"three"]
    assert messages[3] == []
    assert counter.sub.in_flight == 3
    assert [run[1:] for run in counter.sub.runs] == [(FIRST, 1), (FIRST + 1, 1), (FIRST + 2, 1)]


def test_next_frame_is_none_while_the_log_cannot_be_read() -> None:
    log = MovingLog()
    topic = new_topic(log)
    counter = Counter(topic)
    publish(topic, b"one")
    log.is_readable = False

    assert counter.next() == []

    log.is_readable = True
    assert offsets_of(counter.next()) == [FIRST]


def test_swap_finishes_the_only_message_and_hands_out_the_next() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, b"one", b"two", b"six", now_ns=NOW_NS)
    counter.next()

    frame = counter.delivery.swap(counter.sub, NOW_NS + 5)

    assert frame is not None
    assert parse([frame]) == [(FIRST + 1, 1, NOW_NS, b"two")]
    assert [counter.ledger.out.owner(FIRST + i) for i in range(3)] == [0, 3, 0]
    assert list(counter.sub.runs) == [(NOW_NS + 5 + TIMEOUT_NS, FIRST + 1, 1)]
    assert (counter.sub.in_flight, counter.sub.finish_count, counter.sub.message_count) == (1, 1, 2)
    assert counter.sub.only_fin == fin_lines([FIRST + 1])
    assert counter.ledger.pending.take() == [(Kind.DELIVER, FIRST, 2, 0), (Kind.FINISH, FIRST, 1, 0)]


def test_swap_goes_on_with_stamps_of_their_own(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    topic = new_topic(log)
    counter = Counter(topic)
    counter.ledger.cursor = log.next
    for number in range(12):
        publish(topic, b"%02d" % number, now_ns=NOW_NS + number)
    counter.next()

    frames = [counter.delivery.swap(counter.sub, NOW_NS) for _ in range(11)]

    stamps = [message.timestamp_ns - NOW_NS for message in parse([frame for frame in frames if frame])]
    assert stamps == list(range(1, 12))
    assert counter.ledger.out.count == 1
    log.close()


@pytest.mark.parametrize(
    "why", ["nothing more", "mixed sizes", "many out", "run of many", "touched", "next page"]
)
def test_swap_does_nothing_unless_it_is_simple(why: str) -> None:
    topic = new_topic(MovingLog(FIRST + PAGE - 1) if why == "next page" else None)
    counter = Counter(topic)
    counter.ledger.cursor = topic.log.next
    bodies = (
        [b"one"] if why == "nothing more" else [b"one", b"three" if why == "mixed sizes" else b"two", b"six"]
    )
    publish(topic, *bodies)
    first = counter.ledger.cursor
    if why == "run of many":
        counter.serve(2)
    else:
        counter.next()
    if why == "many out":
        counter.next()
    if why == "touched":
        counter.ledger.extend(first, sent_ns=NOW_NS, deadline_ns=NOW_NS + 1)
    before = counter.ledger.out.count

    assert counter.delivery.swap(counter.sub, NOW_NS) is None

    assert counter.ledger.out.count == before
    assert counter.sub.finish_count == 0


def test_late_fin_never_finishes_another_message() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, b"one", b"two", b"six")
    counter.next()
    counter.requeue(FIRST)
    counter.sub.runs.clear()
    counter.ledger.requeued.clear()
    counter.serve(1)
    assert counter.ledger.out.owner(FIRST + 1) == counter.sub.slot

    assert counter.sub.only_fin == fin_lines([FIRST])
    assert counter.delivery.swap(counter.sub, NOW_NS) is None

    assert counter.ledger.out.owner(FIRST + 1) == counter.sub.slot


def test_second_fin_of_a_message_finishes_nothing() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, b"one", b"two", b"six")
    counter.next()
    counter.ledger.finish_run(FIRST, 1)

    assert counter.delivery.swap(counter.sub, NOW_NS) is None

    assert counter.ledger.cursor == FIRST + 1


# Sampling


def test_sampling_drops_messages_for_the_whole_channel() -> None:
    topic = new_topic()
    counter = Counter(topic, sample_rate=49, draws=[0.2, 0.499, 0.5, 0.9])
    publish_many(topic, 8)

    messages = counter.serve()

    assert offsets_of(messages) == [FIRST, FIRST + 1, FIRST + 4, FIRST + 5]
    assert counter.ledger.cursor == FIRST + 8
    assert counter.ledger.out.count == 4


def test_sampling_stops_looking_after_a_while() -> None:
    topic = new_topic(MovingLog(mem_messages=10_000))
    counter = Counter(topic, sample_rate=1, draws=[0.9])
    publish_many(topic, 5000)

    assert counter.serve(10) == []

    assert counter.ledger.cursor == FIRST + 2010


# Requeued


def test_requeued_message_comes_again_with_its_own_attempts() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, b"one", b"two", now_ns=NOW_NS)
    counter.serve()
    counter.requeue(FIRST + 1)

    messages = counter.serve()

    assert messages == [(FIRST + 1, 2, NOW_NS, b"two")]
    assert counter.ledger.deadlines.items() == [(FIRST + 1, NOW_NS + TIMEOUT_NS)]
    assert counter.sub.in_flight == 2


def test_requeued_and_fresh_messages_take_turns() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish_many(topic, 20)
    counter.serve(6)
    counter.requeue(*range(FIRST, FIRST + 6))

    turns = [counter.serve(2) for _ in range(6)]

    assert [message.offset - FIRST < 6 for turn in turns for message in turn] == [
        True, True, False, False, True, True, False, False, True, True, False, False,
    ]  # fmt: skip


def test_requeued_messages_fill_up_what_fresh_ones_leave() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish_many(topic, 6)
    counter.serve(4)
    counter.requeue(*range(FIRST, FIRST + 4))
    counter.serve(1)

    messages = counter.serve(10)

    assert sorted(offsets_of(messages)) == list(range(FIRST + 1, FIRST + 6))


def test_requeued_messages_come_at_once_when_nothing_is_fresh() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish_many(topic, 4)
    counter.serve()
    counter.requeue(*range(FIRST, FIRST + 4))

    assert [offsets_of(counter.serve(1)) for _ in range(4)] == [[FIRST + i] for i in range(4)]


def test_requeued_messages_are_bounded_in_bytes_too() -> None:
    topic = new_topic()
    counter = Counter(topic)
    publish(topic, *[b"x" * 100_000] * 5)
    for _ in range(3):
        counter.serve()
    counter.requeue(*range(FIRST, FIRST + 5))

    assert len(counter.serve()) == 2


def test_requeued_message_that_fell_out_of_memory_is_finished() -> None:
    topic = new_topic(MovingLog(mem_messages=3))
    counter = Counter(topic)
    publish(topic, b"a", b"b")
    counter.serve()
    counter.requeue(FIRST, FIRST + 1)
    publish(topic, b"c", b"d", b"e")

    messages = counter.serve()

    assert [message.body for message in messages] == [b"c", b"d", b"e"]
    assert not counter.ledger.requeued


def test_requeued_message_whose_log_is_empty_is_finished() -> None:
    topic = new_topic(MovingLog(mem_messages=3))
    counter = Counter(topic)
    publish(topic, b"a")
    counter.serve()
    counter.requeue(FIRST)
    topic.log.retire(lambda _base, _end: False)

    assert counter.serve() == []
    assert not counter.ledger.requeued


def test_damaged_block_is_never_delivered_again(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    topic = new_topic(log)
    counter = Counter(topic)
    counter.ledger.cursor = first = log.next
    publish(topic, b"precious")
    publish(topic, b"second")
    counter.serve()
    counter.requeue(first, first + 1)
    log.trim_memory(log.next)
    path = segment_paths(log.path)[0]
    flip_bit(path, 8 * Path(path).read_bytes().index(b"precious"))

    messages = counter.serve()

    assert [message.body for message in messages] == [b"second"]
    assert len(log.take_damage()) == 1
    log.close()


# Reads that fail


def test_nothing_is_lost_when_the_log_cannot_be_read() -> None:
    log = MovingLog()
    topic = new_topic(log)
    counter = Counter(topic)
    publish_many(topic, 3)
    counter.serve(2)
    counter.requeue(FIRST)
    publish(topic, b"other")
    log.is_readable = False

    assert counter.serve() == []
    assert counter.delivery.failure is not None

    log.is_readable = True
    assert sorted(offsets_of(counter.serve())) == [FIRST, FIRST + 2, FIRST + 3]
    assert counter.delivery.failure is None


def test_what_was_read_before_the_failure_goes_out() -> None:
    log = MovingLog()
    topic = new_topic(log)
    counter = Counter(topic)
    publish(topic, b"a", b"b")
    counter.serve(1)
    publish(topic, b"c")
    log.is_readable = False

    messages = counter.serve()

    assert [message.body for message in messages] == [b"b"]
    assert counter.sub.in_flight == 2
