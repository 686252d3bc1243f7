"""The command itself: flags, then from standard input to the nsqds until the end of either."""

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nsqlake.apps.to_nsq.options import ToNsqOptions, check
from nsqlake.apps.to_nsq.records import RecordSplitter
from nsqlake.apps.to_nsq.standard_input import read_chunks
from nsqlake.apps.to_nsq.token_bucket import TokenBucket
from nsqlake.apps.tool_support.program import OK, Tool, run_tool

if TYPE_CHECKING:
    from nsqlake.apps.to_nsq.publishing import Publishing
    from nsqlake.apps.tool_support.progress import Progress

NAME = "to_nsq"

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run to_nsq; returns the exit code of the process."""
    return run_tool(TOOL, argv)


async def run(options: ToNsqOptions) -> int:
    # Imported late: help and a wrong flag must not wait for the client library.
    from nsqlake.apps.to_nsq.publishing import Publishing
    from nsqlake.apps.tool_support.client_configs import producer_config
    from nsqlake.apps.tool_support.progress import Progress
    from nsqlake.apps.tool_support.stop_signals import StopSignals

    config = producer_config(options.producer_opts, tool_name=NAME)
    publishing = Publishing(options.nsqd_tcp_addresses, options.topic, config)
    with StopSignals() as stop:
        async with Progress("published") as progress:
            reading = asyncio.create_task(_publish_input(options, publishing, progress))
            ends = [
                reading,
                *(asyncio.create_task(event.wait()) for event in (stop.requested, publishing.failed)),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in ends:
                task.cancel()
            await asyncio.wait(ends)
            await publishing.close()
            if not reading.cancelled():
                reading.result()
    return OK


async def _publish_input(options: ToNsqOptions, publishing: "Publishing", progress: "Progress") -> None:
    from nsqlake.client.errors import NsqClientError

    splitter = RecordSplitter(options.delimiter_byte)
    throttle = _Throttle(options.rate)
    try:
        async for chunk in read_chunks(sys.stdin.fileno()):
            for record in splitter.feed(chunk):
                await throttle.wait()
                if record:
                    await publishing.publish(record)
                    progress.add(1, len(record))
            await asyncio.sleep(0)  # answers arrive, and what was published goes out
        if last := splitter.end():
            await throttle.wait()
            await publishing.publish(last)
            progress.add(1, len(last))
    except NsqClientError as error:
        publishing.fail(error)


class _Throttle:
    """Waits for a token of the bucket; a rate of 0 or less waits for nothing."""

    def __init__(self, rate: int) -> None:
        self._bucket = TokenBucket(rate, time.monotonic()) if rate > 0 else None
        if rate > 0:
            logger.info("Throttling messages rate to max:%d/second", rate)

    async def wait(self) -> None:
        if self._bucket is not None and (delay_s := self._bucket.take(time.monotonic())):
            await asyncio.sleep(delay_s)


TOOL = Tool(
    name=NAME,
    summary="Publishes standard input, one message per line, and exits when all is acknowledged.",
    examples=(
        "to_nsq --topic=orders --nsqd-tcp-address=127.0.0.1:4150 < orders.txt",
        "tail -F app.log | to_nsq --topic=logs --nsqd-tcp-address=127.0.0.1:4150 --rate=500",
    ),
    options_type=ToNsqOptions,
    check=check,
    run=run,
)
