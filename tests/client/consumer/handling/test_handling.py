"""Handlers: what they return and raise, how many run, in tasks and in threads, inside middleware."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Event, get_ident
from typing import Any

import pytest

from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.message import Discard, Message, Requeue
from tests.client.consumer.stage import Handler, run, settle, staged
from tests.fakes.loop_turns import wait_until

NO_BACKOFF = {"max_backoff_duration": 0}

OUTCOMES: list[tuple[str, Callable[[], object], str, int, int]] = [
    # name, what the handler does, answer, backoff level, exceptions
    ("None", lambda: None, "FIN", 0, 0),
    ("True", lambda: True, "FIN", 0, 0),
    ("False", lambda: False, "REQ", 1, 0),
    ("text", lambda: "text", "REQ", 1, 1),
    ("exception", lambda: 1 / 0, "REQ", 1, 1),
    ("Requeue", lambda: throw(Requeue(3.0)), "REQ", 1, 0),
    ("Requeue quietly", lambda: throw(Requeue(backoff=False)), "REQ", 0, 0),
    ("Requeue wrongly", lambda: throw(Requeue(-3.0)), "REQ", 1, 1),
    ("Discard", lambda: throw(Discard()), "FIN", 0, 0),
]


def throw(error: BaseException) -> None:
    raise error


def as_async(act: Callable[[], object]) -> Handler:
    async def handler(message: Message) -> object:
        return act()

    return handler


def as_plain(act: Callable[[], object]) -> Handler:
    return lambda message: act()


def as_async_batch(act: Callable[[], object]) -> Handler:
    async def handler(messages: list[Message]) -> object:
        return act()

    return handler


@pytest.mark.parametrize("kind", [as_async, as_plain, as_async_batch])
@pytest.mark.parametrize(
    ("act", "answer", "level", "exceptions"), [o[1:] for o in OUTCOMES], ids=[o[0] for o in OUTCOMES]
)
def test_result_of_a_handler_becomes_the_answer(
    kind: Callable[..., Handler], act: Callable[[], object], answer: str, level: int, exceptions: int
) -> None:
    async def scenario() -> None:
        batch_size = 1 if kind is as_async_batch else None
        async with staged(kind(act), batch_size=batch_size) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=1)
            await connection.wait_command(answer)

            stats = stage.consumer.stats()
            assert (stats.backoff_level, stats.handler_exceptions, stats.handled) == (level, exceptions, 1)
            assert stats.in_flight == 0

    run(scenario())


def test_exception_is_told_to_the_hook_with_its_message() -> None:
    told: list[tuple[Message, Exception]] = []
    hooks = ConsumerHooks(on_exception=lambda message, error: told.append((message, error)))

    async def scenario() -> None:
        async with staged(as_async(lambda: 1 / 0), hooks=hooks) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("REQ")

    run(scenario())
    assert told[0][0].body == b"x"
    assert isinstance(told[0][1], ZeroDivisionError)


def test_handler_that_disabled_the_automatic_answer_owes_it() -> None:
    kept: list[Message] = []

    async def handler(message: Message) -> None:
        message.disable_auto_response()
        kept.append(message)
        if message.body == b"bad":
            raise ValueError

    async def scenario() -> None:
        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"good")
            connection.send_message(b"bad")
            await wait_until(lambda: len(kept) == 2)
            await settle()

            assert connection.count("FIN") == connection.count("REQ") == 0
            assert stage.consumer.stats().in_flight == 2
            kept[0].finish()
            kept[1].finish()
            await connection.wait_command("FIN", 2)

    run(scenario())


# Tasks ------------------------------------------------------------------------------------------------


def test_handlers_that_wait_run_at_once_up_to_the_concurrency() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def handler(message: Message) -> None:
            await gate.wait()

        async with staged(handler, max_in_flight=100, concurrency=30) as stage:
            connection = await stage.connection()
            for _ in range(100):
                connection.send_message(b"x")
            await wait_until(lambda: stage.consumer.stats().running == 30)
            await settle()

            stats = stage.consumer.stats()
            assert (stats.running, stats.queued, stats.in_flight) == (30, 70, 100)
            gate.set()
            await connection.wait_command("FIN", 100)

    run(scenario())


def test_concurrency_is_max_in_flight_unless_it_is_given() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def handler(message: Message) -> None:
            await gate.wait()

        async with staged(handler, max_in_flight=3) as stage:
            connection = await stage.connection()
            for _ in range(5):
                connection.send_message(b"x")
            await wait_until(lambda: stage.consumer.stats().received == 5)
            await settle()
            assert stage.consumer.stats().running == 3

            stage.consumer.set_max_in_flight(5)
            connection.send_message(b"x")
            await wait_until(lambda: stage.consumer.stats().running == 5)
            gate.set()

    run(scenario())


def test_handlers_that_do_not_wait_leave_turns_for_heartbeats() -> None:
    async def handler(message: Message) -> None:
        pass

    async def scenario() -> None:
        async with staged(handler, max_in_flight=2500) as stage:
            connection = await stage.connection()
            for _ in range(2000):
                connection.send_message(b"x")
            connection.send_heartbeat()
            await connection.wait_command("NOP")
            await connection.wait_command("FIN", 2000)

    run(scenario())


def test_long_handler_does_not_hold_up_heartbeats() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def handler(message: Message) -> None:
            await gate.wait()

        async with staged(handler, concurrency=1) as stage:
            connection = await stage.connection()
            for _ in range(5):
                connection.send_message(b"x")
            connection.send_heartbeat()

            await connection.wait_command("NOP")
            assert connection.count("FIN") == 0
            gate.set()

    run(scenario())


def test_cancellation_that_a_handler_lets_out_puts_its_message_back() -> None:
    async def handler(message: Message) -> None:
        if message.body == b"cancelled":
            raise asyncio.CancelledError

    async def scenario() -> None:
        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"cancelled", attempts=1)
            connection.send_message(b"good")
            command = await connection.wait_command("REQ")
            await connection.wait_command("FIN")

            assert command.params[1] == "0"
            assert stage.consumer.stats().backoff_level == 0

    run(scenario())


def test_timeouts_and_the_current_task_work_inside_handlers() -> None:
    async def handler(message: Message) -> None:
        async with asyncio.timeout(5):
            assert asyncio.current_task() is not None

    async def scenario() -> None:
        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("FIN")

    run(scenario())


class Callee:
    async def __call__(self, message: Message) -> None:
        assert asyncio.current_task() is not None


async def with_more(more: str, message: Message) -> None:
    assert asyncio.current_task() is not None


@pytest.mark.parametrize(
    "handler", [Callee(), partial(with_more, "more"), lambda message: with_more("", message)]
)
def test_everything_that_is_called_like_a_coroutine_function_runs_on_the_loop(handler: Handler) -> None:
    async def scenario() -> None:
        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("FIN")

    run(scenario())


# Threads ----------------------------------------------------------------------------------------------


def test_plain_handlers_run_in_threads_and_block_nothing() -> None:
    gate, threads = Event(), set()

    def handler(message: Message) -> None:
        threads.add(get_ident())
        assert gate.wait(10)

    async def scenario() -> None:
        async with staged(handler, max_in_flight=20, concurrency=4) as stage:
            connection = await stage.connection()
            for _ in range(10):
                connection.send_message(b"x")
            connection.send_heartbeat()
            await connection.wait_command("NOP")
            await wait_until(lambda: len(threads) == 4)

            stats = stage.consumer.stats()
            assert (stats.running, stats.queued) == (4, 6)
            gate.set()
            await connection.wait_command("FIN", 10)
            assert get_ident() not in threads

    run(scenario())


def test_message_that_expired_before_a_thread_was_free_is_not_started() -> None:
    gate, seen = Event(), []

    def handler(message: Message) -> None:
        seen.append(message.body)
        assert gate.wait(10)

    async def scenario() -> None:
        async with staged(handler, concurrency=1, read_timeout=300) as stage:
            connection = await stage.connection()
            connection.send_message(b"long")
            await wait_until(lambda: seen == [b"long"])
            connection.send_message(b"late")
            await wait_until(lambda: stage.consumer.stats().queued == 1)
            stage.advance(60.5)
            gate.set()
            await connection.wait_command("FIN")
            await wait_until(lambda: stage.consumer.stats().in_flight == 0)

            assert seen == [b"long"]
            assert stage.consumer.stats().expired == 1

    run(scenario())


def test_thread_that_a_handler_wants_to_exit_goes_on() -> None:
    def handler(message: Message) -> None:
        if message.body == b"exit":
            raise SystemExit

    async def scenario() -> None:
        async with staged(handler, concurrency=1, **NO_BACKOFF) as stage:
            connection = await stage.connection()
            connection.send_message(b"exit")
            connection.send_message(b"good")
            await connection.wait_command("REQ")
            await connection.wait_command("FIN")

            assert stage.consumer.stats().handler_exceptions == 1

    run(scenario())


def test_plain_handler_answers_from_its_thread() -> None:
    def handler(message: Message) -> None:
        assert message.touch()
        assert message.requeue(1, backoff=False)
        assert not message.finish()

    async def scenario() -> None:
        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("REQ")
            await wait_until(lambda: stage.consumer.stats().handled == 1)

            assert connection.count("FIN") == 0

    run(scenario())


# Middleware -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [as_async, as_plain])
def test_middleware_surrounds_the_handler_in_order(kind: Callable[..., Handler]) -> None:
    steps: list[str] = []

    def layer(name: str) -> Any:
        async def middleware(message: Message, call_next: Callable[[Any], Awaitable[object]]) -> object:
            steps.append(f"{name} in")
            result = await call_next(message)
            steps.append(f"{name} out")
            return result

        return middleware

    async def scenario() -> None:
        act = partial(steps.append, "handler")
        async with staged(kind(act), middleware=[layer("outer"), layer("inner")]) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("FIN")

    run(scenario())
    assert steps == ["outer in", "inner in", "handler", "inner out", "outer out"]


def test_middleware_may_answer_instead_of_the_handler() -> None:
    async def refuse(message: Message, call_next: object) -> bool:
        return False

    async def scenario() -> None:
        async with staged(as_async(lambda: None), middleware=[refuse]) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await connection.wait_command("REQ")

    run(scenario())
