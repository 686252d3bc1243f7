"""The commands of protocol V2: what each is, how its line is checked, how a client encodes it.

The parsers take the parameters behind the command's name and refuse them in NSQ's order and words.
The encoders refuse what a server with default limits would not even parse, with the same error:
an empty body or a blank in a name would otherwise put the stream out of step.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from nsqlake.wire.errors import ClientError, printable, quoted
from nsqlake.wire.names import is_valid_name

MAGIC_V2: Final = b"  V2"
MESSAGE_ID_BYTES: Final = 16  # NSQ protocol

_SIZE: Final = struct.Struct(">i")
_MAX_SIZE: Final = 2**31 - 1
_MAX_NUMBER: Final = 2**63 - 1


class ClientState(IntEnum):
    """The state of a connection; the number is what /stats shows."""

    INIT = 0
    SUBSCRIBED = 3
    CLOSING = 4


class Command(msgspec.Struct, frozen=True):
    """One row of the protocol's command table; a `body` is described, not named."""

    name: str
    parameters: tuple[str, ...]
    body: str | None
    answer: str | None
    legal: frozenset[ClientState]
    ignored: frozenset[ClientState] = frozenset()


_ALWAYS: Final = frozenset(ClientState)
_INIT: Final = frozenset({ClientState.INIT})
_SUBSCRIBED: Final = frozenset({ClientState.SUBSCRIBED})
_CLOSING: Final = frozenset({ClientState.CLOSING})
_CONSUMING: Final = _SUBSCRIBED | _CLOSING

_TABLE: Final = (
    Command("IDENTIFY", (), "JSON object", "JSON object, or OK without feature negotiation", _INIT),
    Command("AUTH", (), "secret", "JSON object", _INIT),
    Command("SUB", ("topic", "channel"), None, "OK", _INIT),
    Command("PUB", ("topic",), "message", "OK", _ALWAYS),
    Command("MPUB", ("topic",), "message count, then size and bytes of each message", "OK", _ALWAYS),
    Command("DPUB", ("topic", "delay_ms"), "message", "OK", _ALWAYS),
    Command("RDY", ("count = 1",), None, None, _SUBSCRIBED, _CLOSING),
    Command("FIN", ("message_id",), None, None, _CONSUMING),
    Command("REQ", ("message_id", "delay_ms"), None, None, _CONSUMING),
    Command("TOUCH", ("message_id",), None, None, _CONSUMING),
    Command("CLS", (), None, "CLOSE_WAIT", _SUBSCRIBED),
    Command("NOP", (), None, None, _ALWAYS),
)

COMMANDS: Final[Mapping[str, Command]] = {command.name: command for command in _TABLE}


# Refusals ---------------------------------------------------------------------------------------------


def invalid_command(name: bytes) -> ClientError:
    return ClientError("E_INVALID", f"invalid command {printable(name)}")


def wrong_state(name: bytes, *, tls_required: bool = False) -> ClientError:
    reason = " (TLS required)" if tls_required else ""
    return ClientError("E_INVALID", f"cannot {printable(name)} in current state{reason}")


def _too_few(name: str, noun: str = "parameters") -> ClientError:
    return ClientError("E_INVALID", f"{name} insufficient number of {noun}")


# Parsers ----------------------------------------------------------------------------------------------


def parse_base10(digits: bytes) -> int | None:
    """The number that NSQ reads: none is 0, and 64 bits overflow into negative ones. None if not digits."""
    if not digits:
        return 0
    if not digits.isdigit():
        return None
    # 2**64 divides 10**64, so digits further left change nothing.
    number = int(digits[-64:]) % 2**64
    return number if number < 2**63 else number - 2**64


def parse_auth(params: Sequence[bytes]) -> None:
    if params:
        raise ClientError("E_INVALID", "AUTH invalid number of parameters")


def parse_sub(params: Sequence[bytes]) -> tuple[str, str]:
    """Topic and channel."""
    if len(params) < 2:
        raise _too_few("SUB")
    topic = _topic("SUB", params[0])
    channel = params[1]
    if not is_valid_name(channel):
        raise ClientError("E_BAD_CHANNEL", f"SUB channel name {quoted(channel)} is not valid")
    return topic, channel.decode("ascii")


def parse_pub_topic(params: Sequence[bytes]) -> str:
    if not params:
        raise _too_few("PUB")
    return _topic("PUB", params[0])


def parse_mpub_topic(params: Sequence[bytes]) -> str:
    if not params:
        raise _too_few("MPUB")
    # NSQ says the code twice, and clients may have learnt to expect it.
    return _topic("E_BAD_TOPIC MPUB", params[0])


def parse_dpub(params: Sequence[bytes], max_req_timeout_ms: int) -> tuple[str, int]:
    """Topic and delay in milliseconds."""
    if len(params) < 2:
        raise _too_few("DPUB")
    topic = _topic("DPUB", params[0])
    delay_ms = _number("DPUB", "timeout", params[1])
    if not 0 <= delay_ms <= max_req_timeout_ms:
        raise ClientError("E_INVALID", f"DPUB timeout {delay_ms} out of range 0-{max_req_timeout_ms}")
    return topic, delay_ms


def parse_rdy(params: Sequence[bytes], max_rdy_count: int) -> int:
    count = _number("RDY", "count", params[0]) if params else 1
    if not 0 <= count <= max_rdy_count:
        raise ClientError("E_INVALID", f"RDY count {count} out of range 0-{max_rdy_count}")
    return count


def parse_message_id(name: str, params: Sequence[bytes]) -> bytes:
    """The id that `name`, FIN or TOUCH, is about."""
    if not params:
        raise _too_few(name, "params")
    return _message_id(params[0])


def parse_req(params: Sequence[bytes], max_req_timeout_ms: int) -> tuple[bytes, int]:
    """Message id and delay in milliseconds, which is brought into range and never refused for its size."""
    if len(params) < 2:
        raise _too_few("REQ", "params")
    message_id = _message_id(params[0])
    delay_ms = _number("REQ", "timeout", params[1])
    return message_id, min(max(delay_ms, 0), max_req_timeout_ms)


def _topic(name: str, raw: bytes) -> str:
    if not is_valid_name(raw):
        raise ClientError("E_BAD_TOPIC", f"{name} topic name {quoted(raw)} is not valid")
    return raw.decode("ascii")


def _number(name: str, noun: str, raw: bytes) -> int:
    number = parse_base10(raw)
    if number is None:
        raise ClientError("E_INVALID", f"{name} could not parse {noun} {printable(raw)}")
    return number


def _message_id(raw: bytes) -> bytes:
    if len(raw) != MESSAGE_ID_BYTES:
        raise ClientError("E_INVALID", "invalid message ID")
    return raw


# Encoders ---------------------------------------------------------------------------------------------


def identify(fields: Mapping[str, object]) -> bytes:
    return b"IDENTIFY\n" + _sized("E_BAD_BODY", "IDENTIFY invalid", msgspec.json.encode(fields))


def auth(secret: bytes) -> bytes:
    return b"AUTH\n" + _sized("E_BAD_BODY", "AUTH invalid", secret)


def sub(topic: str, channel: str) -> bytes:
    topic, channel = parse_sub([_utf8(topic), _utf8(channel)])
    return f"SUB {topic} {channel}\n".encode("ascii")


def pub(topic: str, body: bytes) -> bytes:
    line = f"PUB {parse_pub_topic([_utf8(topic)])}\n".encode("ascii")
    return line + _sized("E_BAD_MESSAGE", "PUB invalid message", body)


def mpub(topic: str, bodies: Iterable[bytes]) -> bytes:
    line = f"MPUB {parse_mpub_topic([_utf8(topic)])}\n".encode("ascii")
    records = [
        _sized("E_BAD_MESSAGE", f"MPUB invalid message({number})", body) for number, body in enumerate(bodies)
    ]
    if not records:
        raise ClientError("E_BAD_BODY", "MPUB invalid message count 0")
    records.insert(0, _SIZE.pack(len(records)))
    return line + _sized("E_BAD_BODY", "MPUB invalid", b"".join(records))


def dpub(topic: str, delay_ms: int, body: bytes) -> bytes:
    topic, delay_ms = parse_dpub([_utf8(topic), _decimal("DPUB", "timeout", delay_ms)], _MAX_NUMBER)
    line = f"DPUB {topic} {delay_ms}\n".encode("ascii")
    return line + _sized("E_BAD_MESSAGE", "DPUB invalid message", body)


def rdy(count: int) -> bytes:
    return b"RDY %b\n" % _decimal("RDY", "count", count)


def fin(message_id: bytes) -> bytes:
    return b"FIN %b\n" % _one_word(parse_message_id("FIN", [message_id]))


def req(message_id: bytes, delay_ms: int) -> bytes:
    message_id, delay_ms = parse_req([message_id, _decimal("REQ", "timeout", delay_ms)], _MAX_NUMBER)
    return b"REQ %b %d\n" % (_one_word(message_id), delay_ms)


def touch(message_id: bytes) -> bytes:
    return b"TOUCH %b\n" % _one_word(parse_message_id("TOUCH", [message_id]))


def cls() -> bytes:
    return b"CLS\n"


def nop() -> bytes:
    return b"NOP\n"


def _utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _decimal(name: str, noun: str, number: int) -> bytes:
    if not 0 <= number <= _MAX_NUMBER:
        raise ClientError("E_INVALID", f"{name} could not parse {noun} {number}")
    return b"%d" % number


def _one_word(message_id: bytes) -> bytes:
    # An id comes from a server; with a separator in it, it would become another command.
    if b" " in message_id or b"\n" in message_id:
        raise ClientError("E_INVALID", "invalid message ID")
    return message_id


def _sized(code: str, refusal: str, body: bytes) -> bytes:
    if not 0 < len(body) <= _MAX_SIZE:
        raise ClientError(code, f"{refusal} body size {len(body)}")
    return _SIZE.pack(len(body)) + body
