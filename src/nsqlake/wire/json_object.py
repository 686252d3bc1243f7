"""A JSON object as Go reads it into a structure.

Keys match in any case, later duplicates win, null changes nothing, unknown keys are skipped, integers must
be written as integers. Whatever Go's decoder would refuse is a ValueError, a TypeError or a RecursionError.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

__all__ = [
    "MAX_JSON_TOKENS",
    "REFUSALS",
    "Fields",
    "Value",
    "as_bool",
    "as_int32",
    "as_int64",
    "as_text",
    "decode_object",
]

MAX_JSON_TOKENS: Final = 10_000  # five megabytes of "[[],[]," would take a hundred as objects
REFUSALS: Final = (ValueError, TypeError, RecursionError)

_LONGEST_INTEGER: Final = len("-9223372036854775808")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

Value = str | bool | int
Fields = Mapping[str, tuple[str, Callable[[object], Value]]]  # by key: the name of the field, and its type


class _Object(list[tuple[str, object]]):
    """The members of a JSON object in the order written, duplicates included."""


def decode_object(body: bytes, fields: Fields) -> dict[str, Value]:
    """The fields that `body` has, by their names."""
    document = _parse_json(body)
    if document is None:
        return {}
    if not isinstance(document, _Object):
        raise TypeError
    return _known_fields(document, fields)


def _parse_json(body: bytes) -> object:
    if len(body) > MAX_JSON_TOKENS and sum(map(body.count, (b",", b":", b"[", b"{"))) > MAX_JSON_TOKENS:
        raise ValueError
    document: object = json.loads(
        # Bytes that are not UTF-8 are welcome inside strings; `as_text` replaces them.
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


def _known_fields(document: _Object, known_fields: Fields) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    for key, value in document:
        # Only ASCII letters, the long s and the Kelvin sign fold into ASCII in Go; lower() knows the last.
        known = known_fields.get(key.lower().replace("ſ", "s"))
        if known is not None and value is not None:
            name, convert = known
            fields[name] = convert(value)
    return fields


def as_text(value: object) -> str:
    if type(value) is not str:
        raise TypeError
    return _SURROGATE.sub("\ufffd", value)


def as_bool(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def as_int64(value: object, bits: int = 64) -> int:
    if type(value) is not int:
        raise TypeError
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def as_int32(value: object) -> int:
    return as_int64(value, 32)
