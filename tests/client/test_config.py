import dataclasses
import ssl
from datetime import timedelta
from typing import Any

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import InvalidArgumentError

# NSQ's own defaults, in seconds.
DEFAULTS: dict[str, Any] = {
    "dial_timeout": 1.0,
    "read_timeout": 60.0,
    "write_timeout": 1.0,
    "lookupd_poll_interval": 60.0,
    "lookupd_poll_jitter": 0.3,
    "lookupd_poll_timeout": 60.0,
    "max_requeue_delay": 900.0,
    "default_requeue_delay": 90.0,
    "backoff_strategy": "exponential",
    "max_backoff_duration": 120.0,
    "backoff_multiplier": 1.0,
    "max_attempts": 5,
    "low_rdy_idle_timeout": 10.0,
    "low_rdy_timeout": 30.0,
    "rdy_redistribute_interval": 5.0,
    "heartbeat_interval": 30.0,
    "sample_rate": 0,
    "tls_v1": False,
    "deflate": False,
    "deflate_level": 6,
    "snappy": False,
    "output_buffer_size": 16_384,
    "output_buffer_timeout": 0.25,
    "max_in_flight": 1,
    "msg_timeout": 0.0,
    "auth_secret": "",
    "lookupd_authorization": True,
    "tls_required": True,
    "stop_timeout": 30.0,
}


def test_defaults_are_those_of_nsq() -> None:
    config = ClientConfig()

    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS
    assert config.client_id == config.hostname.partition(".")[0] != ""
    assert config.user_agent.startswith("nsqlake/")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(2, 2.0), (0.5, 0.5), (timedelta(minutes=1), 60.0), ("250ms", 0.25), ("1m30s", 90.0)],
)
def test_durations_come_in_many_forms_and_are_kept_as_seconds(value: Any, seconds: float) -> None:
    config = ClientConfig(read_timeout=300, dial_timeout=value)

    assert config.dial_timeout == seconds
    assert type(config.dial_timeout) is float


@pytest.mark.parametrize("value", [-1, -1.0, "-1"])
def test_heartbeats_can_be_off(value: Any) -> None:
    assert ClientConfig(heartbeat_interval=value).heartbeat_interval == -1.0


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("dial_timeout", 0, "must be at least 0.001s"),
        ("dial_timeout", "5", 'time: missing unit in duration "5"'),
        ("dial_timeout", "soon", 'time: invalid duration "soon"'),
        ("dial_timeout", None, "must be a number"),
        ("dial_timeout", True, "must be a number"),
        ("dial_timeout", float("nan"), "must be finite"),
        ("read_timeout", 0.05, "must be between 0.1s and 300s"),
        ("read_timeout", 301, "must be between 0.1s and 300s"),
        ("heartbeat_interval", -2, "must be between 0.001s and 300s"),
        ("heartbeat_interval", 61, "exceeds read_timeout=60"),
        ("lookupd_poll_jitter", 1.5, "must be between 0 and 1"),
        ("max_attempts", 65_536, "must be between 0 and 65535"),
        ("max_attempts", 1.5, "must be an integer"),
        ("max_in_flight", -1, "must be at least 0"),
        ("sample_rate", 100, "must be between 0 and 99"),
        ("deflate_level", 0, "must be between 1 and 9"),
        ("output_buffer_size", -2, "must be at least 0"),
        ("tls_v1", "perhaps", "must be true or false"),
        ("tls_v1", None, "must be true or false"),
        ("tls_min_version", "ssl3.0", "must be one of tls1.0, tls1.1, tls1.2, tls1.3"),
        ("tls_key", "k.pem", "needs tls_cert"),
        ("ssl_context", "x", "must be an ssl.SSLContext"),
        ("backoff_strategy", "none", "must be one of exponential, full_jitter, or a function of the level"),
        ("backoff_strategy", [], "must be one of exponential, full_jitter, or a function of the level"),
        ("client_id", b"x", "must be text"),
        ("local_addr", "somewhere", "must be an IP address, with a port or without"),
        ("local_addr", 5, "must be text"),
        ("drain", "hope", "must be one of requeue, process"),
        ("reconnect_min_delay", 61, "exceeds reconnect_max_delay"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(option: str, value: Any, reason: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ClientConfig(**{option: value})

    assert (caught.value.argument, caught.value.reason) == (option, reason)


def test_both_codecs_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="snappy=True: cannot be combined with deflate"):
        ClientConfig(snappy=True, deflate=True)


def test_secrets_are_in_no_repr_and_no_error() -> None:
    config = ClientConfig(auth_secret="hush", tls_key_password="hush")

    assert "hush" not in repr(config)
    with pytest.raises(InvalidArgumentError) as caught:
        ClientConfig(auth_secret=b"hush")  # type: ignore[arg-type]
    assert "hush" not in str(caught.value)


def test_a_mapping_may_be_written_as_on_the_command_line() -> None:
    context = ssl.create_default_context()

    config = ClientConfig.from_mapping(
        {"heartbeat-interval": "1s", "max_in_flight": "200", "snappy": "TRUE", "tls-config": context}
    )

    assert (config.heartbeat_interval, config.max_in_flight, config.snappy) == (1.0, 200, True)
    assert config.ssl_context is context


@pytest.mark.parametrize(
    ("options", "argument", "reason"),
    [
        ({"no-such": 1}, "no-such", "no such option"),
        ({"max_in_flight": 1, "max-in-flight": 2}, "max-in-flight", "given twice"),
        ({"max_in_flight": "many"}, "max_in_flight", "invalid literal"),
    ],
)
def test_a_wrong_mapping_is_refused(options: dict[str, Any], argument: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        ClientConfig.from_mapping(options)

    assert caught.value.argument == argument


def test_a_configuration_never_changes() -> None:
    config = ClientConfig()

    with pytest.raises(dataclasses.FrozenInstanceError):
        config.max_in_flight = 2  # type: ignore[misc]
    assert config.replace(max_in_flight=2).max_in_flight == 2
    with pytest.raises(InvalidArgumentError):
        config.replace(max_in_flight=-1)


def test_a_strategy_may_be_a_function() -> None:
    assert callable(ClientConfig(backoff_strategy=float).backoff_strategy)
