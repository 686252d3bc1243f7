"""wrk's report, and what makes its figures worthless."""

import pytest

from bench.load.errors import LoadError
from bench.load.wrk import parse_report

REPORT = """\
Running 3s test @ http://127.0.0.1:4151/pub?topic=bench
  2 threads and 20 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   409.57us  247.61us   9.59ms   95.73%
    Req/Sec    24.87k     1.94k   28.13k    70.49%
  Latency Distribution
     50%  371.00us
     99%    1.42ms
  150905 requests in 3.05s, 26.77MB read
{faults}Requests/sec:  49490.52
Transfer/sec:      8.78MB
"""


def test_rate_and_latency_are_found() -> None:
    report = parse_report(REPORT.format(faults=""), 1.5)

    assert (report.requests_per_second, report.p99_ms, report.cpu_seconds) == (49490.52, 1.42, 1.5)


@pytest.mark.parametrize(
    "fault",
    ["  Non-2xx or 3xx responses: 3\n", "  Socket errors: connect 0, read 5, write 0, timeout 0\n"],
)
def test_a_run_with_errors_has_no_figures(fault: str) -> None:
    with pytest.raises(LoadError, match=fault.strip()):
        parse_report(REPORT.format(faults=fault))


def test_a_report_without_a_rate_is_refused() -> None:
    with pytest.raises(LoadError, match="no rate"):
        parse_report("unable to connect")
