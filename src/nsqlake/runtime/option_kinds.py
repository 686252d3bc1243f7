"""The kinds of options: how each is read from a flag, from TOML, and how it is printed.

`parse` reads the text of one flag, `coerce` the value of a TOML key; both raise ValueError with the reason.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from nsqlake.runtime import go_text
from nsqlake.runtime.durations import MILLISECOND_NS, format_duration, parse_duration
from nsqlake.runtime.go_text import INT64_MAX, INT64_MIN, go_quote, go_type, go_value

T = TypeVar("T")


class Kind(Protocol):
    """What the flag parser, the TOML reader and the help text ask of a kind."""

    @property
    def word(self) -> str:
        """The type as the help text names it."""

    @property
    def is_boolean(self) -> bool:
        """Whether the flag may stand alone and never takes the next argument as its value."""

    @property
    def is_enum(self) -> bool:
        """Whether NSQ reports a bad TOML value in the short form `failed parsing <key> <value>`."""

    def parse(self, text: str) -> object: ...

    def repeat(self, earlier: Any, later: Any) -> object:
        """The value of a flag given again: the last one wins, lists grow."""

    def coerce(self, value: object) -> object: ...

    def show(self, value: object) -> str:
        """`value` as a default in help and messages."""


class _Scalar:
    word = "string"
    is_boolean = False
    is_enum = False

    def repeat(self, earlier: Any, later: Any) -> object:
        return later

    def show(self, value: object) -> str:
        return go_value(value)


class StringKind(_Scalar):
    def parse(self, text: str) -> str:
        return text

    def coerce(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"invalid string value type {go_type(value)}")
        return value


class BoolKind(_Scalar):
    word = "bool"
    is_boolean = True

    def parse(self, text: str) -> bool:
        try:
            return go_text.parse_bool(text)
        except ValueError:
            raise ValueError("parse error") from None

    def coerce(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            return go_text.parse_bool(value)
        # NSQ reads integers inverted; refusing them cannot surprise anybody.
        raise ValueError(f"invalid bool value type {go_type(value)}")


class IntKind(_Scalar):
    word = "int"

    def parse(self, text: str) -> int:
        try:
            return go_text.parse_prefixed_integer(text)
        except go_text.IntegerRangeError:
            raise
        except ValueError:
            raise ValueError("parse error") from None

    def coerce(self, value: object) -> int:
        if isinstance(value, str):
            try:
                return go_text.parse_decimal_integer(value)
            except ValueError as error:
                raise ValueError(f"strconv.ParseInt: parsing {go_quote(value)}: {error}") from None
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"invalid int64 value type {go_type(value)}")
        return _within_int64(value)


class DurationKind(_Scalar):
    word = "duration"

    def parse(self, text: str) -> int:
        try:
            return parse_duration(text)
        except ValueError:
            raise ValueError("parse error") from None

    def coerce(self, value: object) -> int:
        if isinstance(value, str):
            return parse_duration(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"invalid time.Duration value type {go_type(value)}")
        return _within_int64(value * MILLISECOND_NS)

    def show(self, value: object) -> str:
        assert isinstance(value, int)
        return format_duration(value)


class StringListKind(_Scalar):
    word = "list"

    def parse(self, text: str) -> tuple[str, ...]:
        return (text,)

    def repeat(self, earlier: tuple[str, ...], later: tuple[str, ...]) -> tuple[str, ...]:
        return earlier + later

    def coerce(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(item.strip() for item in value.split(",") if item.strip())
        if isinstance(value, list):
            return tuple(STRING.coerce(item) for item in value)
        raise ValueError(f"invalid []string value type {go_type(value)}")


class NotAFloatError(ValueError):
    """The text that should have been a float is the message."""


class FloatKind(_Scalar):
    word = "float"

    def parse(self, text: str) -> float:
        try:
            return _float(text)
        except NotAFloatError:
            raise ValueError("parse error") from None

    def coerce(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"invalid float64 value type {go_type(value)}")
        return float(value)


class FloatListKind(_Scalar):
    word = "float list"

    def parse(self, text: str) -> tuple[float, ...]:
        return self.repeat((), tuple(_float(item) for item in text.split(",")))

    def repeat(self, earlier: tuple[float, ...], later: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(earlier + later, reverse=True))

    def coerce(self, value: object) -> tuple[float, ...]:
        if isinstance(value, str):
            return tuple(self._coerce_item(item.strip()) for item in value.split(",") if item.strip())
        if isinstance(value, list):
            return tuple(self._coerce_item(item) for item in value)
        raise ValueError(f"invalid []float64 value type {go_type(value)}")

    def _coerce_item(self, item: object) -> float:
        if isinstance(item, str):
            try:
                return _float(item)
            except NotAFloatError:
                raise ValueError(f"strconv.ParseFloat: parsing {go_quote(item)}: invalid syntax") from None
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise ValueError(f"invalid float64 value type {go_type(item)}")
        return float(item)


class ChoiceKind(_Scalar, Generic[T]):
    """One of a few words in any case; a boolean choice also stands alone as `--flag` for `true`."""

    is_enum = True

    def __init__(
        self,
        word: str,
        choices: Mapping[str, T],
        *,
        is_boolean: bool = False,
        error: Callable[[str], str] = lambda text: f"unknown value {go_quote(text)}",
    ) -> None:
        self.word, self.choices, self.is_boolean, self._error = word, choices, is_boolean, error

    def parse(self, text: str) -> T:
        try:
            return self.choices[text.lower()]
        except KeyError:
            raise ValueError(self._error(text)) from None

    def coerce(self, value: object) -> T:
        if isinstance(value, str) or (self.is_boolean and isinstance(value, bool)):
            return self.parse(go_value(value))
        raise ValueError(f"invalid {self.word} value type {go_type(value)}")

    def show(self, value: object) -> str:
        return next(name for name, choice in self.choices.items() if choice == value and name)


STRING = StringKind()
BOOL = BoolKind()
INT = IntKind()
DURATION = DurationKind()
STRING_LIST = StringListKind()
FLOAT = FloatKind()
FLOAT_LIST = FloatListKind()


def _within_int64(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError("value out of range")
    return value


def _float(text: str) -> float:
    # float() alone would also take other scripts' digits, underscores and spaces.
    if not text.isascii() or "_" in text or text != text.strip():
        raise NotAFloatError(text)
    try:
        return float(text)
    except ValueError:
        raise NotAFloatError(text) from None
