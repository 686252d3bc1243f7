"""Messages for who asks: `get`, `async for`, `async with message`."""

import asyncio

import pytest

from nsqlake.client.errors import ClientClosedError, InvalidArgumentError
from nsqlake.client.message import Discard, Message, Requeue
from tests.client.consumer.stage import by_body, run, settle, staged
from tests.fakes.loop_turns import wait_until


def test_get_waits_for_a_message() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            getting = asyncio.ensure_future(stage.consumer.get())
            await settle()
            (await stage.connection()).send_message(b"x")

            message = await getting
            assert (message.topic, message.channel, message.body) == ("orders", "archive", b"x")
            assert message.nsqd_address == stage.nsqd.address
            assert not message.has_auto_response

    run(scenario())


def test_get_gives_up_after_its_timeout() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            getting = asyncio.ensure_future(stage.consumer.get(5))
            await settle()
            stage.advance(5.1)

            with pytest.raises(TimeoutError):
                await getting

    run(scenario())


def test_several_takers_share_what_comes_and_a_cancelled_one_takes_nothing_with_it() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            getters = [asyncio.ensure_future(stage.consumer.get()) for _ in range(3)]
            await settle()
            connection = await stage.connection()
            connection.send_message(b"a")
            connection.send_message(b"b")
            await wait_until(lambda: stage.consumer.stats().received == 2)
            getters[0].cancel()

            bodies = {(await getter).body for getter in getters[1:]}
            assert bodies == {b"a", b"b"}
            assert stage.consumer.stats().queued == 0

    run(scenario())


def test_iteration_ends_with_the_consumer() -> None:
    bodies: list[bytes] = []

    async def scenario() -> None:
        async with staged(None) as stage:
            connection = await stage.connection()
            for body in (b"a", b"b", b"c"):
                connection.send_message(body)
            async for message in stage.consumer:
                async with message:
                    bodies.append(message.body)
                if message.body == b"c":
                    stage.consumer.request_stop()
            await connection.wait_command("FIN", 3)

            with pytest.raises(ClientClosedError):
                await stage.consumer.get()

    run(scenario())
    assert bodies == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("error", "answer", "escapes"),
    [
        (None, ("FIN",), False),
        (Discard(), ("FIN",), False),
        (Requeue(2, backoff=False), ("REQ", "2000"), False),
        (ValueError(), ("REQ", "90000"), True),
        (asyncio.CancelledError(), ("REQ", "0"), True),
    ],
)
def test_block_around_a_message_answers_it(
    error: BaseException | None, answer: tuple[str, ...], escapes: bool
) -> None:
    async def use(message: Message) -> None:
        async with message:
            if error is not None:
                raise error

    async def scenario() -> None:
        async with staged(None) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=1)
            result = await asyncio.gather(use(await stage.consumer.get()), return_exceptions=True)
            command = await connection.wait_command(answer[0])

            assert command.params[1:] == answer[1:]
            assert type(result[0]) is (type(error) if escapes else type(None))

    run(scenario())


def test_taker_that_stops_the_consumer_does_not_wait_for_itself() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            message = await stage.consumer.get()

            await stage.consumer.stop()

            assert not stage.consumer.is_stopped
            await connection.wait_command("CLS")
            message.finish()
            await stage.consumer.wait_stopped()
            assert connection.transcript[-2:] == ["CLS", "FIN"]

    run(scenario())


def test_consumer_with_a_handler_hands_out_nothing() -> None:
    async def scenario() -> None:
        async with staged(by_body) as stage:
            with pytest.raises(InvalidArgumentError):
                await stage.consumer.get()

    run(scenario())
