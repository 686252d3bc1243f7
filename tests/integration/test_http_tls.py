"""HTTPS, and what plain HTTP does when TLS is required."""

import logging
import ssl
from collections.abc import Iterator

import pytest

from nsqlake.nsqd.option_choices import TLSRequired
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_connection import HttpConnection
from tests.fakes.tls_client import client_context
from tests.integration.support import has_topic


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def context(authority: CertificateAuthority) -> ssl.SSLContext:
    return client_context(authority.ca_file)


def tls_options(authority: CertificateAuthority, **options: object) -> dict[str, object]:
    pair = authority.issue_server()
    files = {"tls_cert": pair.cert_file, "tls_key": pair.key_file, "tls_root_ca_file": authority.ca_file}
    return {**files, "https_address": "127.0.0.1:0", **options}


def https(nsqd: NsqdFixture, context: ssl.SSLContext) -> HttpConnection:
    return HttpConnection(f"127.0.0.1:{nsqd.https_port}", context)


@pytest.fixture(scope="module")
def nsqd(authority: CertificateAuthority) -> Iterator[NsqdFixture]:
    with running_nsqd(**tls_options(authority, tls_required=TLSRequired.TRUE)) as nsqd:
        yield nsqd


@pytest.mark.parametrize("target", ["/ping", "/stats", "/nope", "/pub?topic=t"])
def test_plain_http_is_sent_to_https(nsqd: NsqdFixture, http: HttpConnection, target: str) -> None:
    """137."""
    answer = http.get(target)

    expected = f'{{"message": "TLS_REQUIRED", "https_port": {nsqd.https_port}}}'
    assert (answer.status, answer.body) == (403, expected.encode())
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


def test_nothing_is_published_over_plain_http(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    assert http.post(f"/pub?topic={topic}", b"x").status == 403
    assert not has_topic(nsqd, topic)


def test_https_has_the_same_api(nsqd: NsqdFixture, context: ssl.SSLContext, topic: str) -> None:
    with https(nsqd, context) as connection:
        assert connection.post(f"/pub?topic={topic}", b"x" * 100_000).body == b"OK"
        assert connection.get("/ping").body == b"OK"
        stats = connection.get_json(f"/stats?format=json&topic={topic}")

    assert stats["topics"][0]["message_bytes"] == 100_000


def test_without_https_the_port_is_0(authority: CertificateAuthority) -> None:
    options = tls_options(authority, tls_required=TLSRequired.TRUE, https_address="")
    with running_nsqd(**options) as nsqd, HttpConnection(nsqd.http_address) as http:
        assert http.get("/ping").body == b'{"message": "TLS_REQUIRED", "https_port": 0}'


@pytest.mark.parametrize("required", [TLSRequired.FALSE, TLSRequired.TCP_HTTPS])
def test_otherwise_both_are_open(
    authority: CertificateAuthority, context: ssl.SSLContext, required: TLSRequired
) -> None:
    with (
        running_nsqd(**tls_options(authority, tls_required=required)) as nsqd,
        HttpConnection(nsqd.http_address) as plain,
        https(nsqd, context) as secure,
    ):
        assert [each.get("/ping").body for each in (plain, secure)] == [b"OK", b"OK"]
        metrics = plain.get("/metrics").body

    assert b'nsqd_connections{kind="http",tls="yes"} 1\n' in metrics


def test_an_unknown_policy_requires_tls_but_no_certificate(
    authority: CertificateAuthority, context: ssl.SSLContext
) -> None:
    """138."""
    with running_nsqd(**tls_options(authority, tls_client_auth_policy="bogus")) as nsqd:
        with HttpConnection(nsqd.http_address) as plain:
            assert plain.get("/ping").status == 403
        with https(nsqd, context) as secure:
            assert secure.get("/ping").body == b"OK"


def test_require_verify_wants_a_certificate(
    authority: CertificateAuthority, context: ssl.SSLContext, auth_server: FakeAuthServer
) -> None:
    options = tls_options(authority, tls_client_auth_policy="require-verify")
    known = client_context(authority.ca_file, authority.issue_client("worker-7"))
    with running_nsqd(**options, auth_http_addresses=(auth_server.address,)) as nsqd:
        with https(nsqd, known) as connection:
            answer = connection.post("/pub?topic=t", b"x", {"Authorization": "Bearer s"})
        with pytest.raises((ssl.SSLError, ConnectionError)), https(nsqd, context) as connection:
            connection.get("/ping")

    assert answer.body == b"OK"
    fields = auth_server.requests[0].fields
    assert (fields["common_name"], fields["tls"]) == (["worker-7"], ["true"])


def test_without_a_certificate_there_is_no_https(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nsqlake"), running_nsqd(https_address="127.0.0.1:0") as nsqd:
        assert nsqd.https_port == 0

    assert not [line for line in caplog.messages if line.startswith("HTTPS")]
