import ssl
import zlib
from hashlib import md5

import msgspec
import pytest

from nsqlake.nsqd.option_choices import AckAfter, TLSRequired
from nsqlake.nsqd.options import NsqdOptions, default_node_id, validate
from nsqlake.runtime.addresses import host_name
from nsqlake.runtime.durations import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.logs import LogLevel
from nsqlake.runtime.options import config_text, option_fields
from nsqlake.runtime.tls_options import TLSVersion
from nsqlake.runtime.toml_options import resolve_options

OWN_FLAGS = {
    "max-attempts",
    "retention-time",
    "retention-bytes",
    "retention-policy",
    "ack-after",
    "http-auth",
    "spin",
    "mem-bytes",
    "min-free-bytes",
    "max-topics",
    "max-connections",
    "lookupd-tls",
    "lookupd-tls-root-ca-file",
    "lookupd-tls-cert",
    "lookupd-tls-key",
    "max-txn-bytes",
    "txn-timeout",
    "txn-retention",
}
NSQ_FLAGS = (
    "version config log-level log-prefix verbose node-id worker-id tcp-address http-address https-address "
    "broadcast-address broadcast-tcp-port broadcast-http-port lookupd-tcp-address auth-http-address "
    "auth-http-request-method http-client-connect-timeout http-client-request-timeout topology-region "
    "topology-zone data-path mem-queue-size max-bytes-per-file sync-every sync-timeout "
    "queue-scan-worker-pool-max queue-scan-selection-count msg-timeout max-msg-timeout max-msg-size "
    "max-body-size max-req-timeout max-heartbeat-interval max-rdy-count max-output-buffer-size "
    "max-output-buffer-timeout min-output-buffer-timeout output-buffer-timeout max-channel-consumers "
    "statsd-address statsd-interval statsd-mem-stats statsd-prefix statsd-udp-packet-size "
    "statsd-exclude-ephemeral e2e-processing-latency-percentile e2e-processing-latency-window-time tls-cert "
    "tls-key tls-client-auth-policy tls-root-ca-file tls-required tls-min-version deflate snappy "
    "max-deflate-level enable-experiment"
)


def parsed(*argv: str) -> NsqdOptions:
    return resolve_options(NsqdOptions, parse_flags(NsqdOptions, argv).values, {})


def from_toml(**tables: object) -> NsqdOptions:
    return resolve_options(NsqdOptions, {}, tables)


def refusal(options: NsqdOptions) -> str:
    with pytest.raises(ConfigurationError) as caught:
        validate(options)
    return str(caught.value)


def test_the_flags_are_those_of_nsq_and_a_few_of_our_own() -> None:
    assert {field.option.flag for field in option_fields(NsqdOptions)} == OWN_FLAGS.union(NSQ_FLAGS.split())


def test_only_four_config_keys_do_not_follow_from_their_flag() -> None:
    keys = {field.option.flag: field.option.key for field in option_fields(NsqdOptions) if field.option.key}

    assert keys == {
        "node-id": "id",
        "lookupd-tcp-address": "nsqlookupd_tcp_addresses",
        "auth-http-address": "auth_http_addresses",
        "e2e-processing-latency-percentile": "e2e_processing_latency_percentiles",
    }


def test_four_flags_are_not_config_keys() -> None:
    outside = {field.option.flag for field in option_fields(NsqdOptions) if not field.option.in_config}

    assert outside == {"version", "config", "verbose", "worker-id"}


def test_defaults_are_nsqs_with_two_departures() -> None:
    options = NsqdOptions()

    assert (options.tcp_address, options.http_address) == ("0.0.0.0:4150", "0.0.0.0:4151")
    assert (options.msg_timeout_ns, options.max_msg_timeout_ns) == (60 * SECOND_NS, 15 * MINUTE_NS)
    assert (options.max_req_timeout_ns, options.min_output_buffer_timeout_ns) == (
        HOUR_NS,
        25 * MILLISECOND_NS,
    )
    assert (options.max_msg_size, options.max_body_size) == (1_048_576, 5_242_880)
    assert (options.mem_queue_size, options.max_rdy_count) == (10_000, 2_500)
    assert options.tls_min_version is TLSVersion.TLS1_2
    assert options.auth_http_request_method == "post"


def test_our_own_options_have_careful_defaults() -> None:
    options = NsqdOptions()

    assert (options.ack_after, options.spin_ns) == (AckAfter.WRITE, 100_000)
    assert (options.mem_bytes, options.min_free_bytes) == (268_435_456, 1_048_576)
    assert (options.max_topics, options.max_connections) == (0, 0)


def test_the_default_node_id_is_a_hash_of_the_host_name() -> None:
    assert default_node_id() == zlib.crc32(md5(host_name().encode()).digest()) % 1024
    assert NsqdOptions().node_id == default_node_id()
    assert NsqdOptions().broadcast_address == host_name()


def test_tls_versions_are_the_numbers_that_ssl_uses() -> None:
    pairs = zip(TLSVersion, [769, 770, 771, 772], strict=True)

    assert all(version == number == ssl.TLSVersion(number) for version, number in pairs)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("", TLSRequired.TRUE), ("=TCP-HTTPS", TLSRequired.TCP_HTTPS), ("=T", TLSRequired.TRUE),
     ("=1", TLSRequired.TRUE), ("=False", TLSRequired.FALSE)],
)  # fmt: skip
def test_tls_required_is_a_boolean_with_a_third_word(word: str, expected: TLSRequired) -> None:
    assert parsed(f"--tls-required{word}").tls_required is expected


def test_the_least_tls_version_is_a_word_in_any_case() -> None:
    assert parsed("--tls-min-version=TLS1.3").tls_min_version is TLSVersion.TLS1_3
    assert parsed("--tls-min-version=").tls_min_version is TLSVersion.TLS1_2


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--tls-required=maybe",
         'invalid boolean value "maybe" for -tls-required: strconv.ParseBool: parsing "maybe": '
         "invalid syntax"),
        ("--tls-min-version=ssl3.0",
         'invalid value "ssl3.0" for flag -tls-min-version: unknown tlsVersionOption "ssl3.0"'),
        ("--log-level=warning",
         'invalid value "warning" for flag -log-level: invalid log level \'warning\''
         " (debug, info, warn, error, fatal)"),
        ("--worker-id=5", 'invalid boolean value "5" for -worker-id: parse error'),
        ("--max-defer-timeout=1h", "flag provided but not defined: -max-defer-timeout"),
        ("--ack-after=never", 'invalid value "never" for flag -ack-after: unknown value "never"'),
    ],
)  # fmt: skip
def test_wrong_words_are_told_in_gos_words(flag: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(flag)

    assert str(caught.value) == text


def test_deflate_false_in_two_words_leaves_deflate_on_and_ends_the_flags() -> None:
    options = parsed("--deflate", "false", "--snappy=false")

    assert options.deflate
    assert options.snappy


def test_values_of_the_config_file_are_taken_over() -> None:
    options = from_toml(id=5, msg_timeout=30_000, tls_required=True, log_level="WARN", ack_after="sync")

    assert (options.node_id, options.msg_timeout_ns) == (5, 30 * SECOND_NS)
    assert (options.tls_required, options.log_level) == (TLSRequired.TRUE, LogLevel.WARN)
    assert options.ack_after is AckAfter.SYNC


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("tls_required", "maybe", "failed parsing tls_required maybe"),
        ("tls_min_version", 771, "failed parsing tls_min_version 771"),
        ("log_level", "bogus", "failed parsing log_level bogus"),
        ("deflate", "no", "Resolve failed to coerce value no (true) for field DeflateEnabled - "
         'strconv.ParseBool: parsing "no": invalid syntax'),
        ("id", 1.5, f"Resolve failed to coerce value 1.5 ({default_node_id()}) for field ID - "
         "invalid int64 value type float64"),
        ("e2e_processing_latency_percentiles", "x", "Resolve failed to coerce value x ([]) for field "
         'E2EProcessingLatencyPercentiles - strconv.ParseFloat: parsing "x": invalid syntax'),
        ("nsqlookupd_tcp_addresses", 5, "Resolve failed to coerce value 5 ([]) for field "
         "NSQLookupdTCPAddresses - invalid []string value type int64"),
    ],
)  # fmt: skip
def test_wrong_values_of_the_config_file_are_told_in_nsqs_words(key: str, value: object, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_toml(**{key: value})

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--max-deflate-level=0", "--max-deflate-level must be [1,9]"),
        ("--max-deflate-level=10", "--max-deflate-level must be [1,9]"),
        ("--node-id=1024", "--node-id must be [0,1024)"),
        ("--node-id=-1", "--node-id must be [0,1024)"),
        ("--tls-required", "cannot require TLS client connections without TLS key and cert"),
        ("--tls-client-auth-policy=x", "cannot require TLS client connections without TLS key and cert"),
        ("--tls-cert=c.pem", "failed to build TLS config - --tls-key is not set"),
        ("--tls-key=k.pem", "failed to build TLS config - --tls-cert is not set"),
        ("--auth-http-request-method=GET", "--auth-http-request-method must be post or get"),
        ("--e2e-processing-latency-percentile=1.5", "invalid E2E processing latency percentile: 1.5"),
        ("--e2e-processing-latency-percentile=0", "invalid E2E processing latency percentile: 0"),
        ("--e2e-processing-latency-percentile=nan", "invalid E2E processing latency percentile: NaN"),
        ("--mem-queue-size=-1", "--mem-queue-size must not be negative"),
        ("--sync-timeout=0", "--sync-timeout must be greater than 0"),
        ("--output-buffer-timeout=-1s", "--output-buffer-timeout must be greater than 0"),
        ("--max-msg-size=0", "--max-msg-size must be greater than 0"),
        ("--spin=-1us", "--spin must not be negative"),
        ("--mem-bytes=-1", "--mem-bytes must not be negative"),
        ("--max-topics=-1", "--max-topics must not be negative"),
    ],
)
def test_values_that_cannot_work_are_refused(flag: str, text: str) -> None:
    assert refusal(parsed(flag)) == text


def test_the_checks_come_in_nsqs_order() -> None:
    flags = [
        "--mem-queue-size=-1",
        "--e2e-processing-latency-percentile=2",
        "--auth-http-request-method=x",
        "--tls-required",
        "--node-id=-1",
        "--max-deflate-level=0",
    ]

    firsts = [refusal(parsed(*flags[:count])).split()[0] for count in range(1, 7)]

    expected = "--mem-queue-size invalid --auth-http-request-method cannot --node-id --max-deflate-level"
    assert " ".join(firsts) == expected


def test_the_statsd_interval_matters_only_when_statistics_are_pushed() -> None:
    validate(parsed("--statsd-interval=1s"))

    assert refusal(parsed("--statsd-interval=1s", "--statsd-address=x:1")) == (
        "--statsd-interval must be greater than 1s"
    )


def test_any_client_policy_makes_tls_required() -> None:
    options = parsed("--tls-cert=c", "--tls-key=k", "--tls-client-auth-policy=bogus")

    assert validate(options).tls_required is TLSRequired.TRUE


def test_a_client_policy_leaves_the_third_word_alone() -> None:
    options = parsed(
        "--tls-cert=c", "--tls-key=k", "--tls-client-auth-policy=require", "--tls-required=tcp-https"
    )

    assert validate(options).tls_required is TLSRequired.TCP_HTTPS


def test_valid_options_pass_unchanged() -> None:
    assert validate(NsqdOptions()) == NsqdOptions()


def test_the_config_endpoint_shows_enumerations_as_numbers() -> None:
    options = msgspec.structs.replace(NsqdOptions(), tls_required=TLSRequired.TCP_HTTPS)

    shown = {key: config_text(options, key) for key in ("log_level", "tls_required", "tls_min_version")}

    assert shown == {"log_level": "2", "tls_required": "1", "tls_min_version": "771"}
    assert config_text(options, "msg_timeout") == "60000000000"
    assert config_text(options, "ack_after") == "write"
    assert config_text(options, "nsqlookupd_tcp_addresses") == "[]"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--lookupd-tls-cert=c", "--lookupd-tls-key=k"], "--lookupd-tls-cert needs --lookupd-tls"),
        (["--lookupd-tls-root-ca-file=ca"], "--lookupd-tls-root-ca-file needs --lookupd-tls"),
        (
            ["--lookupd-tls", "--lookupd-tls-cert=c"],
            "failed to build TLS config - --lookupd-tls-key is not set",
        ),
        (
            ["--lookupd-tls", "--lookupd-tls-key=k"],
            "failed to build TLS config - --lookupd-tls-cert is not set",
        ),
    ],
)
def test_tls_to_nsqlookupd_is_wanted_whole(flags: list[str], reason: str) -> None:
    assert refusal(parsed(*flags)) == reason
