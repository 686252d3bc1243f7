from datetime import datetime, timedelta, timezone

import pytest

from nsqlake.apps.nsq_to_file.files.datetime_format import format_datetime

EVENING = datetime(2026, 11, 15, 18, 54, 3, tzinfo=timezone(timedelta(hours=-5), "EST"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%Y %y", "2026 26"),
        ("%m %B %b", "11 November Nov"),
        ("%d", "15"),
        ("%H %I %p", "18 06 PM"),
        ("%M %S", "54 03"),
        ("%A %a", "Sunday Sun"),
        ("%Z %z", "EST -0500"),
        ("%%", "%"),
        ("%Y-%m-%d_%H", "2026-11-15_18"),
    ],
)
def test_every_code_that_nsq_knows(text: str, expected: str) -> None:
    assert format_datetime(text, EVENING) == expected


@pytest.mark.parametrize("text", ["%j-%e-x%", "%", "%é", "plain", ""])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert format_datetime(text, EVENING) == text


@pytest.mark.parametrize("text", ["2006", "15", "Jan", "Monday", "MST", "2006-01-02T15:04:05"])
def test_what_looks_like_gos_reference_date_is_plain_text(text: str) -> None:
    assert format_datetime(text, EVENING) == text


def test_a_doubled_percent_sign_takes_part_in_no_other_code() -> None:
    assert format_datetime("%%Y%%%Y", EVENING) == "%Y%2026"


def test_midnight_and_noon() -> None:
    midnight, noon = EVENING.replace(hour=0), EVENING.replace(hour=12)

    assert [format_datetime("%I%p", moment) for moment in (midnight, noon)] == ["12AM", "12PM"]
