"""A publish as bytes: what no nsqd would take is refused here, before anything is sent."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from nsqlake.client.errors import InvalidArgumentError
from nsqlake.runtime.durations import SECOND_NS, parse_duration
from nsqlake.wire import commands
from nsqlake.wire.errors import ClientError

Body = bytes | bytearray | memoryview
Delay = float | timedelta | str

MAX_REMEMBERED_TOPICS: Final = 1024
MAX_BODY_BYTES: Final = 2**31 - 1  # NSQ protocol: the size is an int32
MAX_DELAY_MS: Final = (2**63 - 1) // 1_000_000  # nsqd keeps delays as nanoseconds

_SIZE_BYTES: Final = 4
_COUNT_BYTES: Final = 4
_pack_size: Final = struct.Struct(">i").pack


class PublishEncoder:
    """Makes commands; the line of a topic is checked and encoded once."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, bytes] = {}

    def pub(self, topic: str, body: Body) -> bytes:
        line = self._lines.get(topic) if type(topic) is str else None
        if line is None:
            line = self._remember(topic)
        if type(body) is not bytes or not body:
            body = checked_body(body)
        return line + _pack_size(len(body)) + body

    def _remember(self, topic: str) -> bytes:
        line = f"PUB {checked_topic(topic)}\n".encode("ascii")
        if len(self._lines) >= MAX_REMEMBERED_TOPICS:
            self._lines.clear()
        self._lines[topic] = line
        return line

    def mpub(self, topic: str, bodies: Sequence[Body]) -> tuple[bytes, int]:
        """The command and how many messages are in it."""
        line = f"MPUB {checked_topic(topic)}\n".encode("ascii")
        checked = checked_bodies(bodies)
        size = _COUNT_BYTES + sum(map(len, checked)) + _SIZE_BYTES * len(checked)
        if size > MAX_BODY_BYTES:
            raise InvalidArgumentError("bodies", f"{len(checked)} bodies", "are too large together")
        pieces = [line, _pack_size(size), _pack_size(len(checked))]
        for body in checked:
            pieces += (_pack_size(len(body)), body)
        return b"".join(pieces), len(checked)

    def dpub(self, topic: str, delay: Delay, body: Body) -> bytes:
        return commands.dpub(checked_topic(topic), checked_delay_ms(delay), checked_body(body))


def checked_topic(topic: object) -> str:
    if not isinstance(topic, str):
        raise InvalidArgumentError("topic", topic, "must be text")
    try:
        return commands.parse_pub_topic([topic.encode("utf-8", "surrogatepass")])
    except ClientError:
        reason = "must be 1 to 64 characters of .a-zA-Z0-9_- and may end in #ephemeral"
        raise InvalidArgumentError("topic", topic, reason) from None


def checked_body(body: object, argument: str = "body") -> bytes:
    if isinstance(body, str):
        raise InvalidArgumentError(argument, body, "is text; encode it first, as with text_body()")
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidArgumentError(argument, body, "must be bytes")
    data = bytes(body)  # a copy: the caller may change a bytearray while it waits to be sent
    if not data:
        raise InvalidArgumentError(argument, data, "must not be empty")
    if len(data) > MAX_BODY_BYTES:
        raise InvalidArgumentError(argument, data, f"must be at most {MAX_BODY_BYTES} bytes")
    return data


def checked_bodies(bodies: Any) -> list[bytes]:
    if isinstance(bodies, bytes | bytearray | memoryview | str):
        raise InvalidArgumentError("bodies", bodies, "must be several bodies, not one")
    try:
        checked = [checked_body(body, f"bodies[{place}]") for place, body in enumerate(bodies)]
    except TypeError:
        raise InvalidArgumentError("bodies", bodies, "must be several bodies") from None
    if not checked:
        raise InvalidArgumentError("bodies", bodies, "must not be empty")
    return checked


def checked_delay_ms(delay: object) -> int:
    """Whole milliseconds, rounded up: a delay is the least that a message waits."""
    delay_ms = math.ceil(round(_seconds(delay, "delay") * 1000, 6))
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise InvalidArgumentError("delay", delay, "must not be negative, nor longer than nsqd can count")
    return delay_ms


def checked_timeout_s(timeout: object, default_s: float) -> float:
    """The time limit of one call; None stands for the default."""
    if timeout is None:
        return default_s
    timeout_s = _seconds(timeout, "timeout")
    if timeout_s < 0:
        raise InvalidArgumentError("timeout", timeout, "must not be negative")
    return timeout_s


def _seconds(value: object, argument: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        try:
            return parse_duration(value) / SECOND_NS
        except ValueError as error:
            raise InvalidArgumentError(argument, value, str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidArgumentError(argument, value, 'must be seconds, a timedelta or text such as "250ms"')
    return float(value)


def text_body(text: str) -> bytes:
    """`text` as UTF-8."""
    return text.encode("utf-8")


def json_body(value: Any) -> bytes:
    """`value` as compact JSON."""
    return msgspec.json.encode(value)
