import pytest

from nsqlake.apps.tool_support.status_report import StatusReport, percentile


@pytest.mark.parametrize(
    ("percent", "count", "expected"), [(99, 10, 9), (95, 250, 238), (99, 250, 248), (50, 4, 3), (99, 1, 0)]
)
def test_the_percentile_is_the_value_at_nsqs_index(percent: float, count: int, expected: int) -> None:
    assert percentile(range(count), percent) == expected


def test_a_report_comes_when_the_ring_wraps() -> None:
    report = StatusReport(10, ["a"])

    events = [number for number in range(1, 26) if report.add(0.001, "a")]

    assert events == [11, 21]


def test_a_report_shows_percentiles_and_average_in_milliseconds() -> None:
    report = StatusReport(4, ["a"])
    for duration_s in (9.0, 0.002, 0.004, 0.006):
        report.add(duration_s)

    assert report.add(0.008) == ["[aggregate]: finished 4 - 99th: 8.00ms - 95th: 8.00ms - avg: 5.00ms"]


def test_several_addresses_have_rings_of_their_own() -> None:
    report = StatusReport(1, ["a", "b", "b"])
    report.add(0.001, "a")

    lines = [line.split(" finished")[0] for line in report.add(0.001, "a")]

    assert lines == ["[a]:", "[aggregate]:"]
    assert len(report.warnings) == 3


@pytest.mark.parametrize("every", [0, -5])
def test_a_ring_of_nothing_reports_nothing(every: int) -> None:
    report = StatusReport(every, ["a", "b"])

    assert [report.add(0.001, "a") for _ in range(3)] == [[], [], []]
    assert report.warnings == []


def test_a_small_ring_is_warned_about() -> None:
    text = "Warning: use more than 100 status values for accurate percentiles (configured with 99)"

    assert StatusReport(99, ["a"]).warnings == [text]
    assert StatusReport(100, ["a"]).warnings == []
