"""Rejected, not sent and unknown are told apart, and every publish is settled exactly once."""

import asyncio

import pytest

from nsqlake.client.errors import PublishNotSentError, PublishRejectedError, PublishUnknownError
from tests.client.producer.stage import SILENT, Stage, failure, play, received
from tests.fakes.loop_turns import wait_until
from tests.fakes.scripted_nsqd import OK_FRAME, error

FATAL = ["E_BAD_TOPIC", "E_BAD_MESSAGE", "E_BAD_BODY", "E_INVALID", "E_UNAUTHORIZED", "E_NEW_CODE"]


@pytest.mark.parametrize("code", FATAL)
def test_what_nsqd_refuses_is_rejected_and_what_was_behind_it_not_sent(code: str) -> None:
    async def script(stage: Stage) -> None:
        good, bad, *behind = (stage.publish(body) for body in (b"1", b"2", b"3", b"4"))
        connection = await stage.sent(b"1", b"2", b"3", b"4")

        connection.send_raw(OK_FRAME + error(f"{code} because of it"))
        connection.close()

        await good
        rejected = await failure(bad)
        assert isinstance(rejected, PublishRejectedError)
        assert (rejected.code, rejected.text, rejected.topic) == (code, "because of it", "orders")
        assert (rejected.address, rejected.retriable) == (stage.nsqd.address, False)
        for publish in behind:
            not_sent = await failure(publish)
            assert isinstance(not_sent, PublishNotSentError)
            assert not_sent.retriable

    play(script, answers=SILENT)


def test_a_rejection_does_not_kill_the_producer() -> None:
    async def script(stage: Stage) -> None:
        bad = stage.publish(b"bad")
        connection = await stage.sent(b"bad")
        connection.send_error("E_BAD_MESSAGE too big")
        connection.close()
        await failure(bad)
        await stage.wait_connected(0)

        good = stage.publish(b"good")
        stage.timers.advance(1)
        (await stage.sent(b"good", number=1)).send_response(b"OK")
        await good

    play(script, answers=SILENT)


def test_nothing_is_written_behind_a_fatal_error() -> None:
    async def script(stage: Stage) -> None:
        bad = stage.publish(b"bad")
        connection = await stage.sent(b"bad")
        connection.send_error("E_BAD_MESSAGE too big")
        await failure(bad)

        later = stage.publish(b"later")
        connection.close()
        await stage.wait_connected(0)
        stage.timers.advance(1)
        (await stage.sent(b"later", number=1)).send_response(b"OK")
        await later
        assert received(stage.nsqd) == [b"bad", b"later"]

    play(script, answers=SILENT)


def test_a_connection_that_survives_an_error_goes_on() -> None:
    """Our nsqd answers E_PUB_FAILED while its disk is full and keeps the connection."""

    async def script(stage: Stage) -> None:
        failed, good = stage.publish(b"1"), stage.publish(b"2")
        connection = await stage.sent(b"1", b"2")

        connection.send_raw(error("E_PUB_FAILED disk full") + OK_FRAME)

        assert isinstance(await failure(failed), PublishRejectedError)
        await good
        assert stage.connected == 1

    play(script, answers=SILENT)


def test_behind_an_error_that_nsqd_may_survive_nothing_is_certain() -> None:
    async def script(stage: Stage) -> None:
        failed, behind = stage.publish(b"1"), stage.publish(b"2")
        connection = await stage.sent(b"1", b"2")

        connection.send_error("E_PUB_FAILED exiting")
        connection.close()

        assert isinstance(await failure(failed), PublishRejectedError)
        assert isinstance(await failure(behind), PublishUnknownError)

    play(script, answers=SILENT)


def test_a_connection_lost_without_an_answer_leaves_it_unknown() -> None:
    async def script(stage: Stage) -> None:
        publishes = [stage.publish(b"1"), stage.publish(b"2"), stage.publish(b"3")]
        connection = await stage.sent(b"1", b"2", b"3")

        connection.send_response(b"OK")
        await wait_until(publishes[0].done)
        connection.abort()

        for publish in publishes[1:]:
            unknown = await failure(publish)
            assert isinstance(unknown, PublishUnknownError)
            assert (unknown.address, unknown.retriable) == (stage.nsqd.address, False)
        assert stage.producer.stats().pending == 0

    play(script, answers=SILENT)


def test_what_was_not_written_when_the_connection_went_is_sent_later() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection()).close()
        await stage.wait_connected(0)

        publish = stage.publish()
        await asyncio.sleep(0)
        assert stage.producer.stats().waiting == 1
        stage.timers.advance(1)
        await publish

        assert received(stage.nsqd) == [b"body"]

    play(script)


def test_an_answer_too_many_closes_the_connection() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        connection = await stage.sent(b"body")

        connection.send_raw(OK_FRAME * 2)

        await publish
        await connection.wait_ended()

    play(script, answers=SILENT)


def test_an_answer_that_is_none_leaves_all_unknown() -> None:
    async def script(stage: Stage) -> None:
        first, second, third = (stage.publish(body) for body in (b"1", b"2", b"3"))
        connection = await stage.sent(b"1", b"2", b"3")

        connection.send_raw(OK_FRAME)
        connection.send_response(b"CLOSE_WAIT")

        await first
        for publish in (second, third):
            assert "CLOSE_WAIT" in (await failure(publish)).reason
        await connection.wait_ended()

    play(script, answers=SILENT)


def test_messages_for_a_producer_close_the_connection() -> None:
    async def script(stage: Stage) -> None:
        connection = await stage.connection()

        connection.send_message(b"not for you")

        await connection.wait_ended()
        await stage.wait_connected(0)
        assert "delivers messages" in stage.producer.stats().nodes[0].last_error

    play(script)


def test_outcomes_are_counted() -> None:
    async def script(stage: Stage) -> None:
        good, bad, behind = (stage.publish(body) for body in (b"1", b"2", b"3"))
        connection = await stage.sent(b"1", b"2", b"3")
        connection.send_raw(OK_FRAME + error("E_BAD_MESSAGE no"))
        connection.close()
        await asyncio.gather(good, bad, behind, return_exceptions=True)
        unknown = stage.publish(b"4")
        await stage.wait_connected(0)
        stage.timers.advance(1)
        (await stage.sent(b"4", number=1)).abort()
        await asyncio.gather(unknown, return_exceptions=True)

        stats = stage.producer.stats()
        assert (stats.commands, stats.messages) == (1, 1)
        assert (stats.rejected, stats.not_sent, stats.unknown, stats.failed) == (1, 1, 1, 3)
        assert await stage.producer.flush() == 3
        assert await stage.producer.flush() == 0

    play(script, answers=SILENT)


def test_futures_that_nobody_looks_at_leave_no_complaint() -> None:
    async def script(stage: Stage) -> None:
        for _ in range(3):
            stage.producer.publish_nowait("orders", b"body")
        (await stage.sent(b"body", b"body", b"body")).abort()

        assert await stage.producer.flush() == 3

    play(script, answers=SILENT)
