"""Running consumers from the first connection to the last FIN."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps

from nsqlake.apps.tool_support.errors import ToolError
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message, Requeue
from nsqlake.errors import NsqlakeError

Handle = Callable[[Message], Awaitable[None]]

logger = logging.getLogger(__name__)


def requeueing(handle: Handle) -> Handle:
    """`handle` with expected errors as one log line and a requeue with backoff."""

    @wraps(handle)
    async def wrapped(message: Message) -> None:
        try:
            await handle(message)
        except NsqlakeError as error:
            logger.error("Handler returned error (%s) for msg %s", error, message.id.decode())
            raise Requeue from error

    return wrapped


async def consume_until(consumers: Sequence[Consumer], *ends: asyncio.Event, has_nsqds: bool) -> None:
    """Start all, wait for the first of `ends`, stop all.

    An nsqd given by its address must be there at the start, or ConnectError or ToolError says so.
    """
    try:
        for consumer in consumers:
            await consumer.start(wait=has_nsqds)
            if has_nsqds:
                _check_connected(consumer)
        await _first_of(ends)
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))


def _check_connected(consumer: Consumer) -> None:
    for node in consumer.stats().nodes:
        if node.last_error:
            raise ToolError(node.last_error)


async def _first_of(events: Sequence[asyncio.Event]) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
