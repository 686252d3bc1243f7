"""The configuration of a tool's consumer or producer: its flags, and what the tool decides itself."""

from nsqlake.apps.tool_support.client_options import ClientOptions
from nsqlake.apps.tool_support.program import user_agent
from nsqlake.client.config import OFF, ClientConfig
from nsqlake.runtime.durations import SECOND_NS, format_duration
from nsqlake.runtime.errors import ConfigurationError

_OUR_NAMES = {
    "skip_lookupd_authorization": "lookupd_authorization"
}  # NSQ's name says the opposite of what it does
_OUR_VALUES: dict[tuple[str, object], object] = {
    ("tls_min_version", "ssl3.0"): "tls1.0"
}  # the oldest there is
_NEGATIVE_IS_OFF = ("heartbeat_interval", "output_buffer_timeout")


def consumer_config(
    options: ClientOptions, *, tool_name: str, max_in_flight: int, **decided: object
) -> ClientConfig:
    """ConfigurationError or InvalidArgumentError when they do not fit together; `decided` wins."""
    if max_in_flight < 0:
        text = f"invalid MaxInFlight ! {max_in_flight} < 0"
        raise ConfigurationError("max-in-flight", max_in_flight, text)
    return _config(options, user_agent=user_agent(tool_name), max_in_flight=max_in_flight, **decided)


def producer_config(options: ClientOptions, *, tool_name: str, **decided: object) -> ClientConfig:
    return _config(options, user_agent=user_agent(tool_name), **decided)


def _config(options: ClientOptions, **decided: object) -> ClientConfig:
    given = dict(options)
    _check_heartbeat(given)
    renamed = {_OUR_NAMES.get(name, name): _our_value(name, value) for name, value in given.items()}
    return ClientConfig.from_mapping({**renamed, **decided})


def _our_value(name: str, value: object) -> object:
    if name in _NEGATIVE_IS_OFF and isinstance(value, float) and value < 0:
        return OFF
    return _OUR_VALUES.get((name, value), value)


def _check_heartbeat(given: dict[str, object]) -> None:
    heartbeat_s = given.get("heartbeat_interval", ClientConfig.heartbeat_interval)
    limit_s = given.get("read_timeout", ClientConfig.read_timeout)
    assert isinstance(heartbeat_s, float)
    assert isinstance(limit_s, float)
    if heartbeat_s > limit_s:
        heartbeat, limit = (format_duration(round(s * SECOND_NS)) for s in (heartbeat_s, limit_s))
        text = f"HeartbeatInterval {heartbeat} must be less than ReadTimeout {limit}"
        raise ConfigurationError("heartbeat_interval", heartbeat, text)
