"""A scripted nsqd on a loop in a thread of its own, for clients that block."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from tests.fakes.scripted_nsqd import Answer, ScriptedConnection, ScriptedNsqd

LIMIT_S = 10.0
SILENT: dict[str, Answer | list[Answer]] = {"PUB": None, "MPUB": None, "DPUB": None}

T = TypeVar("T")


class ScriptedThread:
    """Touch the nsqd through `call` only."""

    def __init__(self, answers: Mapping[str, Answer | list[Answer]] | None, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="scripted nsqd", daemon=True)
        self._answers, self._options = answers, options

    def start(self) -> None:
        self._thread.start()
        self.nsqd: ScriptedNsqd = self.call(self._open)
        self.address = self.nsqd.address

    async def _open(self) -> ScriptedNsqd:
        return await ScriptedNsqd(answers=self._answers, **self._options).__aenter__()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(LIMIT_S)

    def wait_published(self, count: int, number: int = 0) -> ScriptedConnection:
        """The connection, when it has sent so many publishes."""

        async def wait() -> ScriptedConnection:
            connection = await self.nsqd.connection(number)
            await connection.wait_command("PUB", count)
            return connection

        return self.call(wait)

    def send(self, *frames: bytes, number: int = 0) -> None:
        async def send() -> None:
            (await self.nsqd.connection(number)).send_raw(b"".join(frames))

        self.call(send)

    def published(self) -> list[list[bytes]]:
        """The bodies that each connection has sent, in its order."""

        async def look() -> list[list[bytes]]:
            return [
                [command.body for command in connection.commands if command.name == "PUB"]
                for connection in self.nsqd.connections
            ]

        return self.call(look)

    def stop(self) -> None:
        self.call(self.nsqd.__aexit__)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()


@contextmanager
def scripted(
    answers: Mapping[str, Answer | list[Answer]] | None = None, **options: Any
) -> Iterator[ScriptedThread]:
    thread = ScriptedThread(answers, **options)
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
