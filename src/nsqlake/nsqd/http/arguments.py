"""The arguments of requests, checked in NSQ's order and refused with NSQ's codes."""

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.runtime.go_text import parse_decimal_integer
from nsqlake.runtime.http import HttpError, Request
from nsqlake.wire.names import is_valid_name

__all__ = ["channel_names", "find_channel", "find_topic", "flag", "integer", "text", "topic_name"]


def topic_name(request: Request) -> str:
    """A valid name: 400 MISSING_ARG_TOPIC, INVALID_TOPIC."""
    name = text(request, "topic")
    if not is_valid_name(name.encode()):
        raise HttpError(400, "INVALID_TOPIC")
    return name


def channel_names(request: Request) -> tuple[str, str]:
    """Topic and channel: 400 MISSING_ARG_TOPIC, INVALID_ARG_TOPIC, then the same of the channel."""
    topic = text(request, "topic")
    if not is_valid_name(topic.encode()):
        raise HttpError(400, "INVALID_ARG_TOPIC")
    channel = text(request, "channel")
    if not is_valid_name(channel.encode()):
        raise HttpError(400, "INVALID_ARG_CHANNEL")
    return topic, channel


def find_topic(broker: Broker, name: str) -> LiveTopic:
    """404 TOPIC_NOT_FOUND, also while the topic is being deleted."""
    topic = broker.topics.get(name)
    if topic is None or topic.core.is_closed:
        raise HttpError(404, "TOPIC_NOT_FOUND")
    return topic


def find_channel(broker: Broker, request: Request) -> LiveChannel:
    """The channel a request is about, or whatever is wrong with its names; 404 CHANNEL_NOT_FOUND last."""
    topic, name = channel_names(request)
    channel = find_topic(broker, topic).channels.get(name)
    if channel is None or channel.core.is_closed:
        raise HttpError(404, "CHANNEL_NOT_FOUND")
    return channel


def text(request: Request, name: str) -> str:
    """400 MISSING_ARG_<NAME>."""
    return request.argument(name)


def integer(request: Request, name: str, default: int | None = None, *, least: int = 0, most: int) -> int:
    """400 MISSING_ARG_<NAME> unless there is a default, INVALID_ARG_<NAME> for what is out of range."""
    value = request.params.get(name)
    if value is None and default is not None:
        return default
    refusal = HttpError(
        400, f"INVALID_ARG_{name.upper()}", reason=f"{name} must be a whole number from {least} to {most}"
    )
    try:
        number = parse_decimal_integer(text(request, name))
    except ValueError as error:
        raise refusal from error
    if not least <= number <= most:
        raise refusal
    return number


def flag(request: Request, name: str, *, default: bool) -> bool:
    """`true`, `1`, `false` or `0`; anything else is the default, as NSQ takes it."""
    value = request.params.get(name)
    return True if value in ("true", "1") else False if value in ("false", "0") else default
