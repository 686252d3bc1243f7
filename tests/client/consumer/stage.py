"""A consumer before scripted nsqds, with time that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message, Requeue
from tests.fakes.loop_turns import next_turn, wait_until
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import ScriptedConnection, ScriptedNsqd

TURNS = 20
LIMIT_S = 10.0

Handler = Callable[[Any], Awaitable[object] | object]


async def by_body(message: Message) -> None:
    """What transcripts call good and bad messages."""
    if message.body == b"bad":
        raise ValueError("bad")
    if message.body == b"requeue":
        raise Requeue(backoff=False)


async def settle() -> None:
    """Let everything happen that needs no time to pass and nothing from elsewhere."""
    for _ in range(TURNS):
        await next_turn()


class Stage:
    """One consumer and its nsqds."""

    def __init__(self, consumer: Consumer, timers: MovedTimers, nsqds: list[ScriptedNsqd]) -> None:
        self.consumer, self.timers, self.nsqds = consumer, timers, nsqds

    @property
    def nsqd(self) -> ScriptedNsqd:
        return self.nsqds[0]

    async def connection(self, nsqd: int = 0, number: int = 0) -> ScriptedConnection:
        return await self.nsqds[nsqd].ready_connection(number, after="SUB")

    def advance(self, elapsed_s: float) -> None:
        self.timers.advance(elapsed_s)

    async def wait_rdy(self, *counts: int) -> None:
        """Until the nsqds were told these counts last."""
        await wait_until(lambda: [last_rdy(nsqd) for nsqd in self.nsqds] == list(counts))


def last_rdy(nsqd: ScriptedNsqd) -> int:
    counts = [command.params[0] for command in nsqd.commands if command.name == "RDY"]
    return int(counts[-1]) if counts else 0


@asynccontextmanager
async def staged(
    handler: Handler | None = by_body,
    *,
    nsqds: int = 1,
    identify: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    """A consumer that is connected to all its nsqds; what is still held at the end is given back."""
    timers = MovedTimers()
    servers = [ScriptedNsqd(identify=identify) for _ in range(nsqds)]
    options.setdefault("max_in_flight", 5)
    for server in servers:
        await server.__aenter__()
    consumer = Consumer(
        "orders",
        "archive",
        handler,
        nsqd_tcp_addresses=[s.address for s in servers],
        timers=timers,
        **options,
    )
    try:
        await consumer.start()
        await wait_until(lambda: consumer.stats().connections == nsqds)
        yield Stage(consumer, timers, servers)
    finally:
        consumer.stop_now()
        await ended(consumer, timers)
        for server in servers:
            await server.__aexit__(None, None, None)


async def ended(consumer: Consumer, timers: MovedTimers) -> None:
    """A consumer that is stopping, stopped."""
    async with asyncio.timeout(LIMIT_S):
        while not consumer.is_stopped:
            await settle()
            timers.advance(0.5)


def run(scenario: Awaitable[None]) -> None:
    """What the loop could only have logged fails the test."""
    unhandled: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with asyncio.timeout(LIMIT_S):
            await scenario

    asyncio.run(watched())
    assert unhandled == []
