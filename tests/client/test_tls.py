import ssl
from typing import Any

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.tls import build_tls_context, tls_reason
from tests.fakes.certificates import CertificateAuthority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


def test_certificate_and_name_are_verified_unless_told_otherwise(authority: CertificateAuthority) -> None:
    context = build_tls_context(ClientConfig(tls_v1=True, tls_root_ca_file=authority.ca_file))

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1


def test_verification_can_be_switched_off() -> None:
    context = build_tls_context(ClientConfig(tls_v1=True, tls_insecure_skip_verify=True))

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("tls1.0", ssl.TLSVersion.TLSv1),
        ("tls1.1", ssl.TLSVersion.TLSv1_1),
        ("tls1.3", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_the_oldest_version_can_be_chosen(name: str, version: ssl.TLSVersion) -> None:
    context = build_tls_context(ClientConfig(tls_insecure_skip_verify=True, tls_min_version=name))

    assert context.minimum_version == version


def test_a_ready_context_is_taken_as_it_is() -> None:
    context = ssl.create_default_context()

    assert build_tls_context(ClientConfig(ssl_context=context, tls_cert="ignored")) is context


def test_a_client_certificate_is_loaded(authority: CertificateAuthority) -> None:
    pair = authority.issue_client()

    build_tls_context(
        ClientConfig(tls_root_ca_file=authority.ca_file, tls_cert=pair.cert_file, tls_key=pair.key_file)
    )


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"tls_root_ca_file": "/nowhere/ca.pem"}, "tls_root_ca_file"),
        ({"tls_root_ca_file": __file__}, "tls_root_ca_file"),
        ({"tls_cert": "/nowhere/cert.pem"}, "tls_cert"),
        ({"tls_cert": __file__}, "tls_cert"),
    ],
)
def test_a_file_that_is_not_usable_is_named(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        build_tls_context(ClientConfig(**options))

    assert caught.value.argument == argument
    assert caught.value.reason


def test_reasons_are_readable() -> None:
    error = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] text (_ssl.c:2580)")
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"

    assert tls_reason(error) == "tlsv13 alert certificate required"
