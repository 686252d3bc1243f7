import datetime

import pytest

from nsqlake.runtime.option_kinds import BOOL, DURATION, FLOAT, FLOAT_LIST, INT, STRING, STRING_LIST, Kind
from tests.runtime.sample_options import COLOUR, SWITCH


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (DURATION, "30s", 30_000_000_000),
        (DURATION, 30_000, 30_000_000_000),
        (INT, 12, 12),
        (INT, "12", 12),
        (BOOL, False, False),
        (BOOL, "T", True),
        (STRING, "x", "x"),
        (STRING_LIST, ["a", "b"], ("a", "b")),
        (STRING_LIST, "a:1, b:2,", ("a:1", "b:2")),
        (STRING_LIST, [], ()),
        (FLOAT, 1, 1.0),
        (FLOAT_LIST, [0.5, 0.9, 1], (0.5, 0.9, 1.0)),
        (FLOAT_LIST, "0.5, 0.9", (0.5, 0.9)),
        (COLOUR, "BLUE", 2),
        (SWITCH, True, 2),
        (SWITCH, "Half", 1),
    ],
)
def test_toml_values_become_option_values(kind: Kind, given: object, expected: object) -> None:
    assert kind.coerce(given) == expected


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        (DURATION, "30", 'time: missing unit in duration "30"'),
        (DURATION, 1.5, "invalid time.Duration value type float64"),
        (DURATION, True, "invalid time.Duration value type bool"),
        (DURATION, 2**60, "value out of range"),
        (INT, 1.5, "invalid int64 value type float64"),
        (INT, True, "invalid int64 value type bool"),
        (INT, "0x10", 'strconv.ParseInt: parsing "0x10": invalid syntax'),
        (INT, "9" * 20, f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
        (INT, 2**63, "value out of range"),
        (INT, datetime.date(2026, 1, 1), "invalid int64 value type time.Time"),
        (BOOL, "no", 'strconv.ParseBool: parsing "no": invalid syntax'),
        (BOOL, 1, "invalid bool value type int64"),
        (STRING, 5, "invalid string value type int64"),
        (STRING_LIST, 5, "invalid []string value type int64"),
        (STRING_LIST, [5], "invalid string value type int64"),
        (FLOAT, "1", "invalid float64 value type string"),
        (FLOAT_LIST, 1.5, "invalid []float64 value type float64"),
        (FLOAT_LIST, [True], "invalid float64 value type bool"),
        (FLOAT_LIST, "0.9,x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        (COLOUR, "green", 'unknown value "green"'),
        (COLOUR, True, "invalid red|blue value type bool"),
        (SWITCH, 1, "invalid true|false|half value type int64"),
    ],
)
def test_toml_values_of_the_wrong_kind_are_refused(kind: Kind, given: object, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.coerce(given)

    assert str(caught.value) == reason


@pytest.mark.parametrize("text", ["", "abc", "1_0", " 1", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_float_flag_takes_plain_ascii_numbers_only(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        FLOAT_LIST.parse(f"0.5,{text}")

    assert str(caught.value) == text


def test_a_single_float_is_refused_as_go_refuses_it() -> None:
    assert FLOAT.parse("0.25") == 0.25
    with pytest.raises(ValueError, match="parse error"):
        FLOAT.parse("0,25")


def test_values_are_shown_as_they_are_written() -> None:
    assert DURATION.show(60_000_000_000) == "1m0s"
    assert BOOL.show(True) == "true"
    assert COLOUR.show(2) == "blue"
    assert STRING_LIST.show(()) == "[]"
