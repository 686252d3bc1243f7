"""Publishes that come too late or are given up, and what that does to the others."""

import asyncio

import pytest

from nsqlake.client.errors import PublishNotSentError, PublishUnknownError
from tests.client.producer.stage import SILENT, Stage, failure, play, received, settle
from tests.fakes.scripted_nsqd import OK_FRAME, error


def test_no_answer_in_time_leaves_it_unknown() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish(timeout=2)
        await stage.sent(b"body")

        stage.timers.advance(1.9)
        await settle()
        assert not publish.done()
        stage.timers.advance(0.2)

        unknown = await failure(publish)
        assert isinstance(unknown, PublishUnknownError)
        assert "no answer within 2 s" in unknown.reason

    play(script, answers=SILENT)


def test_the_limit_of_a_call_replaces_the_default() -> None:
    async def script(stage: Stage) -> None:
        default, longer = stage.publish(b"1"), stage.publish(b"2", timeout="10s")
        connection = await stage.sent(b"1", b"2")

        stage.timers.advance(5)
        await failure(default)
        assert not longer.done()

        connection.send_raw(OK_FRAME * 2)
        await longer

    play(script, answers=SILENT, publish_timeout=5)


def test_the_answer_to_a_publish_that_timed_out_is_not_taken_for_another_ones() -> None:
    async def script(stage: Stage) -> None:
        late = stage.publish(b"late", timeout=1)
        connection = await stage.sent(b"late")
        stage.timers.advance(1)
        await failure(late)
        bad, good = stage.publish(b"bad"), stage.publish(b"good")
        await stage.sent(b"late", b"bad", b"good")

        connection.send_raw(OK_FRAME + error("E_PUB_FAILED") + OK_FRAME)

        assert (await failure(bad)).reason == "E_PUB_FAILED"
        await good

    play(script, answers=SILENT)


def test_the_answer_to_a_cancelled_publish_is_not_taken_for_another_ones() -> None:
    async def script(stage: Stage) -> None:
        cancelled, bad, good = (stage.publish(body) for body in (b"cancelled", b"bad", b"good"))
        connection = await stage.sent(b"cancelled", b"bad", b"good")

        cancelled.cancel()
        await settle()
        assert cancelled.cancelled()
        connection.send_raw(OK_FRAME + error("E_PUB_FAILED") + OK_FRAME)

        await failure(bad)
        await good
        assert stage.producer.stats().pending == 0

    play(script, answers=SILENT)


def test_a_publish_cancelled_before_it_was_sent_is_never_sent() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection()).close()
        await stage.wait_connected(0)
        cancelled, kept = stage.publish(b"cancelled"), stage.publish(b"kept")
        await settle()

        cancelled.cancel()
        await settle()
        stage.timers.advance(1)
        await kept

        assert received(stage.nsqd) == [b"kept"]

    play(script)


def test_without_a_connection_in_time_it_is_not_sent() -> None:
    async def script(stage: Stage) -> None:
        stage.nsqd.stop_listening()
        (await stage.connection()).close()
        await stage.wait_connected(0)

        publish = stage.publish(timeout=0.05)
        await settle()
        stage.timers.advance(0.1)

        not_sent = await failure(publish)
        assert isinstance(not_sent, PublishNotSentError)
        assert "timed out after 0.05 s: no nsqd is connected" in not_sent.reason
        assert stage.nsqd.address in not_sent.reason
        assert stage.producer.stats().waiting == 0

    play(script)


def test_who_may_not_wait_fails_at_once() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection()).close()
        await stage.wait_connected(0)

        for publish in (
            stage.producer.publish("orders", b"x", block=False),
            stage.producer.multi_publish("orders", [b"x"], block=False),
            stage.producer.deferred_publish("orders", 1, b"x", block=False),
        ):
            with pytest.raises(PublishNotSentError):
                await publish

    play(script)


def test_wait_for_can_be_used_as_well() -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stage.producer.publish("orders", b"body"), 0)
        await asyncio.sleep(0)

        assert stage.producer.stats().waiting == 0

    play(script, answers=SILENT)
