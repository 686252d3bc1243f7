"""The accounting finds every fault it is there to find."""

from __future__ import annotations

import time

import pytest

from nsqlake.wire.received_message import Message
from tests.crash.bodies import Content, decode
from tests.crash.book import MS, Book, ChannelBook, Outcome


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def channel(book: Book) -> ChannelBook:
    return book.channel("worked")


def publish(book: Book, *contents: Content, outcome: Outcome = Outcome.ACKNOWLEDGED) -> None:
    book.attempt(contents)
    book.answer(contents, outcome)


def deliver(channel: ChannelBook, content: Content, attempts: int = 1, *, finishes: bool = True) -> None:
    key = channel.deliver(Message(0, attempts, b"0" * 16, content.encode()))
    if finishes and key is not None:
        channel.finish([key])


def test_what_is_delivered_and_finished_once_is_no_fault(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1))

    deliver(channel, Content(1, 1))

    assert book.faults == {}


def test_an_acknowledged_message_that_never_comes_is_lost(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1))

    assert channel.verdict().lost == [(1, 1)]


def test_a_message_that_was_held_and_never_comes_again_is_lost(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1))

    deliver(channel, Content(1, 1), finishes=False)

    assert channel.verdict().lost == [(1, 1)]


@pytest.mark.parametrize("outcome", [Outcome.UNANSWERED, Outcome.REFUSED])
def test_a_message_that_was_not_acknowledged_may_be_missing(book: Book, outcome: Outcome) -> None:
    publish(book, Content(1, 1), outcome=outcome)
    book.channel("worked")

    assert book.faults == {}


def test_an_unanswered_message_may_come_and_a_refused_one_may_not(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1), outcome=Outcome.UNANSWERED)
    publish(book, Content(1, 2), outcome=Outcome.REFUSED)

    deliver(channel, Content(1, 1))
    deliver(channel, Content(1, 2))

    assert channel.verdict().unexpected == [(1, 2)]


def test_a_changed_byte_is_found_wherever_it_is() -> None:
    body = Content(1, 2, 3, 4, 5).encode(60)

    changed = [body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :] for at in range(len(body))]

    assert [decode(each) for each in changed] == [None] * 60
    assert decode(body) == Content(1, 2, 3, 4, 5)


def test_a_message_nobody_sent_is_unexpected(channel: ChannelBook) -> None:
    deliver(channel, Content(1, 1))

    assert channel.verdict().unexpected == [Content(1, 1)]


def test_a_finished_message_that_comes_again_is_a_duplicate(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1))

    deliver(channel, Content(1, 1))
    deliver(channel, Content(1, 1), 2)
    channel.finished_ns[1, 1] -= 1 * MS

    assert channel.verdict().duplicated == [(1, 1)]


def test_a_message_finished_just_before_a_kill_may_come_again(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1))
    deliver(channel, Content(1, 1))
    finished_ns = channel.finished_ns[1, 1]

    book.interrupted()
    deliver(channel, Content(1, 1), finishes=False)

    assert channel.finished_ns[1, 1] == finished_ns
    assert book.faults == {}


def test_a_deferred_message_before_its_time_is_early(book: Book, channel: ChannelBook) -> None:
    content = Content(1, 1, due_ns=time.time_ns() + 1_000 * MS)
    publish(book, content)

    deliver(channel, content)

    assert channel.verdict().early == [(1, 1)]


def test_a_requeued_message_before_its_time_is_early(book: Book, channel: ChannelBook) -> None:
    publish(book, Content(1, 1))
    deliver(channel, Content(1, 1), finishes=False)
    now_ns = time.time_ns()

    channel.requeue((1, 1), now_ns, now_ns + 1_000 * MS)
    deliver(channel, Content(1, 1), 2)

    assert channel.verdict().early == [(1, 1)]


@pytest.mark.parametrize("attempts", [[2], [1, 1], [1, 3], [1, 2, 2]])
def test_attempts_that_do_not_count_deliveries_are_wrong(
    book: Book, channel: ChannelBook, attempts: list[int]
) -> None:
    publish(book, Content(1, 1))

    for number in attempts:
        deliver(channel, Content(1, 1), number, finishes=False)

    assert channel.verdict().wrong_attempts == [((1, 1), attempts)]


def test_a_part_of_an_mpub_is_a_fault_even_if_nobody_answered_it(book: Book, channel: ChannelBook) -> None:
    contents = [Content(1, number, group=1, group_size=2) for number in range(2)]
    publish(book, *contents, outcome=Outcome.UNANSWERED)

    deliver(channel, contents[0])

    assert channel.verdict().partial_mpubs == [(1, 1)]
    deliver(channel, contents[1])
    assert book.faults == {}
