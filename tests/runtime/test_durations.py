import pytest

from nsqlake.runtime.durations import HOUR_NS, MINUTE_NS, SECOND_NS, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("1h30m5.5s", HOUR_NS + 30 * MINUTE_NS + 5_500_000_000),
        ("0", 0),
        ("-0", 0),
        ("+3ns", 3),
        ("-1s", -SECOND_NS),
        (".5s", 500_000_000),
        ("1.s", SECOND_NS),
        ("1.9ns", 1),
        ("7us", 7_000),
        ("7\N{MICRO SIGN}s", 7_000),
        ("7\N{GREEK SMALL LETTER MU}s", 7_000),
        ("250ms", 250_000_000),
        ("1s1s", 2 * SECOND_NS),
        ("-2562047h47m16.854775808s", -(2**63)),
    ],
)
def test_durations_are_read_as_nanoseconds(text: str, expected_ns: int) -> None:
    assert parse_duration(text) == expected_ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("60", 'time: missing unit in duration "60"'),
        ("1s2", 'time: missing unit in duration "1s2"'),
        ("1.5.5s", 'time: missing unit in duration "1.5.5s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1s ", 'time: unknown unit "s " in duration "1s "'),
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("abc", 'time: invalid duration "abc"'),
        ("\N{ARABIC-INDIC DIGIT ONE}s", 'time: invalid duration "\N{ARABIC-INDIC DIGIT ONE}s"'),
        ("2562047h47m16.854775808s", 'time: invalid duration "2562047h47m16.854775808s"'),
    ],
)
def test_what_is_no_duration_is_refused_in_gos_words(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)

    assert str(caught.value) == reason


def test_an_endless_number_is_refused_without_being_computed() -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration("9" * 100_000 + "s")


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5\N{MICRO SIGN}s"),
        (100_000, "100\N{MICRO SIGN}s"),
        (25_000_000, "25ms"),
        (1_000_000_001, "1.000000001s"),
        (60 * SECOND_NS, "1m0s"),
        (HOUR_NS, "1h0m0s"),
        (-5_500_000_000, "-5.5s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text
    assert parse_duration(text) == duration_ns
