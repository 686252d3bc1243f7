"""Checks of topic and channel names on the command line."""

import os

from nsqlake.runtime.errors import ConfigurationError
from nsqlake.wire.names import is_valid_name


def is_name(text: str) -> bool:
    return is_valid_name(os.fsencode(text))


def check_consumed(topic: str, channel: str) -> None:
    """What the Go client says of a name that it cannot subscribe to."""
    if not is_name(topic):
        raise ConfigurationError("topic", topic, "invalid topic name")
    if not is_name(channel):
        raise ConfigurationError("channel", channel, "invalid channel name")
