"""Every option of the clients, checked when the configuration is made."""

from __future__ import annotations

import dataclasses
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from nsqlake import __version__
from nsqlake.client.addresses import parse_local_address
from nsqlake.client.config_fields import (
    HOUR_S,
    MINUTE_S,
    choice,
    convert_of,
    converted_by,
    fraction,
    integer,
    seconds,
    secret_text,
    switch,
    text,
)
from nsqlake.client.errors import InvalidArgumentError

BackoffStrategy = str | Callable[[int], float]

STRATEGIES: Final = ("exponential", "full_jitter")
TLS_VERSIONS: Final = ("tls1.0", "tls1.1", "tls1.2", "tls1.3")
OFF: Final = -1
_OTHER_NAMES: Final = {"tls_config": "ssl_context"}  # go-nsq's name on the left


def _strategy(value: Any) -> BackoffStrategy:
    if callable(value) or value in STRATEGIES:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"must be one of {', '.join(STRATEGIES)}, or a function of the level")


def _local_addr(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be text")
    if value:
        parse_local_address(value)
    return value


def _ssl_context(value: Any) -> ssl.SSLContext | None:
    if value is not None and not isinstance(value, ssl.SSLContext):
        raise TypeError("must be an ssl.SSLContext")
    return value


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """The options of producers and consumers, under NSQ's names.

    Durations are seconds; a timedelta or text such as "250ms" is converted. What only nsqd can judge, because
    its own options decide, is left to nsqd. InvalidArgumentError names an option that cannot be right.
    """

    # Connections
    dial_timeout: float = seconds(1.0, 0.001)
    handshake_timeout: float = seconds(10.0, 0.001)  # all steps after the dial together
    read_timeout: float = seconds(MINUTE_S, 0.1, 5 * MINUTE_S)
    write_timeout: float = seconds(1.0, 0.1, 5 * MINUTE_S)  # without any progress
    local_addr: str = dataclasses.field(default="", metadata=converted_by(_local_addr))
    heartbeat_interval: float = seconds(30.0, 0.001, 5 * MINUTE_S, off=OFF)
    max_frame_bytes: int = integer(16 * 1024 * 1024, 1024, 2**31 - 1)
    client_id: str = text()  # default: the host's name up to the first dot
    hostname: str = text()  # default: the host's name
    user_agent: str = text(f"nsqlake/{__version__}")
    topology_region: str = text()
    topology_zone: str = text()
    name: str = text()  # for the log

    # TLS, compression, authentication
    tls_v1: bool = switch(False)
    tls_required: bool = switch(True)  # asked for and not granted is an error
    # Instead of the next six.
    ssl_context: ssl.SSLContext | None = dataclasses.field(default=None, metadata=converted_by(_ssl_context))
    tls_root_ca_file: str = text()
    tls_insecure_skip_verify: bool = switch(False)
    tls_cert: str = text()
    tls_key: str = text()
    tls_key_password: str = secret_text()
    tls_min_version: str = choice("tls1.2", *TLS_VERSIONS)
    server_hostname: str = text()  # default: the host part of the address
    deflate: bool = switch(False)
    deflate_level: int = integer(6, 1, 9)
    snappy: bool = switch(False)
    auth_secret: str = secret_text()
    lookupd_authorization: bool = switch(True)

    # What nsqd does for us
    sample_rate: int = integer(0, 0, 99)
    output_buffer_size: int = integer(16_384, 0, off=OFF)
    output_buffer_timeout: float = seconds(0.25, 0.0, off=OFF)
    msg_timeout: float = seconds(0.0, 0.0)  # 0: nsqd's own

    # Discovery
    lookupd_poll_interval: float = seconds(MINUTE_S, 0.01, 5 * MINUTE_S)
    lookupd_poll_jitter: float = fraction(0.3)
    lookupd_poll_timeout: float = seconds(MINUTE_S, 0.001)

    # Consumers
    max_in_flight: int = integer(1)
    concurrency: int = integer(0)  # handlers at a time; 0: max_in_flight, or the threads of a small pool
    max_attempts: int = integer(5, 0, 65_535)
    default_requeue_delay: float = seconds(90.0, 0.0, HOUR_S)
    max_requeue_delay: float = seconds(15 * MINUTE_S, 0.0, HOUR_S)
    backoff_strategy: BackoffStrategy = dataclasses.field(
        default="exponential", metadata=converted_by(_strategy)
    )
    backoff_multiplier: float = seconds(1.0, 0.0, HOUR_S)
    max_backoff_duration: float = seconds(2 * MINUTE_S, 0.0, HOUR_S)
    backoff_on_requeue: bool = switch(True)
    backoff_on_late_answer: bool = switch(False)
    low_rdy_idle_timeout: float = seconds(10.0, 1.0, 5 * MINUTE_S)
    low_rdy_timeout: float = seconds(30.0, 1.0, 5 * MINUTE_S)
    rdy_redistribute_interval: float = seconds(5.0, 0.001, 5.0)
    auto_touch: bool = switch(False)
    drain: str = choice("requeue", "requeue", "process")
    stop_timeout: float = seconds(30.0, 0.0)

    # Producers
    max_publish_in_flight: int = integer(10_000, 1)
    max_publish_bytes: int = integer(64 * 1024 * 1024, 1)
    publish_timeout: float = seconds(30.0, 0.001)

    # Reconnecting
    reconnect_min_delay: float = seconds(0.25, 0.001, HOUR_S)
    reconnect_max_delay: float = seconds(MINUTE_S, 0.001, HOUR_S)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            self._convert(field)
        if not self.hostname:
            object.__setattr__(self, "hostname", socket.gethostname())
        if not self.client_id:
            object.__setattr__(self, "client_id", self.hostname.partition(".")[0])
        self._check_combinations()

    def _convert(self, field: dataclasses.Field[Any]) -> None:
        value = getattr(self, field.name)
        try:
            converted = convert_of(field)(value)
        except (TypeError, ValueError) as error:
            shown = value if field.repr else "***"
            raise InvalidArgumentError(field.name, shown, str(error)) from None
        object.__setattr__(self, field.name, converted)

    def _check_combinations(self) -> None:
        if self.snappy and self.deflate:
            raise InvalidArgumentError("snappy", True, "cannot be combined with deflate")
        if self.heartbeat_interval > self.read_timeout:
            raise InvalidArgumentError(
                "heartbeat_interval", self.heartbeat_interval, f"exceeds read_timeout={self.read_timeout:g}"
            )
        if self.tls_key and not self.tls_cert:
            raise InvalidArgumentError("tls_key", self.tls_key, "needs tls_cert")
        if self.reconnect_min_delay > self.reconnect_max_delay:
            raise InvalidArgumentError(
                "reconnect_min_delay", self.reconnect_min_delay, "exceeds reconnect_max_delay"
            )

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> Self:
        """Options by name, with `-` or `_`; values may be text. Unknown names are refused."""
        known = {field.name for field in dataclasses.fields(cls)}
        fields: dict[str, Any] = {}
        for option, value in options.items():
            name = option.replace("-", "_")
            name = _OTHER_NAMES.get(name, name)
            if name not in known:
                raise InvalidArgumentError(option, "", "no such option")
            if name in fields:
                raise InvalidArgumentError(option, "", "given twice")
            fields[name] = value
        return cls(**fields)

    def replace(self, **options: Any) -> Self:
        """A copy with other options, checked again."""
        return dataclasses.replace(self, **options)
