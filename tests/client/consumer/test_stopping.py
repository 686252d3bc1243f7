"""Stopping: CLS, drain, close; and the ends of those who do not want to."""

import asyncio
from threading import Event

import pytest

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.errors import ClientClosedError
from nsqlake.client.message import Message
from tests.client.consumer.stage import by_body, ended, run, settle, staged
from tests.fakes.loop_turns import wait_until
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import ScriptedNsqd


class Slow:
    """A handler that waits until it may go on."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = 0
        self.cancelled = 0

    async def __call__(self, message: Message) -> None:
        self.started += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def test_running_handler_ends_and_unstarted_messages_go_back_at_once() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with staged(slow, concurrency=1) as stage:
            connection = await stage.connection()
            for _ in range(3):
                connection.send_message(b"x", attempts=1)
            await wait_until(lambda: slow.started == 1)
            await wait_until(lambda: stage.consumer.stats().received == 3)

            stopping = asyncio.ensure_future(stage.consumer.stop())
            await connection.wait_command("REQ", 2)
            connection.send_heartbeat()
            await connection.wait_command("NOP")
            assert not stopping.done()
            slow.gate.set()
            await stopping

            await connection.wait_ended()
            assert connection.transcript[2:] == ["RDY 5", "CLS", "REQ", "REQ", "FIN"]
            delays = [command.params[1] for command in connection.commands if command.name == "REQ"]
            assert delays == ["0", "0"]
            stats = stage.consumer.stats()
            assert (stats.connections, stats.in_flight, stats.abandoned, slow.started) == (0, 0, 0, 1)
            assert stats.backoff_level == 0

    run(scenario())


def test_queued_messages_are_handled_first_when_asked_for() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with staged(slow, concurrency=1, drain="process") as stage:
            connection = await stage.connection()
            for _ in range(3):
                connection.send_message(b"x")
            await wait_until(lambda: stage.consumer.stats().received == 3)
            stopping = asyncio.ensure_future(stage.consumer.stop())
            await connection.wait_command("CLS")
            slow.gate.set()
            await stopping

            await connection.wait_ended()
            assert connection.transcript[2:] == ["RDY 5", "CLS", "FIN", "FIN", "FIN"]

    run(scenario())


def test_messages_that_come_before_close_wait_go_back() -> None:
    async def scenario() -> None:
        async with staged(by_body) as stage:
            stage.nsqd.answers["CLS"] = None
            connection = await stage.connection()
            stopping = asyncio.ensure_future(stage.consumer.stop())
            await connection.wait_command("CLS")
            connection.send_message(b"on its way")
            await connection.wait_command("REQ")
            assert not stopping.done()
            connection.send_response(b"CLOSE_WAIT")
            await stopping

            await connection.wait_ended()
            assert connection.count("FIN") == 0

    run(scenario())


def test_handlers_that_take_too_long_are_cancelled_and_their_messages_put_back() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with staged(slow, stop_timeout=30) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=3)
            await wait_until(lambda: slow.started == 1)
            stopping = asyncio.ensure_future(stage.consumer.stop())
            await connection.wait_command("CLS")
            stage.advance(29)
            await settle()
            assert not stopping.done()
            stage.advance(1.1)
            await stopping

            assert slow.cancelled == 1
            await connection.wait_ended()
            assert connection.commands[-1].name == "REQ"
            assert connection.commands[-1].params[1] == "0"
            assert stage.consumer.stats().connections == 0

    run(scenario())


def test_threads_that_take_too_long_are_left_alone_and_their_messages_abandoned() -> None:
    gate, started = Event(), Event()

    def handler(message: Message) -> None:
        started.set()
        gate.wait(10)

    async def scenario() -> None:
        async with staged(handler, stop_timeout=30) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await wait_until(started.is_set)
            stage.consumer.request_stop()
            await connection.wait_command("CLS")
            stage.advance(30.1)
            await ended(stage.consumer, stage.timers)

            await connection.wait_ended()
            assert connection.commands[-1].name == "REQ"
            assert stage.consumer.stats().abandoned == 1
            gate.set()

    run(scenario())


def test_silent_nsqd_does_not_keep_a_consumer_from_stopping() -> None:
    async def scenario() -> None:
        async with staged(by_body) as stage:
            stage.nsqd.answers["CLS"] = None
            stage.consumer.request_stop()
            await (await stage.connection()).wait_command("CLS")
            stage.advance(30.1)
            await ended(stage.consumer, stage.timers)

            assert stage.consumer.stats().connections == 0

    run(scenario())


def test_handler_may_stop_its_consumer() -> None:
    async def scenario() -> None:
        async def handler(message: Message) -> None:
            await stage.consumer.stop()

        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await stage.consumer.wait_stopped()

            await connection.wait_ended()
            assert connection.transcript[2:] == ["RDY 5", "FIN", "CLS"]

    run(scenario())


def test_plain_handler_may_stop_its_consumer() -> None:
    async def scenario() -> None:
        def handler(message: Message) -> None:
            stage.consumer.request_stop()

        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"x")
            await stage.consumer.wait_stopped()

            assert connection.count("FIN") == 1

    run(scenario())


def test_hook_may_stop_the_consumer() -> None:
    async def scenario() -> None:
        async def on_exception(message: Message, error: Exception) -> None:
            await stage.consumer.stop()

        async with staged(by_body, hooks=ConsumerHooks(on_exception=on_exception)) as stage:
            connection = await stage.connection()
            connection.send_message(b"bad")
            await stage.consumer.wait_stopped()

            assert connection.count("CLS") == 1

    run(scenario())


def test_stop_is_idempotent_and_leaves_nothing_behind() -> None:
    stops: list[str] = []

    async def scenario() -> None:
        async with staged(by_body, hooks=ConsumerHooks(on_stop=lambda: stops.append("stop"))) as stage:
            await asyncio.gather(stage.consumer.stop(), stage.consumer.stop())
            await stage.consumer.stop()

            assert stage.timers.waiting_count == 0
            assert stage.consumer.stats().connections == 0
            assert not stage.consumer.is_healthy()
            with pytest.raises(ClientClosedError):
                stage.consumer.pause()
            with pytest.raises(ClientClosedError):
                await stage.consumer.start()

    run(scenario())
    assert stops == ["stop"]


def test_stop_without_connections_returns_at_once_and_ends_all_attempts() -> None:
    async def scenario() -> None:
        timers = MovedTimers()
        async with ScriptedNsqd() as nsqd:
            nsqd.stop_listening()
        consumer = Consumer("orders", "archive", by_body, nsqd_tcp_addresses=nsqd.address, timers=timers)
        await consumer.start()
        await wait_until(lambda: consumer.stats().failed_connects == 1)

        await consumer.stop()

        assert timers.waiting_count == 0

    run(scenario())


def test_connection_in_the_handshake_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"SUB": None}) as nsqd:
            consumer = Consumer(
                "orders", "archive", by_body, nsqd_tcp_addresses=nsqd.address, timers=MovedTimers()
            )
            await consumer.start()
            connection = await nsqd.ready_connection(after="SUB")

            await consumer.stop()

            await connection.wait_ended()
            assert connection.transcript == ["IDENTIFY", "SUB"]

    run(scenario())


def test_stop_before_start_is_a_stop() -> None:
    async def scenario() -> None:
        consumer = Consumer("orders", "archive", by_body, nsqd_tcp_addresses="127.0.0.1")
        await consumer.stop()

        assert consumer.is_stopped
        with pytest.raises(ClientClosedError):
            await consumer.start()

    run(scenario())


def test_stop_now_does_not_wait_for_handlers() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with staged(slow) as stage:
            connection = await stage.connection()
            connection.send_message(b"x", attempts=1)
            await wait_until(lambda: slow.started == 1)
            stage.consumer.request_stop()
            await connection.wait_command("CLS")
            stage.consumer.stop_now()
            await stage.consumer.wait_stopped()

            assert slow.cancelled == 1
            await connection.wait_ended()
            assert connection.transcript[-2:] == ["CLS", "REQ"]

    run(scenario())


def test_no_rdy_is_sent_after_cls() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with staged(slow, nsqds=2, max_in_flight=4) as stage:
            one, two = await stage.connection(0), await stage.connection(1)
            await stage.wait_rdy(2, 2)
            one.send_message(b"x")
            await wait_until(lambda: slow.started == 1)
            stage.consumer.request_stop()
            await two.wait_ended()
            slow.gate.set()
            await stage.consumer.wait_stopped()

            for connection in (one, two):
                await connection.wait_ended()
                after = connection.transcript[connection.transcript.index("CLS") :]
                assert not any(command.startswith("RDY") for command in after)

    run(scenario())
