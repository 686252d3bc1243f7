"""The command itself: what it asks, what it prints, how it ends."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nsqlake.apps.nsq_stat.options import NsqStatOptions, check
from nsqlake.apps.tool_support.program import FAILED, OK, Tool, run_tool
from nsqlake.runtime.durations import SECOND_NS

if TYPE_CHECKING:
    from nsqlake.apps.nsq_stat.polling import ChannelPoll
    from nsqlake.cluster.http_caller import HttpCaller

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool(TOOL, argv)


async def run(options: NsqStatOptions) -> int:
    # Imported late: help, version and a wrong flag must not wait for it.
    from nsqlake.cluster.http_caller import HttpCaller

    caller = HttpCaller(
        connect_timeout_s=options.http_client_connect_timeout_ns / SECOND_NS,
        request_timeout_s=options.http_client_request_timeout_ns / SECOND_NS,
    )
    try:
        async with caller:
            await _until_signal(_report_channel(options, caller))
    except BrokenPipeError:  # whoever read the table has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return OK


async def _report_channel(options: NsqStatOptions, caller: "HttpCaller") -> None:
    from nsqlake.apps.nsq_stat.reporting import report
    from nsqlake.apps.nsq_stat.table import Table

    await report(
        _poll(options, caller).read,
        Table(interval_ns=options.interval_ns, is_coloured=_wants_colours()),
        row_count=options.count,
        write_line=partial(print, flush=True),
        wait_interval=partial(asyncio.sleep, options.interval_ns / SECOND_NS),
    )


def _poll(options: NsqStatOptions, caller: "HttpCaller") -> "ChannelPoll":
    from nsqlake.apps.nsq_stat.polling import ChannelPoll
    from nsqlake.cluster.lookupd_client import LookupdClient
    from nsqlake.cluster.nsqd_client import NsqdClient

    return ChannelPoll(
        options.topic,
        options.channel,
        caller,
        lookupds=[LookupdClient(address, caller) for address in options.lookupd_http_addresses],
        nsqds=[NsqdClient(address, caller) for address in options.nsqd_http_addresses],
    )


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Whatever it is doing, a signal ends it at once."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        task.cancel()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _wants_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


TOOL = Tool(
    name="nsq_stat",
    summary="Prints a row of figures of one channel again and again, summed over all nodes that have it.",
    examples=(
        "nsq_stat --topic=orders --channel=archive --lookupd-http-address=127.0.0.1:4161",
        "nsq_stat --topic=orders --channel=archive --nsqd-http-address=127.0.0.1:4151 --count=10",
    ),
    options_type=NsqStatOptions,
    check=check,
    run=run,
)
