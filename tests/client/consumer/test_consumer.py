"""The consumer's own face: what it refuses, what it says about itself."""

from typing import Any

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.errors import ClientClosedError, InvalidArgumentError
from tests.client.consumer.stage import by_body, run, settle, staged
from tests.fakes.loop_turns import wait_until

GOOD: dict[str, Any] = {"topic": "orders", "channel": "archive", "nsqd_tcp_addresses": "127.0.0.1"}


@pytest.mark.parametrize(
    ("argument", "changes"),
    [
        ("topic", {"topic": "bad topic!"}),
        ("topic", {"topic": ""}),
        ("topic", {"topic": b"orders"}),
        ("channel", {"channel": "x" * 65}),
        ("channel", {"channel": "archive\n"}),
        ("nsqd_tcp_addresses", {"nsqd_tcp_addresses": ()}),
        ("nsqd_tcp_addresses", {"nsqd_tcp_addresses": ["127.0.0.1:x"]}),
        ("nsqd_tcp_addresses", {"nsqd_tcp_addresses": [""]}),
        ("nsqd_tcp_addresses", {"nsqd_tcp_addresses": [7]}),
        ("heartbeat_interval", {"heartbeat_interval": -1}),
        ("max_in_flight", {"max_in_flight": -1}),
        ("handler", {"handler": "text"}),
        ("handler", {"handler": None, "batch_size": 3}),
        ("handler", {"handler": None, "middleware": [by_body]}),
        ("batch_size", {"handler": by_body, "batch_size": 0}),
        ("batch_size", {"handler": by_body, "batch_size": True}),
        ("batch_timeout", {"handler": by_body, "batch_timeout": 0}),
        ("snappy", {"snappy": True, "deflate": True}),
    ],
)
def test_impossible_arguments_are_refused_by_name(argument: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        Consumer(**{**GOOD, **changes})

    assert refusal.value.argument == argument


def test_options_come_on_top_of_a_configuration() -> None:
    consumer = Consumer(**GOOD, config=ClientConfig(max_in_flight=7, max_attempts=3), max_attempts=9)

    assert (consumer.config.max_in_flight, consumer.config.max_attempts) == (7, 9)
    assert consumer.max_in_flight == 7


def test_ephemeral_names_and_several_addresses_are_fine() -> None:
    consumer = Consumer("orders#ephemeral", "c#ephemeral", nsqd_tcp_addresses=["a:1", "[::1]:4150", "A:1"])

    assert (consumer.topic, consumer.channel) == ("orders#ephemeral", "c#ephemeral")
    assert repr(consumer) == "<Consumer orders#ephemeral/c#ephemeral>"


def test_concurrency_that_cannot_be_reached_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    Consumer(**GOOD, max_in_flight=5, concurrency=10)

    assert "max_in_flight=5 keeps concurrency=10" in caplog.text


def test_consumer_that_was_not_started_has_empty_stats_and_refuses_wishes() -> None:
    consumer = Consumer(**GOOD)

    stats = consumer.stats()
    assert (stats.connections, stats.received, stats.is_stopping, stats.nodes) == (0, 0, False, ())
    assert not consumer.is_healthy()
    assert not consumer.is_starved()
    assert not consumer.is_paused
    with pytest.raises(ClientClosedError):
        consumer.pause()
    with pytest.raises(ClientClosedError):
        run(consumer.get())  # type: ignore[arg-type]


def test_stats_follow_what_happens() -> None:
    async def scenario() -> None:
        async with staged(None, max_in_flight=2) as stage:
            connection = await stage.connection()
            for _ in range(2):
                connection.send_message(b"x", attempts=1)
            message = await stage.consumer.get()
            await wait_until(lambda: stage.consumer.stats().received == 2)

            stats = stage.consumer.stats()
            assert (stats.in_flight, stats.queued, stats.running, stats.rdy) == (2, 1, 1, 2)
            assert stats.is_starved
            assert stage.consumer.is_starved()
            message.requeue(1)
            stats = stage.consumer.stats()
            assert (stats.requeued, stats.requeued_without_backoff, stats.backoff_level) == (1, 0, 1)
            assert stats.backoff_wait_s == 2.0
            (node,) = stats.nodes
            assert (node.address, node.state, node.received) == (stage.nsqd.address, "ready", 2)
            assert node.bytes_in > 0

    run(scenario())


@pytest.mark.parametrize("count", [-1, 1.5, True, "3"])
def test_impossible_max_in_flight_is_refused(count: Any) -> None:
    async def scenario() -> None:
        async with staged() as stage:
            with pytest.raises(InvalidArgumentError):
                stage.consumer.set_max_in_flight(count)
            await settle()
            assert stage.consumer.max_in_flight == 5

    run(scenario())


def test_second_start_is_refused() -> None:
    async def scenario() -> None:
        async with staged() as stage:
            with pytest.raises(ClientClosedError):
                await stage.consumer.start()

    run(scenario())
