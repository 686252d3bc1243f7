import pytest

from nsqlake.nsqlookupd.options import NsqlookupdOptions, validate
from nsqlake.runtime.addresses import host_name
from nsqlake.runtime.durations import MINUTE_NS, SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.options import option_fields
from nsqlake.runtime.toml_options import resolve_options

NSQ_FLAGS = (
    "tcp-address http-address broadcast-address inactive-producer-timeout tombstone-lifetime log-level "
    "log-prefix config version verbose"
)
OWN_FLAGS = (
    "https-address max-connections max-registrations max-registrations-per-peer tls-cert tls-key "
    "tls-client-auth-policy tls-root-ca-file tls-min-version tls-match-broadcast-address"
)


def parsed(*argv: str) -> NsqlookupdOptions:
    return resolve_options(NsqlookupdOptions, parse_flags(NsqlookupdOptions, argv).values, {})


def test_the_flags_are_those_of_nsq_and_a_few_of_our_own() -> None:
    flags = {field.option.flag for field in option_fields(NsqlookupdOptions)}

    assert flags == {*NSQ_FLAGS.split(), *OWN_FLAGS.split()}


def test_the_defaults_are_nsqs() -> None:
    options = validate(NsqlookupdOptions())

    assert (options.tcp_address, options.http_address) == ("0.0.0.0:4160", "0.0.0.0:4161")
    assert options.broadcast_address == host_name()
    assert (options.inactive_producer_timeout_ns, options.tombstone_lifetime_ns) == (
        5 * MINUTE_NS,
        45 * SECOND_NS,
    )
    assert options.log_prefix == "[nsqlookupd] "


def test_keys_of_the_config_file_follow_from_the_flags() -> None:
    tables = {"inactive_producer_timeout": "2s", "tombstone_lifetime": 1500, "http_address": "h:1"}

    options = resolve_options(NsqlookupdOptions, {}, tables)

    assert (options.inactive_producer_timeout_ns, options.tombstone_lifetime_ns, options.http_address) == (
        2 * SECOND_NS,
        1_500_000_000,
        "h:1",
    )


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--tcp-address="], "--tcp-address must not be empty"),
        (["--tls-cert=c"], "failed to build TLS config - --tls-key is not set"),
        (["--tls-key=k"], "failed to build TLS config - --tls-cert is not set"),
        (
            ["--tls-client-auth-policy=require"],
            "--tls-client-auth-policy needs --tls-cert and --tls-key",
        ),
        (
            [
                "--tls-cert=c",
                "--tls-key=k",
                "--tls-client-auth-policy=require",
                "--tls-match-broadcast-address",
            ],
            "--tls-match-broadcast-address needs --tls-client-auth-policy=require-verify",
        ),
        (["--tombstone-lifetime=-1s"], "--tombstone-lifetime must not be negative"),
        (["--max-registrations=-1"], "--max-registrations must not be negative"),
    ],
)
def test_what_cannot_work_is_refused(flags: list[str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(parsed(*flags))

    assert str(caught.value) == reason
