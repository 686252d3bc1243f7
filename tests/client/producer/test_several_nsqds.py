"""Sharing publishes among nsqds, going on without one, and trying again elsewhere."""

import asyncio
from typing import Any

import pytest

from nsqlake.client.errors import PublishNotSentError, PublishRejectedError, PublishUnknownError
from nsqlake.client.producer import Producer
from tests.client.producer.stage import SILENT, Stage, failure, play, published, received, settle
from tests.client.support import run_on
from tests.fakes.loop_turns import wait_until
from tests.fakes.scripted_nsqd import OK_FRAME, ScriptedNsqd, error


def counts(stage: Stage) -> list[int]:
    return [len(received(nsqd)) for nsqd in stage.nsqds]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("round-robin", [4, 4, 4]), ("first", [12, 0, 0]), ("least-pending", [4, 4, 4])],
)
def test_publishes_are_shared_as_the_strategy_says(strategy: str, expected: list[int]) -> None:
    async def script(stage: Stage) -> None:
        publishes = [stage.publish() for _ in range(12)]
        await asyncio.gather(*publishes)

        assert counts(stage) == expected

    play(script, nsqds=3, strategy=strategy)


def test_at_random_all_get_some() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.gather(*(stage.publish() for _ in range(100)))

        assert all(count > 5 for count in counts(stage))

    play(script, nsqds=3, strategy="random")


def test_an_nsqd_that_is_lost_is_passed_over_at_once() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection(0)).close()
        await stage.wait_connected(1)

        for _ in range(4):
            await stage.producer.publish("orders", b"body")

        assert counts(stage) == [0, 4]

    play(script, nsqds=2)


def test_an_nsqd_that_comes_back_is_used_again() -> None:
    async def script(stage: Stage) -> None:
        (await stage.connection(0)).close()
        await stage.wait_connected(1)

        stage.timers.advance(1)
        await stage.wait_connected(2)
        for _ in range(4):
            await stage.producer.publish("orders", b"body")

        assert counts(stage) == [2, 2]

    play(script, nsqds=2)


def test_an_nsqd_that_was_never_there_holds_up_nothing() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as gone, ScriptedNsqd() as there:
            gone.stop_listening()
            async with Producer([gone.address, there.address], strategy="first") as producer:
                await producer.publish("orders", b"body")

    run_on("uvloop", script())


def test_without_retries_a_failure_is_told_and_nothing_is_sent_twice() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        (await stage.sent(b"body")).abort()

        assert isinstance(await failure(publish), PublishUnknownError)
        await settle()
        assert counts(stage) == [1, 0]

    play(script, nsqds=2, strategy="first", answers=SILENT)


def test_a_publish_that_was_not_sent_is_tried_on_another_nsqd() -> None:
    async def script(stage: Stage) -> None:
        bad, good = stage.publish(b"bad"), stage.publish(b"good")
        connection = await stage.sent(b"bad", b"good")
        connection.send_error("E_BAD_MESSAGE no")
        connection.close()

        assert isinstance(await failure(bad), PublishRejectedError)
        (await stage.sent(b"good", nsqd=1)).send_response(b"OK")
        await good
        assert stage.producer.stats().retries == 1

    play(script, nsqds=2, strategy="first", answers=SILENT, retries=1)


def test_an_nsqd_that_cannot_store_it_is_avoided_by_the_next_attempt() -> None:
    async def script(stage: Stage) -> None:
        stage.nsqds[0].answers["PUB"] = error("E_PUB_FAILED disk full")

        await stage.producer.publish("orders", b"body")

        assert counts(stage) == [1, 1]
        assert stage.connected == 2

    play(script, nsqds=2, strategy="first", retries=2)


def test_a_single_nsqd_is_tried_again() -> None:
    async def script(stage: Stage) -> None:
        stage.nsqd.answers["PUB"] = [error("E_PUB_FAILED disk full"), OK_FRAME]

        await stage.producer.publish("orders", b"body")

        assert counts(stage) == [2]

    play(script, retries=1)


def test_retries_come_to_an_end() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()

        assert isinstance(await failure(publish), PublishRejectedError)
        assert counts(stage) == [3]

    play(script, answers={"PUB": error("E_PUB_FAILED disk full")}, retries=2)


@pytest.mark.parametrize(("retry_unknown", "expected"), [(False, [1, 0]), (True, [1, 1])])
def test_what_may_be_stored_is_sent_again_only_on_request(retry_unknown: bool, expected: list[int]) -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        (await stage.sent(b"body")).abort()
        if retry_unknown:
            (await stage.sent(b"body", nsqd=1)).send_response(b"OK")
            await publish
        else:
            assert isinstance(await failure(publish), PublishUnknownError)

        assert counts(stage) == expected

    play(script, nsqds=2, strategy="first", answers=SILENT, retries=3, retry_unknown=retry_unknown)


@pytest.mark.parametrize("then", ["late", "rejected"])
def test_what_may_be_stored_stays_unknown_however_the_next_attempt_fails(then: str) -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish(timeout=5)
        connection = await stage.sent(b"body")
        if then == "late":
            stage.nsqd.stop_listening()
            connection.abort()
            await stage.wait_connected(0)
            stage.timers.advance(6)
        else:
            connection.abort()
            await stage.wait_connected(0)
            stage.timers.advance(1)
            (await stage.sent(b"body", number=1)).send_raw(error("E_BAD_TOPIC"))

        unknown = await failure(publish)
        assert isinstance(unknown, PublishUnknownError)
        assert unknown.address == stage.nsqd.address
        assert stage.producer.stats().unknown == 1

    play(script, answers=SILENT, retries=3, retry_unknown=True)


def test_what_is_sent_again_keeps_its_order() -> None:
    async def script(stage: Stage) -> None:
        publishes = [stage.publish(b"%d" % number) for number in range(4)]
        (await stage.sent(b"0", b"1", b"2", b"3")).abort()

        connection = await stage.connection(1)
        await connection.wait_command("PUB", 4)
        assert published(connection) == [b"0", b"1", b"2", b"3"]
        connection.send_raw(OK_FRAME * 4)
        await asyncio.gather(*publishes)

    play(script, nsqds=2, strategy="first", answers=SILENT, retries=1, retry_unknown=True)


def test_what_is_sent_again_goes_before_what_was_never_sent() -> None:
    async def script(stage: Stage) -> None:
        publishes = [stage.publish(b"%d" % number) for number in range(4)]
        (await stage.sent(b"0", b"1")).abort()

        connection = await stage.sent(b"0", b"1", nsqd=1)
        connection.send_raw(OK_FRAME * 2)
        await stage.sent(b"0", b"1", b"2", b"3", nsqd=1)
        connection.send_raw(OK_FRAME * 2)
        await asyncio.gather(*publishes)

    options = {"max_publish_in_flight": 2, "retries": 1, "retry_unknown": True}
    play(script, nsqds=2, strategy="first", answers=SILENT, **options)


def test_a_publish_whose_caller_gave_up_is_not_sent_again() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        connection = await stage.sent(b"body")
        publish.cancel()
        await settle()

        connection.abort()
        await stage.wait_connected(1)
        await settle()

        assert counts(stage) == [1, 0]
        assert stage.producer.stats().retries == 0

    play(script, nsqds=2, strategy="first", answers=SILENT, retries=1, retry_unknown=True)


def test_a_failing_nsqd_is_tried_less_and_less_often() -> None:
    async def script(stage: Stage) -> None:
        stage.nsqd.stop_listening()
        (await stage.connection()).close()
        await stage.wait_connected(0)

        attempts = []
        for _ in range(200):
            stage.timers.advance(1)
            await wait_until(lambda: stage.producer.stats().nodes[0].state == "disconnected")
            attempts.append(stage.producer.stats().nodes[0].failed_connects)

        assert 6 <= attempts[-1] <= 16
        assert attempts[-1] - attempts[-100] <= 5

    play(script)


def test_a_waiting_publish_hurries_an_nsqd_that_is_tried_seldom() -> None:
    async def script(stage: Stage) -> None:
        stage.nsqd.stop_listening()
        (await stage.connection()).close()
        await stage.wait_connected(0)
        for _ in range(100):
            stage.timers.advance(1)
            await wait_until(lambda: stage.producer.stats().nodes[0].state == "disconnected")
        async with ScriptedNsqd(port=stage.nsqd.port):
            publish = stage.publish()
            await settle()

            stage.timers.advance(1)

            await publish

    play(script)


REFUSALS: list[dict[str, Any]] = [
    {"answers": {"IDENTIFY": error("E_BAD_BODY IDENTIFY heartbeat interval (100) is invalid")}},
    {"identify": {"auth_required": True}},
]


@pytest.mark.parametrize("nsqd_options", REFUSALS)
def test_a_refusal_that_waiting_does_not_cure_is_told_at_once(nsqd_options: dict[str, Any]) -> None:
    async def script() -> None:
        async with ScriptedNsqd(**nsqd_options) as nsqd, Producer(nsqd.address) as producer:
            for _ in range(3):
                with pytest.raises(PublishNotSentError) as caught:
                    await producer.publish("orders", b"body")
                assert nsqd.address in str(caught.value)
                if "answers" in nsqd_options:
                    assert "E_BAD_BODY IDENTIFY heartbeat interval (100) is invalid" in str(caught.value)
            assert len(nsqd.connections) == 1

    run_on("asyncio", script())
