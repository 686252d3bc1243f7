from pathlib import Path

import pytest

from nsqlake.apps.tool_support.client_options import CLIENT_OPTIONS, parse_client_option
from nsqlake.client.config import ClientConfig


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("msg_timeout,30s", ("msg_timeout", 30.0)),
        ("default-requeue-delay,0s", ("default_requeue_delay", 0.0)),
        ("output_buffer_timeout,-1ms", ("output_buffer_timeout", -0.001)),
        ("snappy", ("snappy", True)),
        ("tls_v1,0", ("tls_v1", False)),
        ("sample_rate,+5", ("sample_rate", 5)),
        ("lookupd_poll_jitter,1e-1", ("lookupd_poll_jitter", 0.1)),
        ("max_attempts,65536", ("max_attempts", 0)),
        ("client_id", ("client_id", "true")),
        ("auth_secret,a,b", ("auth_secret", "a,b")),
        ("backoff_strategy,full_jitter", ("backoff_strategy", "full_jitter")),
        ("local_addr,127.0.0.1:0", ("local_addr", "127.0.0.1:0")),
    ],
)
def test_a_value_is_read_by_the_type_of_its_option(text: str, expected: tuple[str, object]) -> None:
    assert parse_client_option(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bogus,1", "invalid option bogus"),
        ("", "invalid option "),
        ("sample_rate,100", "invalid sample_rate ! 100 > 99"),
        ("sample_rate,-1", "invalid sample_rate ! -1 < 0"),
        (
            "sample_rate,0x10",
            'failed to coerce option sample_rate (0x10) - strconv.ParseInt: parsing "0x10": invalid syntax',
        ),
        (
            "deflate,maybe",
            'failed to coerce option deflate (maybe) - strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("msg_timeout", "failed to coerce option msg_timeout (true) - invalid value type"),
        ("msg_timeout,5", 'failed to coerce option msg_timeout (5) - time: missing unit in duration "5"'),
        ("msg-timeout,-5s", "invalid msg_timeout ! -5s < 0s"),
        ("read_timeout,301s", "invalid read_timeout ! 5m1s > 5m0s"),
        (
            "max_attempts,-1",
            'failed to coerce option max_attempts (-1) - strconv.ParseUint: parsing "-1": invalid syntax',
        ),
        (
            "max_attempts,99999999999999999999",
            "failed to coerce option max_attempts (99999999999999999999)"
            ' - strconv.ParseUint: parsing "99999999999999999999": value out of range',
        ),
        ("lookupd_poll_jitter,1.05", "invalid lookupd_poll_jitter ! 1.05 > 1"),
        (
            "lookupd_poll_jitter,1_0",
            "failed to coerce option lookupd_poll_jitter (1_0)"
            ' - strconv.ParseFloat: parsing "1_0": invalid syntax',
        ),
        (
            "lookupd_poll_jitter,nan",
            "failed to coerce option lookupd_poll_jitter (nan)"
            ' - strconv.ParseFloat: parsing "nan": invalid syntax',
        ),
        ("local_addr,xx", "failed to coerce option local_addr (xx) - address xx: missing port in address"),
        ("tls_min_version,tls9", "ERROR: tls9 is not a tls version"),
        ("tls_cert,/none", "open /none: no such file or directory"),
        (
            "tls_root_ca_file,/none",
            "ERROR: failed to read custom Certificate Authority file open /none: no such file or directory",
        ),
    ],
)
def test_a_wrong_option_is_refused_in_the_words_of_the_go_client(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_client_option(text)

    assert str(caught.value) == reason


@pytest.mark.parametrize("text", ["backoff_strategy,foo", "backoff_strategy"])
def test_an_unknown_backoff_strategy_is_refused_like_any_other_value(text: str) -> None:
    with pytest.raises(ValueError, match="backoff_strategy"):
        parse_client_option(text)


def test_a_trust_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")

    with pytest.raises(ValueError, match="failed to append certificates"):
        parse_client_option(f"tls_root_ca_file,{tmp_path / 'ca.pem'}")


def test_every_option_is_one_of_the_client_library() -> None:
    names = set(CLIENT_OPTIONS) - {"skip_lookupd_authorization"}

    assert names - set(ClientConfig.__dataclass_fields__) == set()
