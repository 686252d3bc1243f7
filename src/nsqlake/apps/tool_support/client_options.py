"""`--consumer-opt=key,value` and `--producer-opt=key,value`: the names, limits and texts of NSQ's Go client.

A value becomes what `ClientConfig` takes: durations are seconds, everything else as it is written.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nsqlake.apps.tool_support import client_option_values as values
from nsqlake.runtime.durations import (
    HOUR_NS,
    MILLISECOND_NS,
    MINUTE_NS,
    SECOND_NS,
    format_duration,
    parse_duration,
)
from nsqlake.runtime.go_text import go_float, go_value, parse_bool

ClientOptions = tuple[tuple[str, object], ...]


class _CannotCoerceError(ValueError):
    """The text is no value of the option's type."""


@dataclass(frozen=True)
class _Type:
    """`read` raises _CannotCoerceError for a text of another type, ValueError for one that is refused."""

    read: Callable[[str], object]
    show: Callable[[object], str] = str
    takes_bare_key: bool = False


@dataclass(frozen=True)
class _ClientOption:
    type: _Type
    least: float | None = None
    most: float | None = None

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int | float):
            return
        for limit, sign, is_beyond in (
            (self.least, "<", self.least is not None and value < self.least),
            (self.most, ">", self.most is not None and value > self.most),
        ):
            if is_beyond:
                raise ValueError(f"invalid {name} ! {self.type.show(value)} {sign} {self.type.show(limit)}")


def parse_client_option(text: str) -> tuple[str, object]:
    """Name, with `_` for `-`, and value of `key,value`; `key` alone is true. ValueError in Go's words."""
    key, comma, value_text = text.partition(",")
    name = key.replace("-", "_")
    option = CLIENT_OPTIONS.get(name)
    if option is None:
        raise ValueError(f"invalid option {key}")
    if not comma:
        return name, _bare_value(name, option)
    try:
        value = option.type.read(value_text)
    except _CannotCoerceError as error:
        raise ValueError(f"failed to coerce option {name} ({value_text}) - {error}") from None
    option.check(name, value)
    return name, _in_seconds(value) if option.type is _DURATION else value


def _bare_value(name: str, option: _ClientOption) -> object:
    if not option.type.takes_bare_key:
        raise ValueError(f"failed to coerce option {name} (true) - invalid value type")
    return True if option.type is _BOOL else "true"


def _in_seconds(value: object) -> float:
    assert isinstance(value, int)
    return value / SECOND_NS


def _coerced(read: Callable[[str], object]) -> Callable[[str], object]:
    def reading(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise _CannotCoerceError(str(error)) from None

    return reading


def _show_duration(value: object) -> str:
    assert isinstance(value, int | float)
    return format_duration(int(value))


def _show_float(value: object) -> str:
    assert isinstance(value, int | float)
    return go_float(value)


_DURATION = _Type(_coerced(parse_duration), _show_duration)
_INTEGER = _Type(_coerced(values.read_integer), go_value)
_BOOL = _Type(_coerced(parse_bool), takes_bare_key=True)
_TEXT = _Type(str, takes_bare_key=True)


def _duration(least_ns: int | None = None, most_ns: int | None = None) -> _ClientOption:
    return _ClientOption(_DURATION, least_ns, most_ns)


CLIENT_OPTIONS = {
    "dial_timeout": _duration(),
    "read_timeout": _duration(100 * MILLISECOND_NS, 5 * MINUTE_NS),
    "write_timeout": _duration(100 * MILLISECOND_NS, 5 * MINUTE_NS),
    "local_addr": _ClientOption(_Type(_coerced(values.read_local_address))),
    "lookupd_poll_interval": _duration(10 * MILLISECOND_NS, 5 * MINUTE_NS),
    "lookupd_poll_jitter": _ClientOption(_Type(_coerced(values.read_fraction), _show_float), 0, 1),
    "lookupd_poll_timeout": _duration(),
    "max_requeue_delay": _duration(0, HOUR_NS),
    "default_requeue_delay": _duration(0, HOUR_NS),
    "backoff_strategy": _ClientOption(_Type(_coerced(values.read_backoff_strategy))),
    "max_backoff_duration": _duration(0, HOUR_NS),
    "backoff_multiplier": _duration(0, HOUR_NS),
    "max_attempts": _ClientOption(_Type(_coerced(values.read_attempts)), 0, values.UINT16_COUNT - 1),
    "low_rdy_idle_timeout": _duration(SECOND_NS, 5 * MINUTE_NS),
    "low_rdy_timeout": _duration(SECOND_NS, 5 * MINUTE_NS),
    "rdy_redistribute_interval": _duration(MILLISECOND_NS, 5 * SECOND_NS),
    "client_id": _ClientOption(_TEXT),
    "hostname": _ClientOption(_TEXT),
    "user_agent": _ClientOption(_TEXT),
    "heartbeat_interval": _duration(),
    "sample_rate": _ClientOption(_INTEGER, 0, 99),
    "tls_v1": _ClientOption(_BOOL),
    "tls_root_ca_file": _ClientOption(_Type(values.read_trust_file)),
    "tls_cert": _ClientOption(_Type(values.read_file_path)),
    "tls_key": _ClientOption(_Type(values.read_file_path)),
    "tls_insecure_skip_verify": _ClientOption(_BOOL),
    "tls_min_version": _ClientOption(_Type(values.read_tls_version)),
    "deflate": _ClientOption(_BOOL),
    "deflate_level": _ClientOption(_INTEGER, 1, 9),
    "snappy": _ClientOption(_BOOL),
    "output_buffer_size": _ClientOption(_INTEGER),
    "output_buffer_timeout": _duration(),
    "max_in_flight": _ClientOption(_INTEGER, 0),
    "msg_timeout": _duration(0),
    "auth_secret": _ClientOption(_TEXT),
    "skip_lookupd_authorization": _ClientOption(_BOOL),
}  # fmt: skip
