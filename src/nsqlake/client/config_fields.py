"""The kinds of options a client takes: how a value is converted and what it may be."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from nsqlake.runtime.durations import SECOND_NS, parse_duration

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
_KIND: Final = "kind"
_TRUE: Final = frozenset({"1", "t", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "f", "false", "no", "off"})

Convert = Callable[[Any], Any]


def seconds(
    default: float, at_least: float = 0.0, at_most: float = math.inf, *, off: float | None = None
) -> Any:
    """Seconds as a number, a timedelta or text such as "1m30s"; kept as float. `off` is allowed besides."""

    def convert(value: Any) -> float:
        number = _seconds(value)
        if number != off:
            _check_range(number, at_least, at_most, "s")
        return number

    return _field(default, convert)


def integer(default: int, at_least: int = 0, at_most: int | None = None, *, off: int | None = None) -> Any:
    def convert(value: Any) -> int:
        number = _integer(value)
        if number != off:
            _check_range(number, at_least, math.inf if at_most is None else at_most, "")
        return number

    return _field(default, convert)


def fraction(default: float) -> Any:
    def convert(value: Any) -> float:
        number = _number(value)
        _check_range(number, 0.0, 1.0, "")
        return number

    return _field(default, convert)


def switch(default: bool) -> Any:
    return _field(default, _switch)


def text(default: str = "") -> Any:
    return _field(default, _text)


def secret_text() -> Any:
    """Text that no repr and no error shows."""
    return _field("", _text, is_secret=True)


def choice(default: str, *words: str) -> Any:
    def convert(value: Any) -> str:
        word = _text(value)
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return _field(default, convert)


def converted_by(convert: Convert) -> dict[str, Convert]:
    """Metadata of a field with a kind of its own."""
    return {_KIND: convert}


def convert_of(field: dataclasses.Field[Any]) -> Convert:
    convert: Convert = field.metadata[_KIND]
    return convert


def _field(default: object, convert: Convert, *, is_secret: bool = False) -> Any:
    return dataclasses.field(default=default, repr=not is_secret, metadata=converted_by(convert))


def _seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        if value == "-1":  # NSQ's word for off
            return -1.0
        return parse_duration(value) / SECOND_NS
    return _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError("must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


def _integer(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("must be an integer")
    return value


def _switch(value: Any) -> bool:
    if isinstance(value, str):
        word = value.lower()
        if word not in _TRUE | _FALSE:
            raise ValueError("must be true or false")
        return word in _TRUE
    if value not in (0, 1):
        raise TypeError("must be true or false")
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be text")
    return value


def _check_range(number: float, at_least: float, at_most: float, unit: str) -> None:
    if at_least <= number <= at_most:
        return
    if at_most == math.inf:
        raise ValueError(f"must be at least {at_least:g}{unit}")
    raise ValueError(f"must be between {at_least:g}{unit} and {at_most:g}{unit}")
