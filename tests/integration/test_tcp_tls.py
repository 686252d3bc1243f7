"""TLS on the same port, and snappy or deflate on top of it."""

import json
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from nsqlake.nsqd.option_choices import TLSRequired
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.tcp_client import TcpClient
from tests.fakes.tls_client import client_context
from tests.integration.conftest import Connect

IDENTIFY_TLS = commands.identify({"feature_negotiation": True, "tls_v1": True})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def context(authority: CertificateAuthority) -> ssl.SSLContext:
    return client_context(authority.ca_file)


@pytest.fixture(scope="module")
def nsqd(authority: CertificateAuthority) -> Iterator[NsqdFixture]:
    pair = authority.issue_server()
    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file, tls_required=TLSRequired.TRUE) as nsqd:
        yield nsqd


@pytest.mark.parametrize(
    "line", [b"NOP\n", b"PUB t\n", b"SUB t c\n", b"FIN 0123456789abcdef\n", b"FOO\n", b"AUTH\n"]
)
def test_everything_but_identify_needs_tls_where_it_is_required(client: TcpClient, line: bytes) -> None:
    client.send(line)

    name = line.split()[0].decode()
    client.expect_fatal(f"E_INVALID cannot {name} in current state (TLS required)")


def test_identify_without_tls_leaves_the_client_where_it_was(client: TcpClient) -> None:
    client.identify()

    client.send(commands.pub("t", b"x"))

    client.expect_fatal("E_INVALID cannot PUB in current state (TLS required)")


def test_answers_after_the_handshake_come_through_tls(
    client: TcpClient, context: ssl.SSLContext, topic: str
) -> None:
    answer = client.identify(context, tls_v1=True)

    assert answer["tls_v1"] is True
    assert isinstance(client.socket, ssl.SSLSocket)
    assert client.socket.version() == "TLSv1.3"
    client.pub(topic, b"secret")


@pytest.mark.parametrize("feature", ["snappy", "deflate"])
def test_compression_lies_within_tls(
    client: TcpClient, context: ssl.SSLContext, topic: str, feature: str
) -> None:
    answer = client.identify(context, tls_v1=True, **{feature: True})
    client.pub(topic, b"x" * 10_000)
    client.sub(topic, "channel", 1)

    assert (answer["tls_v1"], answer[feature]) == (True, True)
    assert client.message().body == b"x" * 10_000


def test_second_identify_does_not_shake_hands_again(
    client: TcpClient, context: ssl.SSLContext, topic: str
) -> None:
    client.identify(context, tls_v1=True)

    client.identify_raw(b'{"feature_negotiation":true,"tls_v1":true}')

    assert json.loads(client.response())["tls_v1"] is False
    client.pub(topic, b"x")


def test_error_within_tls_comes_whole_although_the_client_sends_on(
    client: TcpClient, context: ssl.SSLContext
) -> None:
    client.identify(context, tls_v1=True)

    client.send(b"FOO\n", b"x" * 1_000_000)

    client.expect_fatal("E_INVALID invalid command FOO")


def test_failed_handshake_is_told_in_the_clear(client: TcpClient) -> None:
    client.send(IDENTIFY_TLS)
    client.response()

    client.send(b"this is no TLS record" * 10)

    frame_and_alert = b""
    while piece := client.socket.recv(4096):
        frame_and_alert += piece
    assert b"\x00\x00\x00\x01E_IDENTIFY_FAILED IDENTIFY failed tls: " in frame_and_alert


@pytest.mark.slow
def test_handshake_that_never_comes_is_given_up_after_five_seconds(client: TcpClient) -> None:
    client.send(IDENTIFY_TLS)
    client.response()
    begin = time.monotonic()

    text = client.error()

    assert text == "E_IDENTIFY_FAILED IDENTIFY failed TLS handshake timed out"
    assert 4.9 < time.monotonic() - begin < 6.5
    client.expect_end()


def test_plain_bytes_behind_the_identify_are_not_taken_for_secure_ones(client: TcpClient) -> None:
    client.send(IDENTIFY_TLS, commands.pub("injected", b"x"))

    client.response()

    client.expect_end()


def test_client_that_hangs_up_during_the_handshake_is_forgotten(
    nsqd: NsqdFixture, connect: Connect, context: ssl.SSLContext, topic: str
) -> None:
    client = connect(nsqd)
    client.send(IDENTIFY_TLS)
    client.response()
    client.send(b"\x16\x03\x01")
    client.socket.shutdown(socket.SHUT_RDWR)
    client.close()

    other = connect(nsqd)
    other.identify(context, tls_v1=True)
    other.pub(topic, b"x")


def test_tls_1_2_is_accepted(client: TcpClient, authority: CertificateAuthority, topic: str) -> None:
    client.identify(client_context(authority.ca_file, version=ssl.TLSVersion.TLSv1_2), tls_v1=True)

    assert isinstance(client.socket, ssl.SSLSocket)
    assert client.socket.version() == "TLSv1.2"
    client.pub(topic, b"x")


def test_clients_need_a_certificate_where_the_policy_says_so(
    authority: CertificateAuthority, context: ssl.SSLContext, connect: Connect
) -> None:
    pair = authority.issue_server("policy")
    with running_nsqd(
        tls_cert=pair.cert_file,
        tls_key=pair.key_file,
        tls_client_auth_policy="require-verify",
        tls_root_ca_file=authority.ca_file,
    ) as nsqd:
        good, bad = connect(nsqd), connect(nsqd)
        good.identify(client_context(authority.ca_file, authority.issue_client("me")), tls_v1=True)
        good.pub("t", b"x")

        with pytest.raises((ssl.SSLError, AssertionError, ConnectionError)):
            bad.identify(context, tls_v1=True)


def test_reloaded_certificate_is_for_new_connections(
    authority: CertificateAuthority, context: ssl.SSLContext, connect: Connect
) -> None:
    pair = authority.issue_server("before")
    with running_nsqd(tls_cert=pair.cert_file, tls_key=pair.key_file) as nsqd:
        old = connect(nsqd)
        old.identify(context, tls_v1=True)
        authority.issue_server("before")  # the same files, another certificate
        nsqd.call(lambda daemon: daemon.reload_certificates())
        new = connect(nsqd)
        new.identify(context, tls_v1=True)

        old.pub("t", b"x")
        new.pub("t", b"x")
        assert isinstance(old.socket, ssl.SSLSocket)
        assert isinstance(new.socket, ssl.SSLSocket)
        assert old.socket.getpeercert(True) != new.socket.getpeercert(True)
