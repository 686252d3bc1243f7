"""Waiting for what is outstanding, looking whether nsqd is there, and the end."""

import asyncio
from typing import Any

import pytest

from nsqlake.client.errors import ConnectError, PublishNotSentError, PublishUnknownError
from nsqlake.client.producer import Producer, ProducerHooks
from tests.client.producer.stage import SILENT, Stage, failure, play, settle
from tests.client.support import run_on
from tests.fakes.loop_turns import wait_until
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import OK_FRAME, ScriptedNsqd


def test_closing_waits_for_what_is_outstanding() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        connection = await stage.sent(b"body")

        closing = asyncio.create_task(stage.producer.close())
        await settle()
        assert not closing.done()
        connection.send_response(b"OK")

        await publish
        await closing
        await connection.wait_ended()
        assert "CLS" not in connection.transcript

    play(script, answers=SILENT)


def test_closing_waits_for_what_is_not_even_sent() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection()).close()
        await stage.wait_connected(0)
        publish = stage.publish()
        await settle()

        closing = asyncio.create_task(stage.producer.close())
        await settle()
        stage.timers.advance(1)

        await publish
        await closing

    play(script)


def test_closing_ends_in_time_and_tells_what_is_unknown() -> None:
    async def script(stage: Stage) -> None:
        sent, waiting = stage.publish(b"sent"), stage.publish(b"waiting")
        await stage.sent(b"sent")

        closing = asyncio.create_task(stage.producer.close(timeout=3))
        await settle()
        stage.timers.advance(3)

        assert isinstance(await failure(sent), PublishUnknownError)
        assert isinstance(await failure(waiting), PublishNotSentError)
        await closing
        assert stage.connected == 0

    play(script, answers=SILENT, max_publish_in_flight=1)


def test_everybody_who_closes_waits_for_the_same_end() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        connection = await stage.sent(b"body")
        closings = [asyncio.create_task(stage.producer.close()) for _ in range(3)]
        await settle()

        closings[0].cancel()
        await settle()
        connection.send_response(b"OK")

        await asyncio.gather(publish, *closings[1:])

    play(script, answers=SILENT)


def test_closing_gives_up_an_attempt_to_connect() -> None:
    async def script() -> None:
        async with ScriptedNsqd(identify=b"") as nsqd:
            nsqd.answers["IDENTIFY"] = None
            producer = Producer(nsqd.address)
            await producer.start()
            await nsqd.connection()

            await producer.close()

            assert producer.stats().nodes[0].state == "stopped"

    run_on("uvloop", script())


def test_a_flush_waits_for_earlier_publishes_only() -> None:
    async def script(stage: Stage) -> None:
        stage.producer.publish_nowait("orders", b"earlier")
        flush = asyncio.create_task(stage.producer.flush())
        await settle()
        stage.producer.publish_nowait("orders", b"later")
        connection = await stage.sent(b"earlier", b"later")

        connection.send_response(b"OK")

        assert await flush == 0
        assert stage.producer.stats().pending == 1

    play(script, answers=SILENT)


def test_a_flush_without_anything_outstanding_returns() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.producer.flush() == 0

    play(script)


def test_a_ping_is_happy_with_a_connection_that_was_heard_of() -> None:
    async def script(stage: Stage) -> None:
        await stage.producer.ping()

        assert len(stage.nsqd.connections) == 1

    play(script)


def test_a_ping_notices_silence_of_two_heartbeats() -> None:
    async def script(stage: Stage) -> None:
        stage.timers.advance(59)
        await stage.producer.ping()
        connection = await stage.connection()
        connection.send_heartbeat()
        await connection.wait_command("NOP")
        stage.timers.advance(59.9)
        await stage.producer.ping()

        stage.timers.advance(0.2)

        with pytest.raises(ConnectError, match="nothing heard for 60"):
            await stage.producer.ping()

    play(script, heartbeat_interval=30, read_timeout=90)


def test_a_strict_ping_shakes_hands_anew() -> None:
    async def script(stage: Stage) -> None:
        await stage.producer.ping(strict=True)

        second = await stage.connection(number=1)
        await second.wait_ended()
        assert stage.connected == 1

    play(script)


@pytest.mark.parametrize("strict", [False, True])
def test_a_ping_fails_without_an_nsqd(strict: bool) -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd:
            nsqd.stop_listening()
            async with Producer(nsqd.address) as producer:
                with pytest.raises(ConnectError, match=nsqd.address):
                    await producer.ping(strict=strict, timeout=0.05)

    run_on("asyncio", script())


def test_a_ping_connects_by_itself() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd:
            producer = Producer(nsqd.address)
            await producer.ping()
            await producer.close()

    run_on("uvloop", script())


def test_stats_tell_what_was_published() -> None:
    async def script(stage: Stage) -> None:
        await stage.producer.publish("orders", b"body")
        await stage.producer.multi_publish("orders", [b"1", b"2"])

        stats = stage.producer.stats()
        assert (stats.commands, stats.messages, stats.failed) == (2, 3, 0)
        assert (
            stats.bytes == sum(len(part) for part in (b"PUB orders\n....body", b"MPUB orders\n........")) + 10
        )
        assert sum(count for _, count in stats.latency_s) == 2
        assert stats.nodes[0].connects == 1

    play(script)


def test_hooks_are_told_and_can_break_nothing(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[Any, ...]] = []

    def note(name: str) -> Any:
        def hook(*arguments: object) -> None:
            told.append((name, *arguments))
            raise RuntimeError(name)

        return hook

    async def slow(topic: str, messages: int, size_bytes: int) -> None:
        told.append(("on_publish", topic, messages))

    hooks = ProducerHooks(
        on_connect=note("on_connect"),
        on_disconnect=note("on_disconnect"),
        on_publish=slow,
        on_published=note("on_published"),
        on_error=note("on_error"),
    )

    async def script(stage: Stage) -> None:
        told.clear()
        good, bad = stage.publish(b"good"), stage.publish(b"bad")
        connection = await stage.sent(b"good", b"bad")
        connection.send_raw(OK_FRAME)
        await good
        connection.abort()
        await failure(bad)
        stage.timers.advance(1)
        await stage.wait_connected(1)
        await settle()

        names = [name for name, *_ in told]
        assert sorted(names) == [
            "on_connect",
            "on_disconnect",
            "on_error",
            "on_publish",
            "on_publish",
            "on_published",
        ]
        assert "on_connect" in caplog.text

    play(script, answers=SILENT, hooks=hooks)


def test_a_first_attempt_that_is_slow_does_not_hold_up_starting_with_another_nsqd() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as slow, ScriptedNsqd() as fast:
            slow.answers["IDENTIFY"] = b""
            producer = Producer([slow.address, fast.address], timers=MovedTimers())
            await producer.start(wait=True)
            await wait_until(lambda: len(slow.connections) == 1)
            await producer.close()

    run_on("asyncio", script())
