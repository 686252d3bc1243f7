"""The loop of `nsq_stat`: poll, print, wait."""

from collections.abc import Awaitable, Callable
from itertools import count

from nsqlake.apps.nsq_stat.table import Table
from nsqlake.cluster.nsqd_answers import ChannelStats

ROWS_PER_HEADER = 25


async def report(
    read: Callable[[], Awaitable[ChannelStats]],
    table: Table,
    *,
    row_count: int | None,
    write_line: Callable[[str], object],
    wait_interval: Callable[[], Awaitable[object]],
) -> None:
    """Write `row_count` rows, or for ever; the first poll gives none, being what the next is compared to."""
    before: ChannelStats | None = None
    for number in count():
        now = await read()
        if number % ROWS_PER_HEADER == 0:
            for line in table.header():
                write_line(line)
        if before is not None:
            write_line(table.row(before, now))
        before = now
        await wait_interval()
        if number == row_count:
            return
