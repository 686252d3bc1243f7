"""Answers: exactly one counts, only on the connection that delivered, from any thread, late or not."""

import asyncio
from threading import Thread

import pytest

from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.errors import InvalidArgumentError, ServerError
from nsqlake.client.message import Answer, Message
from tests.client.consumer.stage import Stage, run, settle, staged
from tests.fakes.loop_turns import wait_until


async def take(stage: Stage, count: int = 1) -> list[Message]:
    """Messages that the test holds and has to answer."""
    connection = await stage.connection()
    for _ in range(count):
        connection.send_message(b"good", attempts=1)
    return [await stage.consumer.get() for _ in range(count)]


def test_fins_of_one_turn_go_out_in_order_with_what_lies_between() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            messages = await take(stage, 5)
            messages[0].finish()
            messages[1].finish()
            messages[2].touch()
            messages[3].finish()
            messages[4].requeue(1.5, backoff=False)
            messages[2].finish()

            connection = await stage.connection()
            await connection.wait_command("FIN", 4)
            sent = [(c.name, *c.params) for c in connection.commands[3:]]
            ids = [message.id.decode() for message in messages]
            assert sent == [
                ("FIN", ids[0]), ("FIN", ids[1]), ("TOUCH", ids[2]), ("FIN", ids[3]),
                ("REQ", ids[4], "1500"), ("FIN", ids[2]),
            ]  # fmt: skip

    run(scenario())


def test_answer_after_the_connection_died_is_dropped_and_counted_once() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            (message,) = await take(stage)
            (await stage.connection()).abort()
            await wait_until(lambda: message.is_connection_lost)
            stage.advance(1.0)
            second = await stage.connection(number=1)

            assert not message.finish()
            assert not message.finish()
            await settle()

            assert second.count("FIN") == 0
            assert stage.consumer.stats().dropped_answers == 1
            assert message.is_cancelled
            assert stage.consumer.stats().in_flight == 0

    run(scenario())


def test_unstarted_messages_of_a_lost_connection_are_not_handled() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            await take(stage)
            connection = await stage.connection()
            connection.send_message(b"waits")
            await wait_until(lambda: stage.consumer.stats().queued == 1)

            connection.abort()
            await wait_until(lambda: stage.consumer.stats().connections == 0)

            with pytest.raises(TimeoutError):
                await gotten_nothing(stage)

    run(scenario())


async def gotten_nothing(stage: Stage) -> None:
    getting = asyncio.ensure_future(stage.consumer.get(0.05))
    await settle()
    stage.advance(0.1)
    await getting


@pytest.mark.parametrize("command", ["FIN", "REQ"])
def test_refused_answer_marks_its_message_and_keeps_the_connection(command: str) -> None:
    told: list[object] = []
    hooks = ConsumerHooks(on_expired=told.append, on_error=told.append)

    async def scenario() -> None:
        async with staged(None, hooks=hooks) as stage:
            messages = await take(stage, 3)
            for message in messages:
                message.finish() if command == "FIN" else message.requeue()
            connection = await stage.connection()
            await connection.wait_command(command, 3)

            text = f"E_{command}_FAILED {command} {messages[1].id.decode()} failed ID not in flight"
            connection.send_error(text)
            await wait_until(lambda: stage.consumer.stats().late_answers == 1)

            assert [message.is_expired for message in messages] == [False, True, False]
            assert told[0] is messages[1]
            assert isinstance(told[1], ServerError)
            assert stage.consumer.stats().connections == 1
            assert stage.consumer.stats().expired == 1

    run(scenario())


def test_refused_touch_frees_the_place_of_its_message() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            (message,) = await take(stage)
            message.touch()
            connection = await stage.connection()
            connection.send_error(f"E_TOUCH_FAILED TOUCH {message.id.decode()} failed ID not in flight")
            await wait_until(lambda: message.is_expired)

            assert stage.consumer.stats().in_flight == 0
            assert not message.touch()
            assert message.finish()  # clocks differ: nsqd decides
            await connection.wait_command("FIN")

    run(scenario())


def test_late_answer_of_an_unknown_message_is_only_counted() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            connection = await stage.connection()
            connection.send_error("E_FIN_FAILED FIN 0123456789abcdef failed")
            connection.send_error("E_FIN_FAILED")
            await wait_until(lambda: stage.consumer.stats().late_answers == 2)

            assert stage.consumer.stats().expired == 0

    run(scenario())


def test_late_answers_back_off_when_asked_to() -> None:
    async def scenario() -> None:
        async with staged(None, backoff_on_late_answer=True) as stage:
            connection = await stage.connection()
            connection.send_error("E_FIN_FAILED FIN 0123456789abcdef failed")

            await connection.wait_transcript("IDENTIFY", "SUB", "RDY 5", "RDY 0")
            assert stage.consumer.stats().backoff_level == 1

    run(scenario())


def test_answers_from_another_thread_arrive_and_count_once() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            one, two, three = await take(stage, 3)
            results: list[bool] = []

            def work() -> None:
                results.extend([three.touch(), one.finish(), one.finish(), two.requeue(0, backoff=False)])

            thread = Thread(target=work)
            thread.start()
            await asyncio.to_thread(thread.join)
            await settle()
            three.finish()

            connection = await stage.connection()
            await connection.wait_command("FIN", 2)
            assert results == [True, True, False, True]
            assert {str(command) for command in connection.commands[3:]} == {"TOUCH", "FIN", "REQ"}
            assert one.answer is Answer.FINISHED
            assert two.answer is Answer.REQUEUED

    run(scenario())


def test_impossible_delay_is_refused_and_leaves_the_message_unanswered() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            (message,) = await take(stage)
            with pytest.raises(InvalidArgumentError):
                message.requeue(-1)

            assert message.is_in_flight
            assert message.finish()

    run(scenario())


def test_requeue_backs_off_unless_told_otherwise() -> None:
    async def scenario(backoff_on_requeue: bool, level: int) -> None:
        async with staged(None, backoff_on_requeue=backoff_on_requeue) as stage:
            (message,) = await take(stage)
            message.requeue(0)

            assert stage.consumer.stats().backoff_level == level

    run(scenario(True, 1))
    run(scenario(False, 0))


def test_unexpected_errors_and_responses_break_nothing() -> None:
    async def scenario() -> None:
        async with staged(None) as stage:
            connection = await stage.connection()
            connection.send_response(b"SURPRISE")
            connection.send_error("E_PUB_FAILED not ours")
            (message,) = await take(stage)
            message.finish()

            await connection.wait_command("FIN")
            assert stage.consumer.stats().connections == 1

    run(scenario())


def test_hooks_are_told_of_answers() -> None:
    told: list[tuple[object, ...]] = []

    def note(name: str) -> object:
        return lambda *arguments: told.append((name, *arguments[1:]))

    hooks = ConsumerHooks(
        on_message=note("message"),  # type: ignore[arg-type]
        on_finish=note("finish"),  # type: ignore[arg-type]
        on_requeue=note("requeue"),  # type: ignore[arg-type]
        on_touch=note("touch"),  # type: ignore[arg-type]
    )

    async def scenario() -> None:
        async with staged(None, hooks=hooks) as stage:
            one, two = await take(stage, 2)
            one.touch()
            one.finish()
            two.requeue(2, backoff=False)

    run(scenario())
    assert told == [("message",), ("message",), ("touch",), ("finish",), ("requeue", 2.0, False)]
