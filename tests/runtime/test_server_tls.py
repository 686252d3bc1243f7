"""TLS of a daemon from its options, and reading its files again."""

from pathlib import Path

import pytest

from nsqlake.nsqlookupd.options import NsqlookupdOptions
from nsqlake.runtime.errors import ConfigurationError, StartupError
from nsqlake.runtime.server_tls import open_server_tls, reload_certificates
from nsqlake.runtime.tls_options import check_key_pair
from tests.fakes.certificates import CertificateAuthority


@pytest.fixture
def options(tmp_path: Path) -> NsqlookupdOptions:
    pair = CertificateAuthority(str(tmp_path)).issue_server()
    return NsqlookupdOptions(tls_cert=pair.cert_file, tls_key=pair.key_file)


def test_without_a_certificate_there_is_no_tls() -> None:
    assert open_server_tls(NsqlookupdOptions()) is None


def test_a_key_that_others_may_read_is_pointed_out(
    options: NsqlookupdOptions, caplog: pytest.LogCaptureFixture
) -> None:
    Path(options.tls_key).chmod(0o644)

    assert open_server_tls(options) is not None

    assert "is open to group or others mode=0644" in caplog.text


def test_certificates_are_read_again(options: NsqlookupdOptions, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nsqlake")
    tls = open_server_tls(options)
    assert tls is not None
    before = tls.current

    reload_certificates(None, tls)

    assert tls.current is not before
    assert "TLS: certificates reloaded" in caplog.messages


def test_what_cannot_be_used_leaves_the_old_certificate(
    options: NsqlookupdOptions, caplog: pytest.LogCaptureFixture
) -> None:
    tls = open_server_tls(options)
    assert tls is not None
    before = tls.current
    Path(options.tls_cert).write_text("junk")

    reload_certificates(tls)

    assert tls.current is before
    assert "TLS: certificates not reloaded, the old ones stay" in caplog.text


def test_without_tls_there_is_nothing_to_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nsqlake")

    reload_certificates(None, None)

    assert caplog.messages == []


def test_a_file_that_is_missing_keeps_the_daemon_from_starting(options: NsqlookupdOptions) -> None:
    Path(options.tls_key).unlink()

    with pytest.raises(StartupError, match="no such file"):
        open_server_tls(options)


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ConfigurationError, match="--tls-key is not set"):
        check_key_pair(NsqlookupdOptions(tls_cert="c"))
