"""The nsqds of a consumer: named, found, refused, lost, forgotten."""

import asyncio

import pytest

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.errors import ConnectError, HandshakeRefusedError, InvalidArgumentError
from nsqlake.wire.frames import OK_FRAME
from tests.client.consumer.stage import by_body, run, settle, staged
from tests.fakes.loop_turns import wait_until
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import ScriptedNsqd, error


def make_consumer(nsqd: ScriptedNsqd, timers: MovedTimers, **options: object) -> Consumer:
    return Consumer("orders", "archive", by_body, nsqd_tcp_addresses=nsqd.address, timers=timers, **options)  # type: ignore[arg-type]


def test_named_nsqd_is_tried_again_and_again_with_growing_delays() -> None:
    async def scenario() -> None:
        timers = MovedTimers()
        async with ScriptedNsqd() as nsqd:
            nsqd.stop_listening()
        consumer = make_consumer(nsqd, timers)
        await consumer.start()
        waits = []
        for attempts in range(1, 12):
            await wait_until(lambda attempts=attempts: consumer.stats().failed_connects == attempts)  # type: ignore[misc]
            wait_s = 0.0
            while consumer.stats().nodes[0].state == "waiting":
                timers.advance(0.125)
                wait_s += 0.125
            waits.append(wait_s)

        assert waits[0] <= 0.375
        assert waits[-1] >= 30.0
        assert max(waits) <= 60.125
        await consumer.stop()

    run(scenario())


def test_refused_subscription_does_not_loop_hot_and_a_permanent_one_waits_longest() -> None:
    async def scenario() -> None:
        timers = MovedTimers()
        async with ScriptedNsqd(answers={"SUB": error("E_BAD_TOPIC no")}) as nsqd:
            consumer = make_consumer(nsqd, timers)
            await consumer.start()
            await wait_until(lambda: consumer.stats().failed_connects == 1)
            timers.advance(29)
            await settle()
            assert len(nsqd.connections) == 1
            timers.advance(31.1)
            await wait_until(lambda: consumer.stats().failed_connects == 2)

            assert consumer.stats().nodes[0].last_error.endswith("E_BAD_TOPIC no")
            await consumer.stop()

    run(scenario())


def test_connection_that_is_lost_at_once_counts_as_a_failure() -> None:
    async def scenario() -> None:
        async with staged() as stage:
            for number in range(4):
                await wait_until(lambda: stage.consumer.stats().connections == 1)
                (await stage.connection(number=number)).abort()
                await wait_until(lambda: stage.consumer.stats().connections == 0)
                stage.advance(0.25 * 2**number / 2 - 0.01)  # chance halves a delay at most
                await settle()
                assert len(stage.nsqd.connections) == number + 1
                stage.advance(0.25 * 2**number / 2 + 0.01)

            assert stage.consumer.stats().disconnects == 4

    run(scenario())


def test_connection_that_is_lost_before_it_could_be_used_is_tried_again() -> None:
    async def scenario() -> None:
        broken = OK_FRAME + bytes(8)
        async with ScriptedNsqd(answers={"SUB": [broken, OK_FRAME]}) as nsqd:
            timers = MovedTimers()
            consumer = make_consumer(nsqd, timers)
            await consumer.start()
            await wait_until(lambda: consumer.stats().disconnects == 1)
            assert consumer.stats().connections == 0
            timers.advance(1.0)

            await (await nsqd.connection(1)).wait_command("RDY")
            assert consumer.stats().connections == 1
            await consumer.stop()

    run(scenario())


def test_fresh_connection_starts_from_nothing() -> None:
    async def scenario() -> None:
        async with staged() as stage:
            await stage.wait_rdy(5)
            (await stage.connection()).abort()
            await wait_until(lambda: stage.consumer.stats().connections == 0)
            assert stage.consumer.stats().rdy == 0
            stage.advance(1.0)

            second = await stage.connection(number=1)
            await second.wait_transcript("IDENTIFY", "SUB", "RDY 5")

    run(scenario())


def test_start_may_wait_for_the_first_connection_or_fail() -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            consumer = make_consumer(nsqd, MovedTimers())
            await consumer.start(wait=True)
            assert consumer.stats().connections == 1
            assert consumer.is_healthy()
            await consumer.stop()

        refused = make_consumer(nsqd, MovedTimers())
        with pytest.raises(ConnectError):
            await refused.start(wait=True)
        assert refused.is_stopped

    run(scenario())


def test_text_of_a_refusal_reaches_who_waits_for_the_start() -> None:
    async def scenario() -> None:
        text = "E_BAD_BODY IDENTIFY heartbeat interval (100) is invalid"
        async with ScriptedNsqd(answers={"IDENTIFY": error(text)}) as nsqd:
            consumer = make_consumer(nsqd, MovedTimers(), heartbeat_interval="100ms")
            with pytest.raises(
                HandshakeRefusedError, match=r"E_BAD_BODY IDENTIFY heartbeat interval \(100\)"
            ):
                await consumer.start(wait=True)

    run(scenario())


def test_nsqds_come_and_go_while_the_consumer_runs() -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as other, staged() as stage:
            stage.consumer.connect_to_nsqd(other.address)
            stage.consumer.connect_to_nsqd(other.address)
            await wait_until(lambda: stage.consumer.stats().connections == 2)

            stage.consumer.disconnect_from_nsqd(other.address)
            connection = await other.connection()
            await connection.wait_ended()
            await wait_until(lambda: stage.consumer.stats().connections == 1)
            stage.advance(100)
            await settle()

            assert connection.transcript[-1] == "CLS"
            assert len(other.connections) == 1
            with pytest.raises(InvalidArgumentError):
                stage.consumer.disconnect_from_nsqd("127.0.0.1:1")

    run(scenario())


def test_disconnect_ends_pending_attempts() -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as gone:
            gone.stop_listening()
        async with staged() as stage:
            stage.consumer.connect_to_nsqd(gone.address)
            await wait_until(lambda: stage.consumer.stats().failed_connects == 1)

            stage.consumer.disconnect_from_nsqd(gone.address)
            stage.advance(100)
            await settle()

            assert stage.consumer.stats().failed_connects == 1

    run(scenario())


def test_hooks_are_told_of_connections() -> None:
    told: list[str] = []
    hooks = ConsumerHooks(
        on_connect=lambda address: told.append("connect"),
        on_ready=lambda address: told.append("ready"),
        on_rdy=lambda address, count: told.append(f"rdy {count}"),
        on_heartbeat=lambda address: told.append("heartbeat"),
        on_disconnect=lambda address, error: told.append(f"disconnect {error}"),
    )

    async def scenario() -> None:
        async with staged(hooks=hooks) as stage:
            connection = await stage.connection()
            connection.send_heartbeat()
            await connection.wait_command("NOP")

    run(scenario())
    assert told == ["connect", "rdy 5", "ready", "heartbeat", "disconnect None"]


def test_hook_that_fails_breaks_nothing() -> None:
    async def fail_later(*_: object) -> None:
        raise ValueError

    def fail(*_: object) -> None:
        raise ValueError

    async def scenario() -> None:
        hooks = ConsumerHooks(on_connect=fail, on_message=fail_later, on_finish=fail, on_rdy=fail)
        async with staged(hooks=hooks) as stage:
            connection = await stage.connection()
            connection.send_message(b"good")
            await connection.wait_command("FIN")

    run(scenario())


def test_health_needs_something_heard_within_two_heartbeats() -> None:
    async def scenario() -> None:
        async with staged(read_timeout=300) as stage:
            assert stage.consumer.is_healthy()
            stage.advance(60.5)
            assert not stage.consumer.is_healthy()
            connection = await stage.connection()
            connection.send_heartbeat()
            await connection.wait_command("NOP")
            assert stage.consumer.is_healthy()

    run(scenario())


def test_many_connections_at_once_begin_with_one_message_each() -> None:
    async def scenario() -> None:
        async with staged(nsqds=10, max_in_flight=100) as stage:
            await settle()
            firsts = [nsqd.connections[0].transcript[2] for nsqd in stage.nsqds]
            assert "RDY 1" in firsts

            for nsqd in stage.nsqds:
                nsqd.connections[0].send_message(b"good")
            await asyncio.gather(*(nsqd.connections[0].wait_command("FIN") for nsqd in stage.nsqds))

            assert {node.rdy for node in stage.consumer.stats().nodes} == {10}

    run(scenario())
