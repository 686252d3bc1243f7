"""Messages that were tried too often."""

import asyncio
from typing import Any

import pytest

from nsqlake.client.message import Message
from tests.client.consumer.stage import run, staged
from tests.fakes.loop_turns import wait_until


async def bad(message: Message) -> None:
    raise ValueError("bad")


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"auto_touch": True}], ids=str)
@pytest.mark.parametrize(
    ("attempts", "max_attempts", "answer"), [(5, 5, "REQ"), (6, 5, "FIN"), (60_000, 0, "REQ")]
)
def test_only_more_attempts_than_allowed_are_given_up(
    attempts: int, max_attempts: int, answer: str, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with staged(bad, max_attempts=max_attempts, **options) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=attempts)
            await connection.wait_command(answer)

            assert stage.consumer.stats().given_up == (answer == "FIN")
            assert stage.consumer.stats().handled == (answer == "REQ")

    run(scenario())


def test_attempts_above_the_signed_range_are_read_as_they_are() -> None:
    async def scenario() -> None:
        async with staged(None, max_attempts=0) as stage:
            (await stage.connection()).send_message(b"x", attempts=40_000)

            assert (await stage.consumer.get()).attempts == 40_000

    run(scenario())


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_hook_gets_the_message_before_it_is_finished(kind: str) -> None:
    given_up: list[tuple[bytes, bool]] = []

    async def async_hook(message: Message) -> None:
        given_up.append((message.body, message.is_answered))

    def plain_hook(message: Message) -> None:
        given_up.append((message.body, message.is_answered))
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()  # it may block: it has a thread

    async def scenario() -> None:
        hook = async_hook if kind == "async" else plain_hook
        async with staged(bad, on_give_up=hook) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=6)
            await connection.wait_command("FIN")

    run(scenario())
    assert given_up == [(b"x", False)]


def test_message_is_requeued_when_the_hook_fails() -> None:
    async def hook(message: Message) -> None:
        raise ConnectionError("no dead-letter store")

    async def scenario() -> None:
        async with staged(bad, on_give_up=hook) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=6)
            command = await connection.wait_command("REQ")

            assert command.params[1] == "540000"
            assert connection.count("FIN") == 0

    run(scenario())


async def keep(message: Message) -> None:
    """A hook that succeeds."""


@pytest.mark.parametrize("hook", [None, keep])
def test_giving_up_neither_ends_nor_deepens_backoff(hook: Any) -> None:
    async def scenario() -> None:
        async with staged(bad, on_give_up=hook) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("REQ")
            stage.advance(2.1)
            connection.send_message(b"old", attempts=6)
            await connection.wait_command("FIN")

            assert connection.transcript[-2:] == ["RDY 1", "FIN"]
            assert stage.consumer.stats().backoff_level == 1

    run(scenario())


def test_given_up_message_is_not_handed_to_who_asks() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            connection = await stage.connection()
            connection.send_message(b"old", attempts=6)
            connection.send_message(b"new", attempts=1)

            assert (await stage.consumer.get()).body == b"new"
            await wait_until(lambda: connection.count("FIN") == 1)

    run(scenario())
