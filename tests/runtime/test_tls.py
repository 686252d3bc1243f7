"""`TlsLayer` against the standard library's client, in memory."""

import ssl
from collections.abc import Callable

import pytest
from OpenSSL import SSL

from nsqlake.runtime.tls import TlsError, TlsLayer
from nsqlake.runtime.tls_context import build_server_context
from tests.fakes.certificates import CertificateAuthority, KeyPair
from tests.fakes.tls_client import TlsClient, client_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture(scope="module")
def server(authority: CertificateAuthority) -> KeyPair:
    return authority.issue_server()


def new_layer(server: KeyPair, policy: str = "", root_ca_file: str = "") -> TlsLayer:
    context = build_server_context(
        server.cert_file, server.key_file, client_auth_policy=policy, root_ca_file=root_ca_file
    )
    return context.new_layer()


@pytest.fixture
def connected(
    authority: CertificateAuthority, server: KeyPair
) -> Callable[[ssl.TLSVersion], tuple[TlsClient, TlsLayer]]:
    def connect(version: ssl.TLSVersion) -> tuple[TlsClient, TlsLayer]:
        layer = new_layer(server)
        client = TlsClient(client_context(authority.ca_file, version=version), layer)
        client.handshake()
        return client, layer

    return connect


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 16_384, 16_385, 1_000_000])
def test_data_of_any_size_goes_both_ways(connected, version, size):
    client, layer = connected(version)
    data = bytes(range(251)) * (size // 251 + 1)

    client.send(data[:size])
    received = layer.read(size + 1)
    answered = client.receive(layer.encode(received))

    assert received == answered == data[:size]


@pytest.mark.parametrize("version", VERSIONS)
def test_handshake_may_arrive_byte_by_byte(authority, server, version):
    layer = new_layer(server)
    client = TlsClient(client_context(authority.ca_file, version=version), layer, step=1)

    client.handshake()
    client.send(b"hello")

    assert layer.read(100) == b"hello"


def test_handshake_is_not_done_before_the_client_has_spoken(server):
    layer = new_layer(server)

    layer.feed(b"")

    assert layer.handshake() is False
    assert layer.take_outgoing() == b""


def test_a_handshake_that_is_done_stays_done(connected):
    _, layer = connected(ssl.TLSVersion.TLSv1_3)

    assert layer.handshake()
    assert layer.take_outgoing() == b""


def test_read_returns_no_more_than_asked_for(connected):
    client, layer = connected(ssl.TLSVersion.TLSv1_3)

    client.send(b"x" * 40_000)

    assert [len(layer.read(15_000)) for _ in range(4)] == [15_000, 15_000, 10_000, 0]
    assert not layer.peer_closed


def test_data_behind_the_last_handshake_record_is_kept(authority, server):
    layer = new_layer(server)
    client = TlsClient(client_context(authority.ca_file, version=ssl.TLSVersion.TLSv1_3), layer)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    layer.feed(client.outgoing.read())
    layer.handshake()
    client.incoming.write(layer.take_outgoing())

    client.tls.do_handshake()
    client.tls.write(b"early bird")
    layer.feed(client.outgoing.read())

    assert layer.handshake()
    assert layer.read(100) == b"early bird"


@pytest.mark.parametrize("version", VERSIONS)
def test_close_notify_of_the_client_is_a_clean_end(connected, version):
    client, layer = connected(version)
    client.send(b"last words")

    client.close()

    assert layer.read(5) == b"last "
    assert layer.read(100) == b"words"
    assert (layer.read(100), layer.peer_closed) == (b"", True)
    assert client.receive(layer.encode(b"still heard")) == b"still heard"


def test_close_tells_the_client_that_nothing_follows(connected):
    client, layer = connected(ssl.TLSVersion.TLSv1_3)

    client.incoming.write(layer.close())

    assert client.tls.read(1) == b""


def test_close_before_the_handshake_sends_nothing(server):
    assert new_layer(server).close() == b""


def test_encode_of_nothing_sends_what_is_waiting(connected):
    _, layer = connected(ssl.TLSVersion.TLSv1_3)

    assert layer.encode(b"") == b""


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05junk!", b"  V2PUB t\n" * 9]
)
def test_plain_text_instead_of_a_handshake_fails_at_once(server, junk):
    layer = new_layer(server)

    layer.feed(junk)

    with pytest.raises(TlsError, match=r"^tls: \w+") as first:
        layer.handshake()
    with pytest.raises(TlsError) as second:
        layer.handshake()
    assert first.value.reason == second.value.reason


def test_a_damaged_record_breaks_the_stream_after_the_good_ones(connected):
    client, layer = connected(ssl.TLSVersion.TLSv1_3)
    client.send(b"good")

    layer.feed(b"\x17\x03\x03\x00\x20" + b"\0" * 32)

    assert layer.read(100) == b"good"
    with pytest.raises(TlsError):
        layer.read(100)
    with pytest.raises(TlsError):
        layer.encode(b"anything")
    assert layer.take_outgoing()
    assert layer.close() == b""


def test_a_damaged_record_alone_is_reported_by_the_first_read(connected):
    _, layer = connected(ssl.TLSVersion.TLSv1_2)

    layer.feed(b"\x17\x03\x03\x00\x20" + b"\0" * 32)

    with pytest.raises(TlsError, match="tls: decryption failed or bad record mac"):
        layer.read(100)


@pytest.mark.parametrize(
    ("version", "name", "cipher"),
    [
        (ssl.TLSVersion.TLSv1_2, "TLS1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        (ssl.TLSVersion.TLSv1_3, "TLS1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_version_and_cipher_have_the_names_of_nsq(connected, version, name, cipher):
    _, layer = connected(version)

    assert (layer.version, layer.cipher) == (name, cipher)
    assert (layer.negotiated_protocol, layer.peer_common_name) == ("", "")


@pytest.mark.parametrize(("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], "")])
def test_http_1_1_is_the_only_protocol_chosen(authority, server, offered, chosen):
    layer = new_layer(server)
    context = client_context(authority.ca_file)
    context.set_alpn_protocols(offered)

    TlsClient(context, layer).handshake()

    assert layer.negotiated_protocol == chosen


@pytest.mark.parametrize("version", VERSIONS)
def test_policy_require_takes_any_certificate_and_tells_its_name(authority, server, tmp_path, version):
    stranger = CertificateAuthority(str(tmp_path), "stranger").issue_client("odd one")
    layer = new_layer(server, "require", authority.ca_file)

    TlsClient(client_context(authority.ca_file, stranger, version), layer).handshake()

    assert layer.peer_common_name == "odd one"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("policy", ["require", "require-verify"])
def test_both_policies_refuse_a_client_without_certificate(authority, server, policy, version):
    layer = new_layer(server, policy, authority.ca_file)

    with pytest.raises(TlsError, match="tls: peer did not return a certificate"):
        TlsClient(client_context(authority.ca_file, version=version), layer).handshake()

    assert layer.take_outgoing()


@pytest.mark.parametrize("version", VERSIONS)
def test_policy_require_verify_takes_a_certificate_of_its_authority(authority, server, version):
    layer = new_layer(server, "require-verify", authority.ca_file)
    pair = authority.issue_client("billing")

    TlsClient(client_context(authority.ca_file, pair, version), layer).handshake()

    assert layer.peer_common_name == "billing"


def test_policy_require_verify_refuses_what_is_expired_or_foreign_or_not_for_clients(
    authority, server, tmp_path
):
    foreign = CertificateAuthority(str(tmp_path), "stranger").issue_client()
    cases = {
        "certificate has expired": authority.issue_expired_client(),
        "certificate is not meant for clients": authority.issue_client_for_servers_only(),
        "certificate of an unknown authority": foreign,
    }

    for reason, pair in cases.items():
        layer = new_layer(server, "require-verify", authority.ca_file)
        with pytest.raises(TlsError, match=f"tls: {reason}"):
            TlsClient(client_context(authority.ca_file, pair), layer).handshake()


def test_an_authority_of_the_same_name_does_not_pass_for_the_right_one(authority, server, tmp_path):
    impostor = CertificateAuthority(str(tmp_path)).issue_client()
    layer = new_layer(server, "require-verify", authority.ca_file)

    with pytest.raises(TlsError):
        TlsClient(client_context(authority.ca_file, impostor), layer).handshake()


def test_a_session_is_never_resumed(authority, server):
    context = client_context(authority.ca_file, authority.issue_client())
    shared = build_server_context(
        server.cert_file, server.key_file, client_auth_policy="require", root_ca_file=authority.ca_file
    )
    first = TlsClient(context, shared.new_layer())
    first.handshake()
    first.receive(b"")

    second = TlsClient(context, shared.new_layer())
    second.tls.session = first.tls.session
    second.handshake()

    assert not second.tls.session_reused


def test_renegotiation_is_refused_and_the_stream_goes_on(server):
    layer = new_layer(server)
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    client = SSL.Connection(context, None)
    client.set_connect_state()
    for _ in range(2):
        with pytest.raises(SSL.WantReadError):
            client.do_handshake()
        layer.feed(client.bio_read(65_536))
        layer.handshake()
        client.bio_write(layer.take_outgoing())
    client.do_handshake()

    client.renegotiate()
    with pytest.raises(SSL.WantReadError):
        client.do_handshake()
    layer.feed(client.bio_read(65_536))

    assert layer.read(100) == b""
    client.bio_write(layer.take_outgoing())
    with pytest.raises(SSL.Error, match="no renegotiation"):
        client.do_handshake()
