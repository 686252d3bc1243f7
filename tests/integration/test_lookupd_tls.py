"""TLS between nsqd and nsqlookupd, and on the API of nsqlookupd."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from nsqlake.runtime.errors import StartupError
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from tests.fakes.certificates import CertificateAuthority, KeyPair
from tests.fakes.http_connection import HttpConnection
from tests.fakes.lookup_client import LookupClient, identify
from tests.fakes.tls_client import client_context
from tests.integration.support import eventually, has_channel


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("authority")))


@contextlib.contextmanager
def tls_lookupd(authority: CertificateAuthority, **options: Any) -> Iterator[NsqlookupdFixture]:
    server = options.pop("pair", None) or authority.issue_server()
    options.setdefault("https_address", "127.0.0.1:0")
    with running_nsqlookupd(
        tls_cert=server.cert_file, tls_key=server.key_file, tls_root_ca_file=authority.ca_file, **options
    ) as lookupd:
        yield lookupd


@contextlib.contextmanager
def tls_nsqd(
    lookupd: NsqlookupdFixture, ca_file: str, pair: KeyPair | None = None, **options: Any
) -> Iterator[NsqdFixture]:
    own = {"lookupd_tls_cert": pair.cert_file, "lookupd_tls_key": pair.key_file} if pair else {}
    options.setdefault("broadcast_address", "127.0.0.1")
    with running_nsqd(
        lookupd_tcp_addresses=(lookupd.tcp_address,),
        lookupd_tls=True,
        lookupd_tls_root_ca_file=ca_file,
        **own,
        **options,
    ) as nsqd:
        yield nsqd


def failures(nsqd: NsqdFixture) -> int:
    return nsqd.call(lambda daemon: sum(peer.failures for peer in daemon.announcements._peers.values()))


def test_an_nsqd_announces_itself_through_tls(authority: CertificateAuthority) -> None:
    with tls_lookupd(authority) as lookupd, tls_nsqd(lookupd, authority.ca_file) as nsqd:
        nsqd.create_channel("orders", "archive")

        eventually(lambda: lookupd.channels("orders") == ["archive"])
        assert lookupd.producers("orders") == [nsqd.tcp_address]


def test_channels_are_asked_for_by_https(authority: CertificateAuthority) -> None:
    with tls_lookupd(authority, http_address="") as lookupd, tls_nsqd(lookupd, authority.ca_file) as nsqd:
        lookupd.call(lambda daemon: daemon.db.create("orders", "elsewhere"))
        eventually(lambda: bool(nsqd.call(lambda daemon: daemon.announcements.connected)))

        nsqd.publish("orders", b"x")

        assert has_channel(nsqd, "orders", "elsewhere")


def test_plain_http_is_not_asked_when_tls_is_wanted(
    authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    with tls_lookupd(authority, https_address="") as lookupd, tls_nsqd(lookupd, authority.ca_file) as nsqd:
        lookupd.call(lambda daemon: daemon.db.create("orders", "elsewhere"))
        eventually(lambda: bool(nsqd.call(lambda daemon: daemon.announcements.connected)))

        nsqd.publish("orders", b"x")

        assert not has_channel(nsqd, "orders", "elsewhere")
        assert "gave no usable address of its HTTP API" in caplog.text


def test_a_lookupd_of_another_authority_is_not_trusted(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    stranger = CertificateAuthority(str(tmp_path / "stranger"))
    with tls_lookupd(authority) as lookupd, tls_nsqd(lookupd, stranger.ca_file) as nsqd:
        eventually(lambda: failures(nsqd) > 0)

        assert lookupd.call(lambda daemon: daemon.db.peers()) == ()


def test_a_certificate_for_another_host_is_not_trusted(authority: CertificateAuthority) -> None:
    pair = authority.issue_server("elsewhere", names=[x509.DNSName("elsewhere")])
    with tls_lookupd(authority, pair=pair) as lookupd, tls_nsqd(lookupd, authority.ca_file) as nsqd:
        eventually(lambda: failures(nsqd) > 0)

        assert lookupd.call(lambda daemon: daemon.db.peers()) == ()


def test_an_nsqd_without_tls_is_not_heard(
    authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nsqlake")
    with tls_lookupd(authority) as lookupd, LookupClient(lookupd.tcp_address) as client:
        client.send(identify())
        with contextlib.suppress(Exception):  # whatever the alert is read as
            while client.reply() is not None:
                pass

        assert lookupd.call(lambda daemon: daemon.db.peers()) == ()
        eventually(lambda: "closed: tls: wrong version number" in caplog.text)


def test_only_known_nsqds_register_with_require_verify(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    known = authority.issue_client("node-1")
    unknown = CertificateAuthority(str(tmp_path / "stranger")).issue_client("node-2")
    policy = {"tls_client_auth_policy": "require-verify"}
    with tls_lookupd(authority, **policy) as lookupd:
        for pair in (None, unknown, authority.issue_expired_client()):
            with tls_nsqd(lookupd, authority.ca_file, pair) as refused:
                eventually(lambda refused=refused: failures(refused) > 0)
                assert lookupd.call(lambda daemon: daemon.db.peers()) == ()
        with tls_nsqd(lookupd, authority.ca_file, known) as nsqd:
            nsqd.create_channel("orders", "archive")
            eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])


@pytest.mark.parametrize("name", ["node-1", "localhost", "127.0.0.1"])
def test_an_nsqd_may_announce_the_names_in_its_certificate(
    authority: CertificateAuthority, name: str
) -> None:
    pair = authority.issue_client(name)
    options = {"tls_client_auth_policy": "require-verify", "tls_match_broadcast_address": True}
    with tls_lookupd(authority, **options) as lookupd:
        context = client_context(authority.ca_file, pair)
        with LookupClient(lookupd.tcp_address, context=context) as client:
            client.identify(broadcast_address=name)

        with LookupClient(lookupd.tcp_address, context=context) as client:
            (reply,) = client.ask(identify(broadcast_address="somebody-else"))
            text = b"E_BAD_BODY IDENTIFY broadcast_address 'somebody-else' is not in the certificate"
            assert reply == text
            client.expect_end()


def test_the_api_is_served_by_https_too(authority: CertificateAuthority) -> None:
    with tls_lookupd(authority) as lookupd:
        lookupd.call(lambda daemon: daemon.db.create("orders"))
        context = client_context(authority.ca_file)

        with HttpConnection(f"127.0.0.1:{lookupd.https_port}", context) as http:
            assert http.get_json("/topics") == {"topics": ["orders"]}
        with LookupClient(lookupd.tcp_address, context=context) as client:
            (reply,) = client.ask(identify())

        assert reply is not None
        assert reply.endswith(b',"version":"1.3.0","https_port":%d}' % lookupd.https_port)


def test_a_long_conversation_through_tls(authority: CertificateAuthority) -> None:
    with tls_lookupd(authority) as lookupd:
        context = client_context(authority.ca_file)
        with LookupClient(lookupd.tcp_address, context=context) as client:
            client.identify()
            client.expect_ok(*(b"REGISTER t%d c\n" % number for number in range(2_000)))
            assert client.ask(b"BAD\n") == [b"E_INVALID invalid command BAD"]
            client.expect_end()

        assert len(lookupd.topics()) == 2_000


def test_renewed_certificates_are_read_on_sighup(tmp_path: Path) -> None:
    old, new = (CertificateAuthority(str(tmp_path / name)) for name in ("old", "new"))
    pair = old.issue_server()
    with tls_lookupd(old, pair=pair) as lookupd:
        fresh = new.issue_server()
        for path, source in ((pair.cert_file, fresh.cert_file), (pair.key_file, fresh.key_file)):
            Path(path).write_bytes(Path(source).read_bytes())
        lookupd.call(lambda daemon: daemon.reload_certificates())

        with pytest.raises(ssl.SSLCertVerificationError):
            LookupClient(lookupd.tcp_address, context=client_context(old.ca_file))
        with LookupClient(lookupd.tcp_address, context=client_context(new.ca_file)) as client:
            client.expect_ok(b"PING\n")


def test_an_nsqd_shows_its_renewed_certificate_after_sighup(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    pair = CertificateAuthority(str(tmp_path / "stranger")).issue_client("node-1")
    with (
        tls_lookupd(authority, tls_client_auth_policy="require-verify") as lookupd,
        tls_nsqd(lookupd, authority.ca_file, pair) as nsqd,
    ):
        eventually(lambda: failures(nsqd) > 0)
        known = authority.issue_client("node-1")
        for path, source in ((pair.cert_file, known.cert_file), (pair.key_file, known.key_file)):
            Path(path).write_bytes(Path(source).read_bytes())

        nsqd.call(lambda daemon: daemon.reload_certificates())
        nsqd.create_channel("orders", "archive")

        eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])


@pytest.mark.parametrize("broken", ["lookupd_tls_cert", "lookupd_tls_root_ca_file"])
def test_files_that_cannot_be_used_keep_an_nsqd_from_starting(
    authority: CertificateAuthority, tmp_path: Path, broken: str
) -> None:
    pair = authority.issue_client("node-1")
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    files = {
        "lookupd_tls_cert": pair.cert_file,
        "lookupd_tls_key": pair.key_file,
        "lookupd_tls_root_ca_file": authority.ca_file,
        broken: str(junk),
    }

    with (
        pytest.raises(StartupError, match="failed to build TLS config"),
        running_nsqd(lookupd_tls=True, **files),
    ):
        pass
