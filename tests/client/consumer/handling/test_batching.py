"""Batches: by size, by time, by starvation; answered together or one by one."""

import asyncio

import pytest

from nsqlake.client.message import Message, Requeue
from tests.client.consumer.stage import run, settle, staged
from tests.fakes.loop_turns import wait_until


class Batches:
    def __init__(self) -> None:
        self.seen: list[list[bytes]] = []

    async def __call__(self, messages: list[Message]) -> None:
        self.seen.append([message.body for message in messages])


def test_batch_is_handed_over_when_it_is_full() -> None:
    async def scenario() -> None:
        batches = Batches()
        async with staged(batches, batch_size=3, max_in_flight=100) as stage:
            connection = await stage.connection()
            for number in range(7):
                connection.send_message(b"%d" % number)
            await connection.wait_command("FIN", 6)

            assert batches.seen == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
            stats = stage.consumer.stats()
            assert (stats.queued, stats.in_flight, stats.handled) == (1, 1, 2)

    run(scenario())


def test_batch_is_handed_over_after_its_time() -> None:
    async def scenario() -> None:
        batches = Batches()
        async with staged(batches, batch_size=3, batch_timeout=2.0, max_in_flight=100) as stage:
            connection = await stage.connection()
            connection.send_message(b"a")
            await wait_until(lambda: stage.consumer.stats().queued == 1)
            stage.advance(1.5)
            connection.send_message(b"b")
            await wait_until(lambda: stage.consumer.stats().queued == 2)
            assert batches.seen == []
            stage.advance(0.6)

            await connection.wait_command("FIN", 2)
            assert batches.seen == [[b"a", b"b"]]

    run(scenario())


def test_batch_that_can_never_fill_is_handed_over_when_nsqd_sends_no_more() -> None:
    async def scenario() -> None:
        batches = Batches()
        async with staged(batches, batch_size=50, max_in_flight=4) as stage:
            connection = await stage.connection()
            for _ in range(4):
                connection.send_message(b"x")
            await connection.wait_command("FIN", 4)

            assert sum(map(len, batches.seen)) == 4

    run(scenario())


def test_batch_handler_may_answer_single_messages() -> None:
    async def handler(messages: list[Message]) -> None:
        messages[0].requeue(5, backoff=False)
        messages[1].finish()

    async def scenario() -> None:
        async with staged(handler, batch_size=4, max_in_flight=100) as stage:
            connection = await stage.connection()
            ids = [connection.send_message(b"x").decode() for _ in range(4)]
            await connection.wait_command("FIN", 3)

            assert [c.params[0] for c in connection.commands if c.name == "REQ"] == ids[:1]
            assert [c.params[0] for c in connection.commands if c.name == "FIN"] == ids[1:]

    run(scenario())


@pytest.mark.parametrize(("error", "level"), [(ValueError(), 1), (Requeue(backoff=False), 0)])
def test_failed_batch_requeues_what_it_has_not_answered(error: Exception, level: int) -> None:
    async def handler(messages: list[Message]) -> None:
        messages[0].finish()
        raise error

    async def scenario() -> None:
        async with staged(handler, batch_size=3, max_in_flight=100) as stage:
            connection = await stage.connection()
            for _ in range(3):
                connection.send_message(b"x")
            await connection.wait_command("REQ", 2)

            assert connection.count("FIN") == 1
            assert stage.consumer.stats().backoff_level == level

    run(scenario())


def test_expired_and_hopeless_messages_are_left_out_of_a_batch() -> None:
    async def scenario() -> None:
        batches = Batches()
        async with staged(
            batches, batch_size=3, batch_timeout=100.0, max_in_flight=100, read_timeout=300
        ) as stage:
            connection = await stage.connection()
            connection.send_message(b"old")
            await wait_until(lambda: stage.consumer.stats().queued == 1)
            stage.advance(60.5)
            connection.send_message(b"hopeless", attempts=6)
            connection.send_message(b"good", attempts=1)
            await connection.wait_command("FIN", 2)

            assert batches.seen == [[b"good"]]
            stats = stage.consumer.stats()
            assert (stats.expired, stats.given_up) == (1, 1)

    run(scenario())


def test_plain_batch_handler_runs_in_a_thread() -> None:
    def handler(messages: list[Message]) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    async def scenario() -> None:
        async with staged(handler, batch_size=2, max_in_flight=100) as stage:
            connection = await stage.connection()
            for _ in range(4):
                connection.send_message(b"x")

            await connection.wait_command("FIN", 4)

    run(scenario())


def test_gathered_messages_go_back_at_the_stop() -> None:
    async def scenario() -> None:
        batches = Batches()
        async with staged(batches, batch_size=3, max_in_flight=100) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=1)
            await wait_until(lambda: stage.consumer.stats().queued == 1)

            await stage.consumer.stop()

            assert connection.transcript[-2:] == ["CLS", "REQ"]
            assert batches.seen == []
            await settle()

    run(scenario())
