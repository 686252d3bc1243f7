"""Consumers and our nsqd, end to end."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from threading import Lock
from typing import Any

import pytest
import uvloop

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.loop_turns import wait_until
from tests.fakes.tcp_client import TcpClient

LAYERS = [(), ("tls",), ("deflate",), ("snappy",), ("tls", "deflate"), ("tls", "snappy")]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def nsqd(authority: CertificateAuthority) -> Iterator[NsqdFixture]:
    pair = authority.issue_server()
    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file) as nsqd:
        yield nsqd


def publish(nsqd: NsqdFixture, topic: str, *bodies: bytes) -> None:
    with TcpClient(nsqd.tcp_address) as client:
        client.send(commands.mpub(topic, bodies))
        client.expect_ok()


def layer_options(layers: tuple[str, ...], authority: CertificateAuthority) -> dict[str, Any]:
    options: dict[str, Any] = {name: True for name in layers if name != "tls"}
    if "tls" in layers:
        options |= {"tls_v1": True, "tls_root_ca_file": authority.ca_file}
    return options


@pytest.mark.parametrize("layers", LAYERS, ids=["+".join(layers) or "plain" for layers in LAYERS])
def test_good_messages_are_finished_and_a_poisonous_one_is_given_up(
    nsqd: NsqdFixture,
    authority: CertificateAuthority,
    topic: str,
    layers: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs: Counter[bytes] = Counter()
    given_up: list[Message] = []

    async def handler(message: Message) -> None:
        runs[message.body] += 1
        if message.body == b"poison":
            raise ValueError("poison")

    async def scenario() -> Consumer:
        consumer = Consumer(
            topic,
            "archive",
            handler,
            nsqd_tcp_addresses=nsqd.tcp_address,
            max_in_flight=10,
            max_attempts=5,
            default_requeue_delay=0,
            max_backoff_duration=0,
            on_give_up=given_up.append,
            **layer_options(layers, authority),
        )
        async with consumer:
            await wait_until(lambda: consumer.stats().finished == 4)
        return consumer

    publish(nsqd, topic, b"good 1", b"good 2", b"good 3", b"poison")
    stats = asyncio.run(scenario()).stats()

    assert runs == {b"good 1": 1, b"good 2": 1, b"good 3": 1, b"poison": 5}
    assert (stats.handled, stats.given_up, stats.received, stats.connections) == (8, 1, 9, 0)
    assert [message.attempts for message in given_up] == [6]
    caplog.clear()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["async", "plain", "batch", "pull"])
def test_everything_arrives_once_however_it_is_handled(
    nsqd: NsqdFixture, topic: str, kind: str, loop: str
) -> None:
    bodies = [b"%d" % number for number in range(3000)]
    seen: list[bytes] = []
    lock = Lock()

    def plain(message: Message) -> None:
        with lock:
            seen.append(message.body)

    async def one(message: Message) -> None:
        seen.append(message.body)

    async def many(messages: list[Message]) -> None:
        seen.extend(message.body for message in messages)

    async def scenario() -> None:
        handler: Any = {"async": one, "plain": plain, "batch": many, "pull": None}[kind]
        batch_size = 64 if kind == "batch" else None
        consumer = Consumer(
            topic,
            "archive",
            handler,
            nsqd_tcp_addresses=nsqd.tcp_address,
            max_in_flight=500,
            batch_size=batch_size,
            batch_timeout=0.05,
        )
        async with consumer:
            if kind == "pull":
                async for message in consumer:
                    async with message:
                        seen.append(message.body)
                    if len(seen) == len(bodies):
                        break
            await wait_until(lambda: consumer.stats().finished == len(bodies))

    publish(nsqd, topic, *bodies)
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())

    assert Counter(seen) == Counter(bodies)


def test_consumers_that_stop_hand_their_messages_to_others_at_once(nsqd: NsqdFixture, topic: str) -> None:
    seen: list[tuple[bytes, int]] = []

    async def stuck(message: Message) -> None:
        await asyncio.Event().wait()

    async def other(message: Message) -> None:
        seen.append((message.body, message.attempts))

    def consumer(handler: Any, **options: Any) -> Consumer:
        return Consumer(
            topic, "archive", handler, nsqd_tcp_addresses=nsqd.tcp_address, max_in_flight=10, **options
        )

    async def scenario() -> None:
        first = consumer(stuck, concurrency=1, stop_timeout=0)
        await first.start()
        await wait_until(lambda: first.stats().received == 5)
        await first.stop()
        async with consumer(other) as second:
            await wait_until(lambda: second.stats().finished == 5)

    publish(nsqd, topic, *[b"%d" % number for number in range(5)])
    asyncio.run(scenario())

    assert sorted(seen) == [(b"%d" % number, 2) for number in range(5)]


def test_consumer_comes_back_when_nsqd_does(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    seen: list[bytes] = []

    async def handler(message: Message) -> None:
        seen.append(message.body)

    def serve(address: str) -> Any:
        return running_nsqd(data_path=str(tmp_path), tcp_address=address)

    async def scenario() -> None:
        with serve("127.0.0.1:0") as nsqd:
            address = nsqd.tcp_address
            publish(nsqd, "orders", b"before")
            consumer = Consumer(
                "orders", "archive", handler, nsqd_tcp_addresses=address, reconnect_min_delay=0.01
            )
            await consumer.start()
            await wait_until(lambda: seen == [b"before"])
            await wait_until(lambda: consumer.stats().in_flight == 0)
        await wait_until(lambda: consumer.stats().connections == 0)
        with serve(address) as nsqd:
            publish(nsqd, "orders", b"after")
            await wait_until(lambda: b"after" in seen)
            await consumer.stop()

    asyncio.run(scenario())
    assert seen[-1] == b"after"
