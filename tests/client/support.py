"""What the tests of connections share: both event loops, and a connection to a scripted nsqd."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from nsqlake.client.config import ClientConfig
from nsqlake.client.connection import Connection, connect
from nsqlake.runtime.timers import Timers
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.recording_listener import RecordingListener
from tests.fakes.scripted_nsqd import ScriptedConnection, ScriptedNsqd

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
SUBSCRIPTION = ("orders", "archive")


def run_on(loop: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it; what the loop could only have logged fails the test."""
    unhandled: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        result = runner.run(coroutine)
    assert unhandled == []
    return result


class Dialogue:
    """One connection seen from both ends, with time that stands still."""

    def __init__(
        self,
        connection: Connection,
        nsqd: ScriptedConnection,
        listener: RecordingListener,
        timers: MovedTimers,
    ) -> None:
        self.connection, self.nsqd, self.listener, self.timers = connection, nsqd, listener, timers


async def begin(
    nsqd: ScriptedNsqd,
    *,
    listener: RecordingListener | None = None,
    subscription: tuple[str, str] | None = SUBSCRIPTION,
    **options: Any,
) -> Dialogue:
    listener, timers = listener or RecordingListener(), MovedTimers()
    connection = await open_connection(nsqd.address, listener, timers, subscription, **options)
    return Dialogue(connection, await nsqd.connection(len(nsqd.connections) - 1), listener, timers)


async def open_connection(
    address: str,
    listener: RecordingListener | None = None,
    timers: Timers | None = None,
    subscription: tuple[str, str] | None = None,
    **options: Any,
) -> Connection:
    return await connect(
        address,
        ClientConfig(**options),
        listener=listener or RecordingListener(),
        timers=timers or MovedTimers(),
        subscription=subscription,
    )
