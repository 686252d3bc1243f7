"""What the files must hold, and what is said when they do not."""

import os
import re
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.tls import TlsError
from nsqlake.runtime.tls_context import (
    TlsContextHolder,
    build_client_context,
    build_server_context,
    key_file_warning,
)
from tests.fakes.certificates import CertificateAuthority, KeyPair
from tests.fakes.tls_client import TlsClient, client_context


@pytest.fixture
def authority(tmp_path) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path / "authority"))


@pytest.fixture
def server(authority) -> KeyPair:
    return authority.issue_server()


def refused(reason: str):
    return pytest.raises(StartupError, match=f"^failed to build TLS config - {re.escape(reason)}$")


def write(path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_a_missing_file_is_named(server):
    with refused("open /nowhere/cert.pem: no such file or directory"):
        build_server_context("/nowhere/cert.pem", server.key_file)
    with refused("open : no such file or directory"):
        build_server_context(server.cert_file, "")
    with refused("open /nowhere/ca.pem: no such file or directory"):
        build_server_context(server.cert_file, server.key_file, root_ca_file="/nowhere/ca.pem")


def test_a_file_without_pem_is_refused(server, tmp_path):
    junk = write(tmp_path / "junk", b"not a certificate\n")

    with refused("tls: failed to find any PEM data in certificate input"):
        build_server_context(junk, server.key_file)
    with refused("tls: failed to find any PEM data in key input"):
        build_server_context(server.cert_file, junk)
    with refused("failed to append certificate to pool"):
        build_server_context(server.cert_file, server.key_file, root_ca_file=junk)


def test_the_key_of_another_certificate_is_refused(authority, server):
    other = authority.issue_server("other")

    with refused("tls: private key does not match public key"):
        build_server_context(server.cert_file, other.key_file)


def test_an_encrypted_key_is_refused_instead_of_asking_for_a_password(server, tmp_path):
    key = load_pem_private_key(Path(server.key_file).read_bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))

    with refused("tls: the private key is encrypted"):
        build_server_context(server.cert_file, write(tmp_path / "encrypted", pem))


def test_a_key_that_cannot_sign_is_refused(server, tmp_path):
    key = X25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    with refused("tls: unknown kind of private key"):
        build_server_context(server.cert_file, write(tmp_path / "x25519", pem))


def test_an_unknown_version_is_refused(server):
    with refused("unknown TLS version ssl3.0"):
        build_server_context(server.cert_file, server.key_file, min_version="ssl3.0")


def test_certificate_chain_and_key_may_share_one_file(authority, server, tmp_path):
    paths = [server.cert_file, authority.ca_file, server.key_file]
    both = write(tmp_path / "both", b"".join(Path(path).read_bytes() for path in paths))
    layer = build_server_context(both, both).new_layer()

    TlsClient(client_context(authority.ca_file), layer).handshake()

    assert layer.version == "TLS1.3"


@pytest.mark.parametrize(
    ("policy", "asks"), [("", False), ("require", True), ("require-verify", True), ("bogus", False)]
)
def test_only_the_two_known_policies_ask_for_a_certificate(authority, server, policy, asks):
    context = build_server_context(
        server.cert_file, server.key_file, client_auth_policy=policy, root_ca_file=authority.ca_file
    )

    assert context.asks_client_certificate is asks


def test_require_verify_without_root_file_trusts_the_system_only(authority, server):
    context = build_server_context(server.cert_file, server.key_file, client_auth_policy="require-verify")
    client = TlsClient(client_context(authority.ca_file, authority.issue_client()), context.new_layer())

    with pytest.raises(TlsError, match="unknown authority"):
        client.handshake()


def test_a_client_of_tls_1_1_is_refused_unless_the_option_allows_it(authority, server):
    def client_of_1_1(min_version: str) -> TlsClient:
        context = client_context(authority.ca_file)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        layer = build_server_context(server.cert_file, server.key_file, min_version=min_version).new_layer()
        return TlsClient(context, layer)

    with pytest.raises(TlsError, match="unsupported protocol"):
        client_of_1_1("").handshake()
    client = client_of_1_1("tls1.0")
    client.handshake()

    assert client.tls.version() == "TLSv1.1"


def test_a_client_without_forward_secrecy_is_refused(authority, server):
    context = client_context(authority.ca_file, version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("kRSA")

    with pytest.raises(TlsError, match="no shared cipher"):
        TlsClient(context, build_server_context(server.cert_file, server.key_file).new_layer()).handshake()


def test_a_key_that_others_may_read_gives_a_warning(server):
    assert build_server_context(server.cert_file, server.key_file).warnings == ()

    os.chmod(server.key_file, 0o640)

    expected = f"TLS key {server.key_file} is open to group or others mode=0640"
    assert build_server_context(server.cert_file, server.key_file).warnings == (expected,)
    assert key_file_warning(server.key_file) == expected
    assert key_file_warning("/nowhere/server.key") == ""


def test_reload_serves_the_new_certificate_and_leaves_connections_alone(authority, server, tmp_path):
    holder = TlsContextHolder(lambda: build_server_context(server.cert_file, server.key_file))
    old_layer = holder.current.new_layer()
    old_client = TlsClient(client_context(authority.ca_file), old_layer)
    old_client.handshake()
    successor = CertificateAuthority(str(tmp_path / "successor"))
    renewed = successor.issue_server()
    shutil.copy(renewed.cert_file, server.cert_file)
    shutil.copy(renewed.key_file, server.key_file)

    layer = holder.reload().new_layer()
    TlsClient(client_context(successor.ca_file), layer).handshake()

    assert holder.current.warnings == ()
    assert old_client.receive(old_layer.encode(b"still here")) == b"still here"


def test_a_failed_reload_keeps_the_old_context(server):
    holder = TlsContextHolder(lambda: build_server_context(server.cert_file, server.key_file))
    before = holder.current
    os.unlink(server.key_file)

    with refused(f"open {server.key_file}: no such file or directory"):
        holder.reload()

    assert holder.current is before


def test_outgoing_context_verifies_certificate_and_host_name(authority, tmp_path):
    context = build_client_context(authority.ca_file)

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1
    assert build_client_context("").verify_mode is ssl.CERT_REQUIRED
    with refused("failed to append certificate to pool"):
        build_client_context(write(tmp_path / "junk", b"junk"))
