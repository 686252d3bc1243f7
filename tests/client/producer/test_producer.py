"""What goes over the wire when somebody publishes, and how the answers find their publish."""

import asyncio
from typing import Any

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import ClientClosedError, ConnectError, InvalidArgumentError
from nsqlake.client.producer import Producer
from tests.client.producer.stage import SILENT, Stage, play, settle
from tests.client.support import run_on
from tests.fakes.loop_turns import wait_until
from tests.fakes.scripted_nsqd import ScriptedNsqd, response


def test_each_way_to_publish_is_one_command_and_one_answer() -> None:
    async def script(stage: Stage) -> None:
        await stage.producer.publish("orders", b"one")
        await stage.producer.multi_publish("orders", [b"two", b"three"])
        await stage.producer.deferred_publish("orders", 1.5, b"four")

        await stage.nsqd.wait_commands("IDENTIFY", "PUB", "MPUB", "DPUB")
        assert stage.nsqd.commands[1].params == ("orders",)
        assert stage.nsqd.commands[3].params == ("orders", "1500")

    play(script)


def test_publishing_right_after_construction_waits_for_the_connection() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd:
            producer = Producer(nsqd.address)
            await producer.publish("orders", b"body")
            await nsqd.wait_commands("IDENTIFY", "PUB")
            await producer.close()

    run_on("uvloop", script())


def test_publishes_that_find_no_connection_share_one_attempt() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd, Producer(nsqd.address) as producer:
            await asyncio.gather(*(producer.publish("orders", b"%d" % number) for number in range(50)))

            assert len(nsqd.connections) == 1
            assert [command.body for command in nsqd.commands[1:]] == [b"%d" % number for number in range(50)]

    run_on("asyncio", script())


def test_answers_settle_publishes_in_their_order() -> None:
    async def script(stage: Stage) -> None:
        first, second, third = (stage.publish(body) for body in (b"1", b"2", b"3"))
        connection = await stage.sent(b"1", b"2", b"3")

        connection.send_response(b"OK")
        await wait_until(first.done)
        assert not second.done()
        connection.send_raw(response(b"OK") * 2)
        await asyncio.gather(first, second, third)

    play(script, answers=SILENT)


def test_a_heartbeat_is_answered_and_is_no_answer() -> None:
    async def script(stage: Stage) -> None:
        publish = stage.publish()
        connection = await stage.sent(b"body")

        connection.send_heartbeat()
        await connection.wait_command("NOP")
        await settle()
        assert not publish.done()
        connection.send_raw(response(b"_heartbeat_") + response(b"OK"))
        await publish

    play(script, answers=SILENT)


def test_publishes_of_one_turn_go_out_together_and_without_waiting_for_answers() -> None:
    async def script(stage: Stage) -> None:
        futures = [stage.producer.publish_nowait("orders", b"%d" % number) for number in range(100)]

        connection = await stage.sent(*(b"%d" % number for number in range(100)))
        connection.send_raw(response(b"OK") * 100)

        assert await stage.producer.flush() == 0
        assert all(future.done() for future in futures)

    play(script, answers=SILENT)


def test_bad_arguments_are_refused_before_anything_is_sent() -> None:
    async def script(stage: Stage) -> None:
        producer = stage.producer
        for publish in (
            producer.publish("bad topic!", b"x"),
            producer.publish("orders", "text"),  # type: ignore[arg-type]
            producer.publish("orders", b""),
            producer.multi_publish("orders", b"bytes"),  # type: ignore[arg-type]
            producer.multi_publish("orders", []),
            producer.multi_publish("orders", [b"x", b""]),
            producer.deferred_publish("orders", -1, b"x"),
            producer.publish("orders", b"x", timeout=-1),
        ):
            with pytest.raises(InvalidArgumentError):
                await publish
        with pytest.raises(InvalidArgumentError):
            producer.publish_nowait("orders", b"")
        await producer.publish("orders", b"good")

        await stage.nsqd.wait_commands("IDENTIFY", "PUB")
        assert len(stage.nsqd.connections) == 1

    play(script)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"nsqd_tcp_addresses": []}, "nsqd_tcp_addresses"),
        ({"nsqd_tcp_addresses": "localhost:99999"}, "nsqd_tcp_addresses"),
        ({"nsqd_tcp_addresses": [None]}, "nsqd_tcp_addresses"),
        ({"strategy": "best"}, "strategy"),
        ({"retries": -1}, "retries"),
        ({"retries": True}, "retries"),
        ({"publish_timeout": 0}, "publish_timeout"),
        ({"snappy": True, "deflate": True}, "snappy"),
    ],
)
def test_a_producer_that_cannot_work_is_not_made(arguments: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Producer(**{"nsqd_tcp_addresses": "localhost", **arguments})

    assert caught.value.argument == argument


def test_options_may_come_as_a_configuration_or_by_name() -> None:
    config = ClientConfig(publish_timeout="5s", max_publish_bytes=1000)

    producer = Producer("localhost", config=config, max_publish_bytes=2000)

    assert (producer.config.publish_timeout, producer.config.max_publish_bytes) == (5.0, 2000)


def test_addresses_that_are_the_same_count_once() -> None:
    producer = Producer(["localhost", "LOCALHOST:4150", "[::1]:4150"])

    assert [node.address for node in producer.stats().nodes] == ["localhost:4150", "[::1]:4150"]


def test_starting_can_wait_for_the_connection() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd:
            producer = Producer(nsqd.address)
            await producer.start(wait=True)
            assert producer.stats().nodes[0].state == "connected"
            await producer.close()

    run_on("uvloop", script())


def test_starting_can_fail_and_the_producer_goes_on_trying() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd:
            nsqd.stop_listening()
            producer = Producer(nsqd.address, reconnect_min_delay=0.01)
            with pytest.raises(ConnectError, match=nsqd.address):
                await producer.start(wait=True)
            async with ScriptedNsqd(port=nsqd.port):
                await producer.publish("orders", b"body")
                await producer.close()

    run_on("asyncio", script())


def test_a_closed_producer_takes_nothing() -> None:
    async def script(stage: Stage) -> None:
        producer = stage.producer
        await producer.close()
        for call in (
            producer.publish("orders", b"x"),
            producer.multi_publish("orders", [b"x"]),
            producer.deferred_publish("orders", 1, b"x"),
            producer.start(),
            producer.ping(),
        ):
            with pytest.raises(ClientClosedError, match="producer is closed"):
                await call
        with pytest.raises(ClientClosedError):
            producer.publish_nowait("orders", b"x")
        await producer.close()

    play(script)


def test_closing_what_was_never_used_connects_nowhere() -> None:
    async def script() -> None:
        async with ScriptedNsqd() as nsqd:
            await Producer(nsqd.address).close()

            assert nsqd.connections == []

    run_on("uvloop", script())
