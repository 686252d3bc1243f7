"""A producer and our own nsqd, over every layer it offers."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from nsqlake.client.errors import PublishNotSentError, PublishRejectedError
from nsqlake.client.producer import Producer
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.client.support import LOOPS, run_on
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.certificates import CertificateAuthority

LAYERS: list[dict[str, Any]] = [
    {},
    {"snappy": True},
    {"deflate": True},
    {"tls_v1": True},
    {"tls_v1": True, "snappy": True},
    {"tls_v1": True, "deflate": True},
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def nsqd(authority: CertificateAuthority) -> Iterator[NsqdFixture]:
    pair = authority.issue_server()
    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file) as nsqd:
        yield nsqd


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("layers", LAYERS, ids=lambda layers: "+".join(layers) or "plain")
def test_everything_published_is_stored_once_and_in_order(
    nsqd: NsqdFixture, authority: CertificateAuthority, layers: dict[str, Any], loop: str
) -> None:
    topic = "-".join((loop, *layers))
    large = bytes(range(256)) * 2000

    async def script() -> None:
        options = {**layers, "tls_root_ca_file": authority.ca_file}
        async with Producer(nsqd.tcp_address, **options) as producer:
            await producer.publish(topic, b"first")
            await asyncio.gather(*(producer.publish(topic, b"%d" % number) for number in range(300)))
            await producer.multi_publish(topic, [b"many", large])
            for number in range(300):
                producer.publish_nowait(topic, b"later %d" % number)
            assert await producer.flush() == 0

    run_on(loop, script())

    expected = [b"first", *(b"%d" % number for number in range(300)), b"many", large]
    assert nsqd.bodies(topic) == expected + [b"later %d" % number for number in range(300)]


def test_a_deferred_publish_is_stored_with_its_delay(nsqd: NsqdFixture) -> None:
    async def script() -> None:
        async with Producer(nsqd.tcp_address) as producer:
            await producer.deferred_publish("deferred", "90s", b"body")

    nsqd.create_channel("deferred", "archive")
    run_on("uvloop", script())

    counts = nsqd.channel("deferred", "archive")
    assert counts is not None
    assert (counts.deferred, counts.depth) == (1, 0)


def test_what_nsqd_does_not_take_is_rejected_and_the_producer_goes_on() -> None:
    async def script(address: str) -> None:
        async with Producer(address) as producer:
            too_big = producer.publish_nowait("orders", b"x" * 2000)
            behind = producer.publish_nowait("orders", b"behind")
            results = await asyncio.gather(too_big, behind, return_exceptions=True)
            assert isinstance(results[0], PublishRejectedError)
            assert results[0].code == "E_BAD_MESSAGE"
            assert isinstance(results[1], PublishNotSentError)
            with pytest.raises(PublishRejectedError, match="E_INVALID DPUB timeout"):
                await producer.deferred_publish("orders", 7200, b"too late")
            await producer.publish("orders", b"good")

    with running_nsqd(max_msg_size=1000) as nsqd:
        run_on("uvloop", script(nsqd.tcp_address))

        assert nsqd.bodies("orders") == [b"good"]


def test_a_publish_behind_a_rejected_one_can_be_tried_again() -> None:
    async def script(address: str) -> None:
        async with Producer(address, retries=1) as producer:
            too_big = producer.publish_nowait("orders", b"x" * 2000)
            behind = producer.publish_nowait("orders", b"behind")
            await asyncio.gather(too_big, return_exceptions=True)
            await behind

    with running_nsqd(max_msg_size=1000) as nsqd:
        run_on("asyncio", script(nsqd.tcp_address))

        assert nsqd.bodies("orders") == [b"behind"]


def test_permission_to_publish_is_asked_for() -> None:
    async def script() -> None:
        async with FakeAuthServer() as server:
            server.reply = {
                "ttl": 60,
                "identity": "me",
                "authorizations": [{"topic": "mine", "channels": [".*"], "permissions": ["publish"]}],
            }
            with running_nsqd(auth_http_addresses=(server.address,)) as nsqd:
                async with Producer(nsqd.tcp_address, auth_secret="hush") as producer:
                    await producer.publish("mine", b"body")
                    with pytest.raises(PublishRejectedError, match="E_UNAUTHORIZED"):
                        await producer.publish("yours", b"body")
                    await producer.publish("mine", b"again")
                async with Producer(nsqd.tcp_address) as producer:
                    with pytest.raises(PublishNotSentError) as caught:
                        await producer.publish("mine", b"body")
                    assert "hush" not in str(caught.value)

    run_on("uvloop", script())


def test_a_producer_outlives_a_restart_of_nsqd(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("data"))

    async def script() -> None:
        with running_nsqd(data_path=folder) as nsqd:
            address = nsqd.tcp_address
            producer = Producer(address, reconnect_min_delay=0.01)
            await producer.publish("orders", b"before")
        publish = asyncio.create_task(producer.publish("orders", b"after"))
        with running_nsqd(data_path=folder, tcp_address=address) as nsqd:
            await publish
            await producer.close()
            assert nsqd.bodies("orders") == [b"before", b"after"]

    run_on("uvloop", script())
