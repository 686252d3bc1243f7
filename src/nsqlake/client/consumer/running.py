"""A consumer as the whole program: until a signal comes."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    from nsqlake.client.consumer.consumer import Consumer


def run_until_signal(consumer: Consumer) -> None:
    """The first SIGINT or SIGTERM stops gracefully, a second one at once. Only in the main thread."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(consumer))


async def _serve(consumer: Consumer) -> None:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, _receive, consumer)
    try:
        await consumer.start()
        await consumer.wait_stopped()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _receive(consumer: Consumer) -> None:
    if consumer.is_stopping:
        consumer.stop_now()
    else:
        consumer.request_stop()
