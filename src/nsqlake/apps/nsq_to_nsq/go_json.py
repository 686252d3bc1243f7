"""JSON as Go's encoder and decoder see it: all numbers are 64-bit floats, keys are sorted, `<>&` escaped."""

import codecs
import json
import math
import re
from decimal import Decimal

INT64_LIMIT = 2.0**63
LEAST_PLAIN, MOST_PLAIN = 1e-6, 1e21  # outside, Go writes an exponent
TOO_DEEP = "nested too deeply"

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_TO_ESCAPE = re.compile("[" + "".join(_ESCAPES) + "]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACE_EACH_BYTE = "nsqlake.replace_each_byte"


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\N{REPLACEMENT CHARACTER}" * (error.end - error.start), error.end


codecs.register_error(_REPLACE_EACH_BYTE, _replace_each_byte)


class NotJsonObjectError(ValueError):
    """The text is not an object in JSON; the message says why."""


def decode_object(body: bytes) -> dict[str, object]:
    """NotJsonObjectError for anything but an object; `null` is an empty one."""
    try:
        value = json.loads(
            body.decode("utf-8", _REPLACE_EACH_BYTE),
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse,
        )
    except RecursionError:
        raise NotJsonObjectError(TOO_DEEP) from None
    except ValueError as error:
        raise NotJsonObjectError(str(error)) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotJsonObjectError(f"a JSON {_KINDS.get(type(value), 'value')}, not an object")
    return value


_KINDS = {list: "array", str: "string", float: "number", bool: "boolean"}


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number beyond 64-bit floats")
    return value


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def encode_object(value: dict[str, object]) -> bytes:
    """Numbers directly in `value` that are whole are written as integers, digit for digit."""
    try:
        parts = [f"{_string(key)}:{_member(value[key])}" for key in sorted(value)]
    except RecursionError:
        raise NotJsonObjectError(TOO_DEEP) from None
    return ("{" + ",".join(parts) + "}").encode()


def _member(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and -INT64_LIMIT <= value < INT64_LIMIT:
        return str(int(value))
    return _encode(value)


def _encode(value: object) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_string(key)}:{_encode(value[key])}" for key in sorted(value)) + "}"
        case list():
            return "[" + ",".join([_encode(item) for item in value]) + "]"
        case str():
            return _string(value)
        case bool():
            return "true" if value else "false"
        case float():
            return go_json_number(value)
    return "null"


def go_json_number(value: float) -> str:
    """Shortest digits; an exponent only for the very small and the very large."""
    if value and not LEAST_PLAIN <= abs(value) < MOST_PLAIN:
        return repr(value).replace("e-0", "e-")
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def _string(text: str) -> str:
    quoted = json.dumps(_LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text), ensure_ascii=False)
    return _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], quoted)
