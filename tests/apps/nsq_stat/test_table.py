import re

import pytest

from nsqlake.apps.nsq_stat.table import HEADER, Table
from nsqlake.cluster.nsqd_answers import ChannelStats
from nsqlake.runtime.durations import MILLISECOND_NS, SECOND_NS


def rates(interval_ns: int, before: ChannelStats, now: ChannelStats) -> list[int]:
    row = Table(interval_ns=interval_ns).row(before, now)
    return [int(word) for word in row.split("|")[0].split()]


def test_row_stands_under_its_header() -> None:
    """As the reference prints it."""
    stats = ChannelStats(depth=65, deferred_count=1, message_count=66)

    row = Table(interval_ns=SECOND_NS).row(stats, stats)

    assert (
        row == "      0       0 |      65      65       0     0     1 |       0       0           66       0"
    )
    assert {len(line) for line in HEADER} == {len(row)}


def test_every_figure_has_its_column() -> None:
    stats = ChannelStats(
        depth=30,
        backend_depth=10,
        in_flight_count=4,
        deferred_count=5,
        requeue_count=6,
        timeout_count=7,
        message_count=8,
        client_count=9,
    )

    row = Table(interval_ns=SECOND_NS).row(stats, stats)

    assert row.replace("|", "").split() == ["0", "0", "30", "20", "10", "4", "5", "6", "7", "8", "9"]


def test_rates_are_per_second() -> None:
    before, now = ChannelStats(message_count=100, depth=10), ChannelStats(message_count=160, depth=30)

    assert rates(2 * SECOND_NS, before, now) == [30, 20]
    assert rates(100 * MILLISECOND_NS, before, now) == [600, 400]


@pytest.mark.parametrize(("change", "rate"), [(3, 1), (-3, -1), (1, 0), (-1, 0)])
def test_rates_are_cut_towards_zero(change: int, rate: int) -> None:
    before = ChannelStats(message_count=100)

    assert rates(2 * SECOND_NS, before, ChannelStats(message_count=100 + change)) == [rate, rate]


def test_what_was_emptied_is_a_negative_ingress_or_a_positive_egress() -> None:
    assert rates(SECOND_NS, ChannelStats(depth=5), ChannelStats(depth=15)) == [0, -10]
    assert rates(SECOND_NS, ChannelStats(depth=5), ChannelStats()) == [0, 5]


def test_figures_too_wide_for_their_column_push_the_others() -> None:
    stats = ChannelStats(depth=123_456_789)

    assert " |  123456789 123456789       0" not in Table(interval_ns=SECOND_NS).row(stats, stats)
    assert " | 123456789 123456789       0" in Table(interval_ns=SECOND_NS).row(stats, stats)


def test_colours_do_not_change_the_text() -> None:
    before = ChannelStats()
    now = ChannelStats(message_count=10, depth=3, requeue_count=1, timeout_count=2)
    plain = Table(interval_ns=SECOND_NS)
    coloured = Table(interval_ns=SECOND_NS, is_coloured=True)
    plain_lines = [*plain.header(), plain.row(before, now)]
    coloured_lines = [*coloured.header(), coloured.row(before, now)]

    assert not set(plain_lines) & set(coloured_lines)
    assert [re.sub(r"\x1b\[[0-9]*m", "", line) for line in coloured_lines] == plain_lines
    assert plain.row(now, now) == coloured.row(now, now)
