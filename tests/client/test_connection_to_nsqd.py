"""Connections to our own nsqd, over every layer it offers."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from nsqlake.client.connection import Connection
from nsqlake.client.errors import ConnectError, HandshakeRefusedError
from nsqlake.nsqd.option_choices import TLSRequired
from nsqlake.runtime.timers import LoopTimers
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from nsqlake.wire.frames import OK
from tests.client.support import LOOPS, open_connection, run_on
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.recording_listener import RecordingListener

Run = Callable[[Coroutine[Any, Any, None]], None]
LAYERS: list[dict[str, Any]] = [
    {},
    {"snappy": True},
    {"deflate": True, "deflate_level": 3},
    {"tls_v1": True},
    {"tls_v1": True, "snappy": True},
    {"tls_v1": True, "deflate": True},
]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    return lambda coroutine: run_on(request.param, coroutine)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def nsqd(authority: CertificateAuthority) -> Iterator[NsqdFixture]:
    pair = authority.issue_server()
    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file) as nsqd:
        yield nsqd


async def exchange(producer: Connection, consumer: Connection, listener: RecordingListener) -> None:
    """Publish small and large messages, receive and finish them."""
    bodies = [b"%d" % number for number in range(200)] + [bytes(range(256)) * 2000]
    producer.write(commands.mpub("orders", bodies))
    consumer.write(commands.rdy(500))
    await listener.wait("message", len(bodies))
    assert [payload[26:] for payload in listener.messages] == bodies
    consumer.write(b"".join(commands.fin(payload[10:26]) for payload in listener.messages))
    consumer.write(commands.cls())
    await listener.wait("response")
    assert (listener.responses, listener.errors) == ([b"CLOSE_WAIT"], [])


@pytest.mark.parametrize("layers", LAYERS, ids=lambda layers: "+".join(layers) or "plain")
def test_messages_go_through_every_layer(
    run: Run, nsqd: NsqdFixture, authority: CertificateAuthority, layers: dict[str, Any]
) -> None:
    options = {**layers, "tls_root_ca_file": authority.ca_file}

    async def scenario() -> None:
        published, received = RecordingListener(), RecordingListener()
        producer = await open_connection(nsqd.tcp_address, published, LoopTimers(), **options)
        consumer = await open_connection(
            nsqd.tcp_address, received, LoopTimers(), ("orders", "c#ephemeral"), **options
        )
        assert producer.server.version == "1.3.0"

        await exchange(producer, consumer, received)
        assert published.responses == [OK]
        await asyncio.gather(producer.close(), consumer.close())

        assert (published.losses, received.losses) == ([None], [None])

    run(scenario())


def test_a_certificate_is_shown_where_nsqd_wants_one(run: Run, authority: CertificateAuthority) -> None:
    pair, ours = authority.issue_server(), authority.issue_client("us")
    options = {"tls_v1": True, "tls_root_ca_file": authority.ca_file}

    async def scenario(address: str) -> None:
        connection = await open_connection(
            address, tls_cert=ours.cert_file, tls_key=ours.key_file, timers=LoopTimers(), **options
        )
        assert connection.server.tls
        await connection.close()
        with pytest.raises(HandshakeRefusedError, match="certificate required") as caught:
            await open_connection(address, timers=LoopTimers(), **options)
        assert caught.value.permanent

    with running_nsqd(
        tls_cert=pair.cert_file,
        tls_key=pair.key_file,
        tls_root_ca_file=authority.ca_file,
        tls_client_auth_policy="require-verify",
    ) as nsqd:
        run(scenario(nsqd.tcp_address))


def test_tls_that_nsqd_requires_and_we_did_not_ask_for_is_its_refusal(
    run: Run, authority: CertificateAuthority
) -> None:
    pair = authority.issue_server()

    async def scenario(address: str) -> None:
        with pytest.raises(HandshakeRefusedError, match="E_INVALID cannot SUB in current state"):
            await open_connection(address, subscription=("t", "c"), timers=LoopTimers())

    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file, tls_required=TLSRequired.TRUE) as nsqd:
        run(scenario(nsqd.tcp_address))


def test_the_auth_server_decides(run: Run) -> None:
    async def scenario() -> None:
        async with FakeAuthServer() as server:
            server.reply = {
                "ttl": 60,
                "identity": "me",
                "identity_url": "http://me",
                "authorizations": [{"topic": "mine", "channels": [".*"], "permissions": ["subscribe"]}],
            }
            with running_nsqd(auth_http_addresses=(server.address,)) as nsqd:
                await check_auth(nsqd.tcp_address)

    async def check_auth(address: str) -> None:
        connection = await open_connection(
            address, subscription=("mine", "c"), auth_secret="hush", timers=LoopTimers()
        )
        assert (connection.server.identity, connection.server.permission_count) == ("me", 1)
        await connection.close()
        with pytest.raises(HandshakeRefusedError, match="E_UNAUTHORIZED"):
            await open_connection(
                address, subscription=("theirs", "c"), auth_secret="hush", timers=LoopTimers()
            )
        with pytest.raises(HandshakeRefusedError, match="AUTH_SECRET_MISSING"):
            await open_connection(address, timers=LoopTimers())

    run(scenario())


def test_a_unix_socket_is_as_good(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "nsqd.sock")

    async def scenario() -> None:
        published, received = RecordingListener(), RecordingListener()
        producer = await open_connection(f"unix://{path}", published, LoopTimers())
        consumer = await open_connection(f"unix://{path}", received, LoopTimers(), ("orders", "c#ephemeral"))
        await exchange(producer, consumer, received)
        await asyncio.gather(producer.close(), consumer.close())

    with running_nsqd(tcp_address=path):
        run(scenario())


def test_the_refusal_of_nsqd_is_told_in_its_words(run: Run, nsqd: NsqdFixture) -> None:
    async def scenario() -> None:
        with pytest.raises(HandshakeRefusedError) as caught:
            await open_connection(nsqd.tcp_address, heartbeat_interval=0.1, timers=LoopTimers())

        assert caught.value.text == "IDENTIFY heartbeat interval (100) is invalid"
        assert (caught.value.code, caught.value.permanent) == ("E_BAD_BODY", True)

    run(scenario())


def test_an_nsqd_that_stopped_is_lost_and_cannot_be_reached(run: Run) -> None:
    async def scenario() -> None:
        listener = RecordingListener()
        with running_nsqd() as nsqd:
            address = nsqd.tcp_address
            await open_connection(address, listener, LoopTimers(), ("t", "c"))
        await listener.wait_lost()
        with pytest.raises(ConnectError, match="connection refused"):
            await open_connection(address, timers=LoopTimers())

    run(scenario())
