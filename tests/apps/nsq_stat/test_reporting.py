import asyncio
from itertools import count

import pytest

from nsqlake.apps.nsq_stat.reporting import report
from nsqlake.apps.nsq_stat.table import HEADER, Table
from nsqlake.cluster.nsqd_answers import ChannelStats
from nsqlake.runtime.durations import SECOND_NS


class Channel:
    """Gets ten messages in each interval."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._numbers = count()

    async def read(self) -> ChannelStats:
        self.events.append("read")
        return ChannelStats(message_count=10 * next(self._numbers))

    async def wait(self) -> None:
        self.events.append("wait")

    def run(self, row_count: int | None) -> list[str]:
        lines: list[str] = []

        def write(line: str) -> None:
            lines.append(line)
            self.events.append("header" if line in HEADER else "row")

        table = Table(interval_ns=SECOND_NS)
        asyncio.run(report(self.read, table, row_count=row_count, write_line=write, wait_interval=self.wait))
        return lines


def test_first_poll_gives_only_the_header_and_every_one_is_followed_by_a_wait() -> None:
    channel = Channel()

    channel.run(2)

    rows = ["read", "row", "wait"]
    assert channel.events == ["read", "header", "header", "wait", *rows, *rows]


def test_each_row_compares_with_the_one_before() -> None:
    rows = Channel().run(3)[2:]

    assert [row.split()[:2] for row in rows] == [["10", "10"]] * 3


@pytest.mark.parametrize(("row_count", "headers"), [(1, 1), (24, 1), (25, 2), (49, 2), (50, 3)])
def test_header_comes_again_every_25_polls(row_count: int, headers: int) -> None:
    lines = Channel().run(row_count)

    assert lines.count(HEADER[0]) == lines.count(HEADER[1]) == headers
    assert len(lines) == row_count + 2 * headers


def test_header_stands_before_the_row_of_the_same_poll() -> None:
    lines = Channel().run(26)

    assert lines[26:28] == list(HEADER)
    assert len(lines[28:]) == 2
