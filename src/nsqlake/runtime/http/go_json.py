"""JSON as Go writes it: compact, `<`, `>`, `&` escaped, other UTF-8 as it is, whole floats without `.0`."""

import re

import msgspec

__all__ = ["encode_json"]

# A string is replaced by itself, so that only what is outside of strings changes.
_STRING = rb'("(?:[^"\\]|\\.)*")'
_MAYBE_WHOLE_FLOAT = re.compile(rb"\.0(?:[,\]}]|\Z)")
_WHOLE_FLOAT = re.compile(_STRING + rb"|\.0(?=[,\]}]|\Z)")
_MAYBE_EXPONENT = re.compile(rb"[0-9]e-?[0-9]")
_EXPONENT = re.compile(_STRING + rb"|(-?[0-9.]+)e(-?[0-9]+)")
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_DECIMAL_EXPONENTS = range(-6, 21)  # Go writes these numbers without an exponent


def encode_json(value: object) -> bytes:
    """Fast for what is large: everything is done to the encoded bytes, nothing per value."""
    encoded = msgspec.json.encode(value)
    if _MAYBE_WHOLE_FLOAT.search(encoded):
        encoded = _WHOLE_FLOAT.sub(rb"\1", encoded)
    if _MAYBE_EXPONENT.search(encoded):
        encoded = _EXPONENT.sub(_exponent, encoded)
    for raw, escaped in _ESCAPES:
        encoded = encoded.replace(raw, escaped)
    return encoded


def _exponent(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return match[1]
    mantissa, exponent = match[2], int(match[3])
    if exponent in _DECIMAL_EXPONENTS:
        text = format(float(match[0]), f".{max(0, _decimals(mantissa) - exponent)}f")
        return text.encode()
    return b"%se%s%d" % (mantissa, b"+" if exponent > 0 else b"-", abs(exponent))


def _decimals(mantissa: bytes) -> int:
    return len(mantissa.partition(b".")[2])
