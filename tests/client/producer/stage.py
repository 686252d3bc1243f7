"""A producer before scripted nsqds, with time that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from nsqlake.client.errors import PublishError
from nsqlake.client.producer import Producer
from tests.client.support import run_on
from tests.fakes.loop_turns import next_turn, wait_until
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import Answer, ScriptedConnection, ScriptedNsqd

SILENT: dict[str, Answer | list[Answer]] = {"PUB": None, "MPUB": None, "DPUB": None}
TURNS = 20

Script = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """One producer and its nsqds."""

    def __init__(self, producer: Producer, timers: MovedTimers, nsqds: list[ScriptedNsqd]) -> None:
        self.producer, self.timers, self.nsqds = producer, timers, nsqds

    @property
    def nsqd(self) -> ScriptedNsqd:
        return self.nsqds[0]

    async def connection(self, nsqd: int = 0, number: int = 0) -> ScriptedConnection:
        return await self.nsqds[nsqd].ready_connection(number)

    async def wait_connected(self, count: int) -> None:
        await wait_until(lambda: self.connected == count)

    @property
    def connected(self) -> int:
        return sum(node.state == "connected" for node in self.producer.stats().nodes)

    def publish(self, body: bytes = b"body", **options: Any) -> asyncio.Task[None]:
        """Somebody who publishes and waits."""
        return asyncio.create_task(self.producer.publish("orders", body, **options))

    async def sent(self, *bodies: bytes, nsqd: int = 0, number: int = 0) -> ScriptedConnection:
        """Until this connection has got exactly these publishes."""
        connection = await self.connection(nsqd, number)
        await connection.wait_command("PUB", len(bodies))
        assert published(connection) == list(bodies)
        return connection


def published(connection: ScriptedConnection) -> list[bytes]:
    return [command.body for command in connection.commands if command.name == "PUB"]


def received(nsqd: ScriptedNsqd) -> list[bytes]:
    return [body for connection in nsqd.connections for body in published(connection)]


async def settle() -> None:
    """Let everything happen that needs no time to pass and nothing from elsewhere."""
    for _ in range(TURNS):
        await next_turn()


async def failure(publish: "asyncio.Future[None]") -> PublishError:
    """What it raised."""
    await asyncio.wait([publish], timeout=10)
    error = publish.exception()
    assert isinstance(error, PublishError)
    return error


@asynccontextmanager
async def staged(
    *, nsqds: int = 1, answers: Mapping[str, Answer | list[Answer]] | None = None, **options: Any
) -> AsyncIterator[Stage]:
    """A producer that is connected to all its nsqds."""
    timers = MovedTimers()
    servers = [ScriptedNsqd(answers=answers) for _ in range(nsqds)]
    for server in servers:
        await server.__aenter__()
    producer = Producer([server.address for server in servers], timers=timers, **options)
    try:
        await producer.start()
        stage = Stage(producer, timers, servers)
        await stage.wait_connected(nsqds)
        yield stage
    finally:
        closing = asyncio.create_task(producer.close())
        await settle()
        timers.advance(60)
        await closing
        for server in servers:
            await server.__aexit__()


def play(script: Script, **options: Any) -> None:
    """Run `script` with a staged producer, on both kinds of loops; nothing may go unhandled."""

    async def run() -> None:
        async with staged(**options) as stage:
            await script(stage)

    for loop in ("asyncio", "uvloop"):
        run_on(loop, run())
