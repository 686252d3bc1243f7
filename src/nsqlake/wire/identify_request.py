"""The body of IDENTIFY, decoded.

It is read as Go reads JSON into a structure: keys match in any case, later duplicates win, null
changes nothing, unknown keys are skipped, integers must be written as integers.
"""

import json
import re
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from nsqlake.wire.errors import ClientError

MAX_JSON_TOKENS: Final = 10_000  # five megabytes of "[[],[]," would take a hundred as objects

_LONGEST_INTEGER: Final = len("-9223372036854775808")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class IdentifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an IDENTIFY body; 0, false and "" stand for absent ones."""

    client_id: str = ""
    hostname: str = ""
    user_agent: str = ""
    feature_negotiation: bool = False
    heartbeat_interval_ms: int = 0
    output_buffer_size: int = 0
    output_buffer_timeout_ms: int = 0
    sample_rate: int = 0
    msg_timeout_ms: int = 0
    tls_v1: bool = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = 0
    topology_region: str = ""
    topology_zone: str = ""


class _Object(list[tuple[str, object]]):
    """The members of a JSON object in the order written, duplicates included."""


def decode_identify(body: bytes) -> IdentifyRequest:
    """The request in `body`; raises ClientError for anything Go's decoder would refuse."""
    try:
        document = _parse_json(body)
        if document is None:
            return IdentifyRequest()
        if not isinstance(document, _Object):
            raise TypeError
        return IdentifyRequest(**_known_fields(document))  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        raise ClientError("E_BAD_BODY", "IDENTIFY failed to decode JSON body") from None


def _parse_json(body: bytes) -> object:
    if len(body) > MAX_JSON_TOKENS and sum(map(body.count, (b",", b":", b"[", b"{"))) > MAX_JSON_TOKENS:
        raise ValueError
    document: object = json.loads(
        # Bytes that are not UTF-8 are welcome inside strings; `_as_text` replaces them.
        body.decode("utf-8", "surrogateescape"),
        object_pairs_hook=_Object,
        parse_int=_integer,
        parse_float=_keep_literal,
        parse_constant=_refuse_constant,
    )
    return document


class _Literal(str):
    """A number that no field can take, kept as written."""


def _keep_literal(literal: str) -> _Literal:
    return _Literal(literal)


def _integer(literal: str) -> int | _Literal:
    return int(literal) if len(literal) <= _LONGEST_INTEGER else _Literal(literal)


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError


def _known_fields(document: _Object) -> dict[str, str | bool | int]:
    fields: dict[str, str | bool | int] = {}
    for key, value in document:
        # Only ASCII letters, the long s and the Kelvin sign fold into ASCII in Go; lower() knows the last.
        known = _FIELDS.get(key.lower().replace("ſ", "s"))
        if known is not None and value is not None:
            name, convert = known
            fields[name] = convert(value)
    return fields


def _as_text(value: object) -> str:
    if type(value) is not str:
        raise TypeError
    return _SURROGATE.sub("\ufffd", value)


def _as_bool(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def _as_int64(value: object, bits: int = 64) -> int:
    if type(value) is not int:
        raise TypeError
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def _as_int32(value: object) -> int:
    return _as_int64(value, 32)


_FIELDS: Final[dict[str, tuple[str, Callable[[object], str | bool | int]]]] = {
    "client_id": ("client_id", _as_text),
    "hostname": ("hostname", _as_text),
    "user_agent": ("user_agent", _as_text),
    "feature_negotiation": ("feature_negotiation", _as_bool),
    "heartbeat_interval": ("heartbeat_interval_ms", _as_int64),
    "output_buffer_size": ("output_buffer_size", _as_int64),
    "output_buffer_timeout": ("output_buffer_timeout_ms", _as_int64),
    "sample_rate": ("sample_rate", _as_int32),
    "msg_timeout": ("msg_timeout_ms", _as_int64),
    "tls_v1": ("tls_v1", _as_bool),
    "snappy": ("snappy", _as_bool),
    "deflate": ("deflate", _as_bool),
    "deflate_level": ("deflate_level", _as_int64),
    "topology_region": ("topology_region", _as_text),
    "topology_zone": ("topology_zone", _as_text),
}
