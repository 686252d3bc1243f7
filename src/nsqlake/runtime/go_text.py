"""How Go prints and reads the values that appear in NSQ's messages: quoting, numbers, type names."""

import datetime
import math
import re
from collections.abc import Mapping

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_INTEGER_DIGITS = 100  # an int64 needs 64 in base 2; keeps int() cheap on hostile text

TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "false", "FALSE", "False"})

_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip
_PREFIXED_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[bB](?P<bin>(?:_?[01])+)"
    r"|0[oO]?(?P<oct>(?:_?[0-7])+)|(?P<dec>0|[1-9](?:_?[0-9])*))"
)
_DECIMAL_INTEGER = re.compile(r"[+-]?[0-9]+")
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}


class IntegerRangeError(ValueError):
    """The text is an integer, but not one of 64 bits."""


def parse_prefixed_integer(text: str) -> int:
    """An int64 written as on a Go command line: `16`, `0x10`, `0o20`, `020`, `1_000`."""
    match = _PREFIXED_INTEGER.fullmatch(text)
    if match is None:
        raise ValueError("invalid syntax")
    group = str(match.lastgroup)
    return _int64(match["sign"], match[group].replace("_", ""), _BASES[group])


def parse_decimal_integer(text: str) -> int:
    """An int64 in plain decimal, as in a string of a config file."""
    if _DECIMAL_INTEGER.fullmatch(text) is None:
        raise ValueError("invalid syntax")
    return _int64(text[0] if text[0] in "+-" else "", text.lstrip("+-"), 10)


def _int64(sign: str, digits: str, base: int) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) <= MAX_INTEGER_DIGITS:
        value = int(sign + significant, base)
        if INT64_MIN <= value <= INT64_MAX:
            return value
    raise IntegerRangeError("value out of range")


def parse_bool(text: str) -> bool:
    if text in TRUE_WORDS:
        return True
    if text in FALSE_WORDS:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {go_quote(text)}: invalid syntax")


def go_quote(text: str) -> str:
    """`text` as Go's %q prints it; bytes of the command line that are not UTF-8 become \\xNN."""
    return '"' + "".join(_quoted_character(character) for character in text) + '"'


def _quoted_character(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if 0xDC80 <= code <= 0xDCFF:  # a raw byte, kept by the surrogateescape handler
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def go_float(value: float) -> str:
    """`value` as Go's %v prints it: shortest digits, an exponent only outside 1e-4 .. 1e21."""
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def go_value(value: object) -> str:
    """A value of a config file as Go's %v prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case list() | tuple():
            return "[" + " ".join(go_value(item) for item in value) + "]"
        case Mapping():
            items = sorted((str(key), go_value(item)) for key, item in value.items())
            return "map[" + " ".join(f"{key}:{item}" for key, item in items) + "]"
        case _:
            return str(value)


def go_type(value: object) -> str:
    """The Go type that NSQ's TOML reader would give `value`."""
    names = (
        (bool, "bool"),
        (int, "int64"),
        (float, "float64"),
        (str, "string"),
        (list, "[]interface {}"),
        (dict, "map[string]interface {}"),
        ((datetime.date, datetime.time), "time.Time"),
    )
    return next((name for types, name in names if isinstance(value, types)), type(value).__name__)
