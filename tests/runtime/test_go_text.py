import datetime

import pytest

from nsqlake.runtime.go_text import (
    IntegerRangeError,
    go_float,
    go_quote,
    go_type,
    go_value,
    parse_bool,
    parse_decimal_integer,
    parse_prefixed_integer,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-5", -5),
        ("+5", 5),
        ("0x10", 16),
        ("0X_1f", 31),
        ("0o17", 15),
        ("0b11", 3),
        ("010", 8),
        ("0_7", 7),
        ("1_000", 1000),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("-0x8000000000000000", -(2**63)),
    ],
)
def test_integers_of_the_command_line_may_have_a_base_and_underscores(text: str, value: int) -> None:
    assert parse_prefixed_integer(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "abc", "_1", "1_", "1__0", "0x", "08", "0_8", " 1", "1.5", "\N{ARABIC-INDIC DIGIT ONE}", "1\n"],
)
def test_what_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_prefixed_integer(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "0x8fffffffffffffff", "9" * 100_000])
def test_integers_beyond_64_bits_are_out_of_range(text: str) -> None:
    with pytest.raises(IntegerRangeError, match="value out of range"):
        parse_prefixed_integer(text)


def test_decimal_integers_take_no_prefix_and_no_underscores() -> None:
    assert parse_decimal_integer("+010") == 10
    assert parse_decimal_integer("-7") == -7
    for text in ("0x10", "1_0", "", "1 "):
        with pytest.raises(ValueError, match="invalid syntax"):
            parse_decimal_integer(text)


def test_only_gos_words_are_booleans() -> None:
    assert all(parse_bool(word) for word in ("1", "t", "T", "true", "TRUE", "True"))
    assert not any(parse_bool(word) for word in ("0", "f", "F", "false", "FALSE", "False"))
    for word in ("no", "yes", "tRUE", ""):
        with pytest.raises(ValueError, match=r"strconv\.ParseBool: parsing"):
            parse_bool(word)


def test_quoting_escapes_what_is_not_printable() -> None:
    assert go_quote('a"b\nc\\') == '"a\\"b\\nc\\\\"'
    assert go_quote("\x01\x7f\xe9\u2028\U000e0001") == '"\\x01\\x7f\xe9\\u2028\\U000e0001"'
    assert go_quote(b"\xff".decode(errors="surrogateescape")) == '"\\xff"'


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.5, "1.5"), (2.0, "2"), (0.0, "0"), (1e20, "1" + "0" * 20), (1e21, "1e+21"), (1e-7, "1e-07"),
     (float("nan"), "NaN"), (float("inf"), "+Inf"), (float("-inf"), "-Inf")],
)  # fmt: skip
def test_floats_are_printed_as_go_prints_them(value: float, text: str) -> None:
    assert go_float(value) == text


def test_toml_values_have_gos_notation_and_type_names() -> None:
    assert go_value({"b": [True, 1, "x"], "a": 1.0}) == "map[a:1 b:[true 1 x]]"
    assert [go_type(value) for value in (True, 1, 1.0, "x", [], {}, datetime.date(2026, 1, 1))] == [
        "bool", "int64", "float64", "string", "[]interface {}", "map[string]interface {}", "time.Time",
    ]  # fmt: skip
