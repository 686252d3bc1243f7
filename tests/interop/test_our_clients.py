"""Our client library with NSQ's own nsqd and nsqlookupd."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from nsqlake.client import (
    BlockingConsumer,
    BlockingProducer,
    ClientConfig,
    Consumer,
    HandshakeRefusedError,
    Message,
    Producer,
    PublishRejectedError,
    Requeue,
)
from tests.fakes.certificates import CertificateAuthority
from tests.interop.go_daemons import GoLookupd, GoNsqd, Start

pytestmark = pytest.mark.interop

LIMIT_S = 20.0
TOPIC, CHANNEL = "orders", "archive"
MODES = ("plain", "tls", "snappy", "deflate", "tls-snappy", "tls-deflate")
LARGE = (b"nsq " * 200_000, os.urandom(500_000))


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path / "certificates"))


@pytest.fixture
def nsqd(start: Start, tmp_path: Path, authority: CertificateAuthority) -> GoNsqd:
    server = authority.issue_server()
    flags = (f"--tls-cert={server.cert_file}", f"--tls-key={server.key_file}", "--max-msg-size=1000000")
    nsqd = GoNsqd(start, tmp_path / "nsqd", *flags)
    nsqd.create(TOPIC, CHANNEL)
    return nsqd


def config_of(mode: str, authority: CertificateAuthority) -> ClientConfig:
    return ClientConfig(
        tls_v1="tls" in mode,
        tls_root_ca_file=authority.ca_file,
        snappy="snappy" in mode,
        deflate="deflate" in mode,
        heartbeat_interval=1,
        max_in_flight=50,
    )


class Received:
    """A handler that keeps what it gets, and waits for it."""

    def __init__(self, count: int) -> None:
        self.messages: list[Message] = []
        self._count, self._is_complete = count, asyncio.Event()

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        if len(self.messages) == self._count:
            self._is_complete.set()

    async def wait(self) -> list[bytes]:
        async with asyncio.timeout(LIMIT_S):
            await self._is_complete.wait()
        return sorted(message.body for message in self.messages)


def consumer(channel: str, handler: Callable[[Message], Any] | None, **options: Any) -> Consumer:
    return Consumer(TOPIC, channel, handler, **options)


def play(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


@pytest.mark.parametrize("mode", MODES)
def test_what_is_published_is_consumed(mode: str, nsqd: GoNsqd, authority: CertificateAuthority) -> None:
    config = config_of(mode, authority)

    async def script() -> None:
        bodies = [b"%d" % number for number in range(1000)]
        received = Received(len(bodies) + len(LARGE) + 2)
        async with (
            Producer(nsqd.tcp_address, config=config) as producer,
            consumer(CHANNEL, received, nsqd_tcp_addresses=nsqd.tcp_address, config=config),
        ):
            await asyncio.gather(*(producer.publish(TOPIC, body) for body in bodies))
            await producer.multi_publish(TOPIC, [b"first", b"second"])
            for body in LARGE:
                await producer.publish(TOPIC, body)
            assert await received.wait() == sorted([*bodies, b"first", b"second", *LARGE])
            await asyncio.sleep(1.5)  # a heartbeat goes both ways
            (client,) = nsqd.channel(TOPIC, CHANNEL)["clients"]
            assert [client[name] for name in ("tls", "snappy", "deflate")] == [
                config.tls_v1,
                config.snappy,
                config.deflate,
            ]
            assert client["finish_count"] == len(bodies) + len(LARGE) + 2

    play(script)


def test_deferred_and_requeued_messages_come_when_they_are_due(nsqd: GoNsqd) -> None:
    async def script() -> None:
        times_s: dict[bytes, list[float]] = {}
        now_s = asyncio.get_running_loop().time
        done = Received(2)

        async def handle(message: Message) -> None:
            times_s.setdefault(message.body, []).append(now_s())
            if message.body == b"again" and message.attempts == 1:
                raise Requeue(0.5, backoff=False)
            await done(message)

        async with (
            Producer(nsqd.tcp_address) as producer,
            consumer(CHANNEL, handle, nsqd_tcp_addresses=nsqd.tcp_address),
        ):
            begin_s = now_s()
            await producer.deferred_publish(TOPIC, 0.7, b"late")
            await producer.publish(TOPIC, b"again")
            assert await done.wait() == [b"again", b"late"]

        assert times_s[b"late"][0] - begin_s >= 0.7
        first_s, second_s = times_s[b"again"]
        assert second_s - first_s >= 0.5
        assert nsqd.channel(TOPIC, CHANNEL)["requeue_count"] == 1

    play(script)


def test_touching_keeps_a_message_from_being_delivered_again(nsqd: GoNsqd) -> None:
    nsqd.create(TOPIC, "kept")
    nsqd.create(TOPIC, "late")

    async def script() -> None:
        attempts: dict[str, list[int]] = {"kept": [], "late": []}
        came_again = asyncio.Event()

        async def handle(message: Message) -> None:
            attempts[message.channel].append(message.attempts)
            if message.attempts == 2:
                came_again.set()
            async with asyncio.timeout(LIMIT_S):
                await came_again.wait()
            await asyncio.sleep(1)

        options: dict[str, Any] = {
            "nsqd_tcp_addresses": nsqd.tcp_address,
            "msg_timeout": 1,
            "max_in_flight": 2,
        }
        async with (
            Producer(nsqd.tcp_address) as producer,
            consumer("kept", handle, auto_touch=True, **options),
            consumer("late", handle, **options),
        ):
            await producer.publish(TOPIC, b"long work")
            async with asyncio.timeout(LIMIT_S):
                await came_again.wait()

        assert attempts == {"kept": [1], "late": [1, 2]}
        assert nsqd.channel(TOPIC, "kept")["timeout_count"] == 0

    play(script)


def test_stopping_gives_back_what_was_not_begun(nsqd: GoNsqd) -> None:
    async def script() -> None:
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        async def handle(message: Message) -> None:
            has_begun.set()
            await may_end.wait()

        async with Producer(nsqd.tcp_address) as producer:
            await producer.multi_publish(TOPIC, [b"%d" % number for number in range(10)])
        options = {"max_in_flight": 10, "concurrency": 1}
        stopped = consumer(CHANNEL, handle, nsqd_tcp_addresses=nsqd.tcp_address, **options)
        await stopped.start()
        await has_begun.wait()
        stopping = asyncio.create_task(stopped.stop())
        await asyncio.sleep(0.2)
        may_end.set()
        await stopping

        # Go's nsqd forgets a client a moment after it has closed.
        async with asyncio.timeout(10):
            while nsqd.channel(TOPIC, CHANNEL)["client_count"]:
                await asyncio.sleep(0.05)
        counts = nsqd.channel(TOPIC, CHANNEL)
        assert (counts["depth"], counts["in_flight_count"]) == (9, 0)

    play(script)


def test_a_refused_publish_is_told_and_the_producer_goes_on(nsqd: GoNsqd) -> None:
    async def script() -> None:
        async with Producer(nsqd.tcp_address) as producer:
            with pytest.raises(PublishRejectedError) as caught:
                await producer.publish(TOPIC, bytes(1_000_001))
            assert caught.value.code == "E_BAD_MESSAGE"
            await producer.publish(TOPIC, b"small")

        assert nsqd.channel(TOPIC, CHANNEL)["depth"] == 1

    play(script)


def test_a_certificate_of_somebody_else_is_refused(nsqd: GoNsqd, tmp_path: Path) -> None:
    other = CertificateAuthority(str(tmp_path / "other"))

    async def script() -> None:
        producer = Producer(nsqd.tcp_address, tls_v1=True, tls_root_ca_file=other.ca_file)
        with pytest.raises(HandshakeRefusedError) as caught:
            await producer.start(wait=True)
        await producer.close()
        assert caught.value.permanent

    play(script)


def test_consumers_find_nsqd_through_nsqlookupd(start: Start, tmp_path: Path) -> None:
    lookupd = GoLookupd(start)
    nsqd = GoNsqd(start, tmp_path / "found", f"--lookupd-tcp-address={lookupd.tcp_address}")

    async def script() -> None:
        received = Received(2)
        options: dict[str, Any] = {
            "lookupd_poll_interval": 0.5,
            "lookupd_http_addresses": lookupd.http_address,
        }
        async with Producer(nsqd.tcp_address) as producer, consumer(CHANNEL, received, **options):
            await producer.publish(TOPIC, b"one")  # the topic did not exist until now
            await producer.publish(TOPIC, b"two")
            assert await received.wait() == [b"one", b"two"]

    play(script)


def test_blocking_clients_publish_and_consume(nsqd: GoNsqd) -> None:
    with BlockingProducer(nsqd.tcp_address, snappy=True) as producer:
        producer.publish(TOPIC, b"one")
        producer.multi_publish(TOPIC, [b"two", b"three"])
        for number in range(100):
            producer.publish_nowait(TOPIC, b"%d" % number)
        assert producer.flush() == 0

    bodies: list[bytes] = []
    options: dict[str, Any] = {"nsqd_tcp_addresses": nsqd.tcp_address, "max_in_flight": 20, "deflate": True}
    with BlockingConsumer(TOPIC, CHANNEL, **options) as pulled:
        while len(bodies) < 103:
            message = pulled.get(timeout=LIMIT_S)
            bodies.append(message.body)
            message.finish()

    assert sorted(bodies) == sorted([b"one", b"two", b"three", *(b"%d" % number for number in range(100))])
    nsqd.wait_empty(TOPIC, CHANNEL)
