"""What `/stats` says of a connection."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from threading import Thread

import pytest
from msgspec import UNSET

from nsqlake.nsqd.stats.values import ClientStats, PubCount
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.tcp_client import TcpClient
from tests.fakes.tls_client import client_context
from tests.integration.support import eventually
from tests.nsqd.stats.conftest import Connect
from tests.nsqd.stats.support import channel_of, taken


def producer_on(nsqd: NsqdFixture, client: TcpClient, topic: str = "") -> ClientStats:
    host, port = client.socket.getsockname()
    (found,) = [
        producer
        for producer in taken(nsqd, topic=topic).producers or []
        if producer.remote_address == f"{host}:{port}"
    ]
    return found


def test_a_consumer_shows_what_it_may_get_and_what_it_did(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(nsqd)
    client.identify(
        client_id="id", hostname="host", user_agent="agent/1", topology_zone="z", topology_region="r"
    )
    client.sub(topic, "c", 5)
    connect(nsqd).pub(topic, b"1", b"2", b"3")
    first, second, _third = client.messages(3)
    client.fin(first)
    client.req(second, 60_000)
    eventually(lambda: channel_of(nsqd, topic, "c").deferred_count == 1)

    (found,) = channel_of(nsqd, topic, "c").clients or []

    assert (found.client_id, found.hostname, found.user_agent) == ("id", "host", "agent/1")
    assert (found.topology_zone, found.topology_region, found.version) == ("z", "r", "V2")
    assert (found.state, found.ready_count, found.in_flight_count) == (3, 5, 1)
    assert (found.message_count, found.finish_count, found.requeue_count) == (3, 1, 1)
    assert (found.authed, found.pub_counts, found.tls, found.tls_version) == (False, UNSET, False, "")


def test_a_client_that_never_identified_is_known_by_its_address(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(nsqd)
    client.pub(topic, b"x")

    found = producer_on(nsqd, client)

    assert (found.client_id, found.hostname, found.user_agent) == ("127.0.0.1", "127.0.0.1", "")
    assert (found.state, found.ready_count, found.message_count) == (0, 0, 0)


def test_who_publishes_and_consumes_is_in_both_places(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    client = connect(nsqd)
    client.sub(topic, "c")
    client.pub(topic, b"x")

    (consumer,) = channel_of(nsqd, topic, "c").clients or []

    assert consumer.pub_counts == [PubCount(topic, 1)]
    assert producer_on(nsqd, client, topic) == consumer


def test_only_one_topic_of_a_producer_is_shown(nsqd: NsqdFixture, connect: Connect) -> None:
    client = connect(nsqd)
    for topic in ("t1", "t2", "t3"):
        client.pub(topic, b"x")
    connect(nsqd).pub("t4", b"x")

    assert len(producer_on(nsqd, client).pub_counts or []) == 1  # type: ignore[arg-type]
    assert producer_on(nsqd, client, "t3").pub_counts == [PubCount("t3", 1)]
    assert producer_on(nsqd, client, "t4").pub_counts is UNSET


@pytest.mark.parametrize("feature", ["snappy", "deflate"])
def test_compression_and_sampling_are_shown(
    nsqd: NsqdFixture, connect: Connect, topic: str, feature: str
) -> None:
    client = connect(nsqd)
    client.identify(sample_rate=7, **{feature: True})
    client.pub(topic, b"x")

    found = producer_on(nsqd, client)

    assert (found.snappy, found.deflate, found.sample_rate) == (feature == "snappy", feature == "deflate", 7)


def test_a_client_on_a_unix_socket_has_no_address(
    tmp_path_factory: pytest.TempPathFactory, connect: Connect
) -> None:
    path = str(tmp_path_factory.mktemp("s") / "nsqd.sock")
    with running_nsqd(tcp_address=path) as nsqd:
        connect(nsqd).pub("t", b"x")

        (found,) = taken(nsqd).producers or []

    assert found.remote_address == "@"


# TLS --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def tls_nsqd(authority: CertificateAuthority) -> Iterator[NsqdFixture]:
    pair = authority.issue_server()
    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file) as nsqd:
        yield nsqd


@pytest.mark.parametrize(
    ("version", "ciphers", "shown"),
    [
        (ssl.TLSVersion.TLSv1_3, "", "Unknown "),
        (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256", "TLS_ECDHE_"),
        (ssl.TLSVersion.TLSv1_2, "AES256-GCM-SHA384", "Unknown 49"),
    ],
)
def test_a_client_with_tls_says_which(
    tls_nsqd: NsqdFixture,
    connect: Connect,
    authority: CertificateAuthority,
    version: ssl.TLSVersion,
    ciphers: str,
    shown: str,
) -> None:
    context = client_context(authority.ca_file, version=version)
    if ciphers:
        context.set_ciphers(f"ECDHE-RSA-{ciphers}:ECDHE-ECDSA-{ciphers}")
    client = connect(tls_nsqd)
    client.identify(context, tls_v1=True)
    client.pub("t", b"x")

    found = producer_on(tls_nsqd, client)

    assert found.tls is True
    assert found.tls_version == version.name.replace("TLSv", "TLS").replace("_", ".")
    assert found.tls_cipher_suite.startswith(shown)
    assert (found.tls_negotiated_protocol, found.tls_negotiated_protocol_is_mutual) == ("", True)


def test_the_suites_of_tls_13_are_numbers(
    tls_nsqd: NsqdFixture, connect: Connect, authority: CertificateAuthority
) -> None:
    client = connect(tls_nsqd)
    client.identify(client_context(authority.ca_file), tls_v1=True)
    client.pub("t", b"x")

    assert producer_on(tls_nsqd, client).tls_cipher_suite in ("Unknown 4865", "Unknown 4866", "Unknown 4867")


# AUTH -------------------------------------------------------------------------------------------------


@pytest.fixture
def auth_server() -> Iterator[FakeAuthServer]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    server = FakeAuthServer()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    with contextlib.closing(loop):
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_a_client_that_authenticated_says_who_it_is(auth_server: FakeAuthServer, connect: Connect) -> None:
    auth_server.reply = {**auth_server.reply, "identity": "me", "identity_url": "http://me"}  # type: ignore[dict-item]
    with running_nsqd(auth_http_addresses=(auth_server.address,)) as nsqd:
        client = connect(nsqd)
        client.send(commands.auth(b"secret"))
        client.response()
        client.pub("t", b"x")

        found = producer_on(nsqd, client)

    assert (found.authed, found.auth_identity, found.auth_identity_url) == (True, "me", "http://me")
