"""What is unanswered is bounded, and a slow nsqd slows its producers."""

import asyncio

import pytest

from nsqlake.client.errors import PublishNotSentError, PublishUnknownError
from tests.client.producer.stage import SILENT, Stage, failure, play, settle
from tests.fakes.loop_turns import wait_until
from tests.fakes.scripted_nsqd import OK_FRAME


def test_more_publishes_than_allowed_wait_for_answers() -> None:
    async def script(stage: Stage) -> None:
        publishes = [stage.publish(b"%d" % number) for number in range(5)]
        connection = await stage.sent(b"0", b"1")
        await settle()
        stats = stage.producer.stats()
        assert (stats.pending, stats.waiting) == (2, 3)

        connection.send_response(b"OK")
        await stage.sent(b"0", b"1", b"2")
        connection.send_raw(OK_FRAME * 2)
        await stage.sent(b"0", b"1", b"2", b"3", b"4")
        connection.send_raw(OK_FRAME * 2)

        await asyncio.gather(*publishes)

    play(script, answers=SILENT, max_publish_in_flight=2)


def test_more_bytes_than_allowed_wait_for_answers() -> None:
    async def script(stage: Stage) -> None:
        first, second = stage.publish(b"a" * 600), stage.publish(b"b" * 600)
        connection = await stage.sent(b"a" * 600)
        await settle()
        assert stage.producer.stats().pending_bytes < 1000

        connection.send_response(b"OK")
        await stage.sent(b"a" * 600, b"b" * 600)
        connection.send_response(b"OK")

        await asyncio.gather(first, second)

    play(script, answers=SILENT, max_publish_bytes=1000)


def test_a_publish_larger_than_allowed_goes_alone() -> None:
    async def script(stage: Stage) -> None:
        small, large = stage.publish(b"small"), stage.publish(b"x" * 5000)
        connection = await stage.sent(b"small")

        connection.send_response(b"OK")
        await stage.sent(b"small", b"x" * 5000)
        connection.send_response(b"OK")

        await asyncio.gather(small, large)

    play(script, answers=SILENT, max_publish_bytes=1000)


def test_who_does_not_wait_is_told_that_the_queue_is_full() -> None:
    async def script(stage: Stage) -> None:
        for number in range(3):
            stage.producer.publish_nowait("orders", b"%d" % number)

        with pytest.raises(PublishNotSentError, match="queue full"):
            stage.producer.publish_nowait("orders", b"3")

        (await stage.sent(b"0", b"1", b"2")).send_raw(OK_FRAME * 3)
        assert await stage.producer.flush() == 0
        stage.producer.publish_nowait("orders", b"4")

    play(script, answers=SILENT, max_publish_in_flight=3)


def test_what_waits_for_a_connection_fills_the_queue_too() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection()).close()
        await stage.wait_connected(0)
        stage.producer.publish_nowait("orders", b"1")
        stage.producer.publish_nowait("orders", b"2")

        with pytest.raises(PublishNotSentError):
            stage.producer.publish_nowait("orders", b"3")

        stage.timers.advance(1)
        assert await stage.producer.flush() == 0

    play(script, max_publish_in_flight=2)


def test_a_publish_that_timed_out_keeps_its_room_until_it_is_answered() -> None:
    async def script(stage: Stage) -> None:
        late, next_one = stage.publish(b"late", timeout=1), stage.publish(b"next")
        connection = await stage.sent(b"late")
        stage.timers.advance(1)
        assert isinstance(await failure(late), PublishUnknownError)
        assert stage.producer.stats().pending == 1

        connection.send_response(b"OK")
        await stage.sent(b"late", b"next")
        connection.send_response(b"OK")

        await next_one

    play(script, answers=SILENT, max_publish_in_flight=1)


def test_nothing_more_is_written_to_an_nsqd_that_takes_nothing() -> None:
    async def script(stage: Stage) -> None:
        connection = await stage.connection()
        connection.pause_reading()
        body = b"x" * 1_000_000

        publishes = []
        while not stage.producer.stats().waiting:
            publishes.append(stage.publish(body))
            await settle()
            assert len(publishes) < 100

        connection.resume_reading()
        await asyncio.gather(*publishes)

    play(script)


def test_another_nsqd_takes_over_from_a_slow_one() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection(0)).pause_reading()
        body = b"x" * 1_000_000

        publishes = []
        for _ in range(40):
            publishes.append(stage.publish(body))
            await settle()
        fast = await stage.connection(1)
        await wait_until(lambda: fast.count("PUB") > 20)

        (await stage.connection(0)).resume_reading()
        await asyncio.gather(*publishes)

    play(script, nsqds=2)


def test_the_first_nsqd_is_waited_for_when_it_is_only_slow() -> None:
    async def script(stage: Stage) -> None:
        first = await stage.connection(0)
        first.pause_reading()
        publishes = []
        for _ in range(40):
            publishes.append(stage.publish(b"x" * 1_000_000))
            await settle()

        assert stage.producer.stats().waiting
        assert (await stage.connection(1)).count("PUB") == 0

        first.resume_reading()
        await asyncio.gather(*publishes)
        assert (await stage.connection(1)).count("PUB") == 0

    play(script, nsqds=2, strategy="first")
