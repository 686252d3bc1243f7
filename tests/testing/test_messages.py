import asyncio
from datetime import timedelta

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.message import Discard, Message, Requeue
from nsqlake.testing.messages import RecordedMessage, make_message


def handled(message: RecordedMessage, error: BaseException | None = None) -> RecordedMessage:
    """The message after a handler that raised `error`."""

    async def scenario() -> None:
        async with message:
            if error is not None:
                raise error

    if error is None or isinstance(error, Requeue | Discard):
        asyncio.run(scenario())
    else:
        with pytest.raises(type(error)):
            asyncio.run(scenario())
    return message


def test_a_message_has_what_a_handler_looks_at() -> None:
    message: Message = make_message(b"x", attempts=3, topic="orders", channel="mail", timestamp_ns=5)

    assert (message.body, message.attempts, message.timestamp_ns) == (b"x", 3, 5)
    assert (message.topic, message.channel, len(message.id)) == ("orders", "mail", 16)
    assert message.is_in_flight
    assert not message.is_cancelled
    assert message.deadline_s < message.hard_deadline_s
    assert make_message(b"x").age_s < 60
    assert make_message(b"x").id != make_message(b"x").id


def test_only_the_first_answer_counts() -> None:
    message = make_message(b"x")

    assert message.finish()
    assert not message.requeue()
    assert not message.finish()
    assert not message.touch()
    assert message.is_finished
    assert message.requeue_delay_s is None
    assert not message.is_in_flight


def test_a_requeue_has_its_delay() -> None:
    default, explicit, late = (
        make_message(b"x", attempts=2),
        make_message(b"x"),
        make_message(b"x", attempts=99),
    )

    default.requeue()
    explicit.requeue(timedelta(seconds=5), backoff=False)
    late.requeue()

    assert (default.requeue_delay_s, default.has_backoff) == (180, True)
    assert (explicit.requeue_delay_s, explicit.has_backoff) == (5, False)
    assert late.requeue_delay_s == 900
    assert default.is_requeued
    with pytest.raises(InvalidArgumentError):
        make_message(b"x").requeue(-1)


def test_the_config_decides_about_delays_and_backoff() -> None:
    message = make_message(b"x", config=ClientConfig(default_requeue_delay=7, backoff_on_requeue=False))

    message.requeue()

    assert (message.requeue_delay_s, message.has_backoff) == (7, False)


@pytest.mark.parametrize(
    ("error", "is_finished", "delay_s"),
    [
        (None, True, None),
        (Discard(), True, None),
        (Requeue(5), False, 5),
        (ValueError(), False, 90),
        (asyncio.CancelledError(), False, 0),
    ],
)
def test_the_block_of_a_message_answers_it(
    error: BaseException | None, is_finished: bool, delay_s: float | None
) -> None:
    message = handled(make_message(b"x"), error)

    assert (message.is_finished, message.requeue_delay_s) == (is_finished, delay_s)


def test_touches_are_counted_and_keeping_alive_ends_with_its_block() -> None:
    async def scenario() -> list[bool]:
        async with message.keepalive():
            kept = message.is_kept_alive
            message.touch()
            message.touch()
        return [kept, message.is_kept_alive]

    message = make_message(b"x")

    assert asyncio.run(scenario()) == [True, False]
    assert message.touch_count == 2
