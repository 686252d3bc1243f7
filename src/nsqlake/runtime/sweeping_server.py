"""What the connections of one listener share: the sweep for deadlines, and the end."""

import asyncio
from typing import Protocol

__all__ = ["Connection", "SweepingServer"]

SWEEP_S = 1.0
MAX_STEP_S = (
    2 * SWEEP_S
)  # after a stall of the loop, what waits in the sockets is read before anybody is late


class Connection(Protocol):
    """What the server does with its connections."""

    def check(self, now_s: float) -> None:
        """End whatever takes too long."""

    def finish(self) -> None:
        """Close once what is at hand is answered."""

    def drop(self) -> None:
        """Close at once."""


class SweepingServer:
    """A connection adds itself when it is made and discards itself when it is lost."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.is_closing = False
        self.now_s = 0.0  # grows by sweeps
        self._timer: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self._all_gone = asyncio.Event()

    def add(self, connection: Connection) -> None:
        self.connections.add(connection)
        if self._timer is None:
            self.tick()
            self._arm()

    def discard(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._all_gone.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def tick(self) -> None:
        """Called before every sweep, and when the first connection comes."""

    def sweep(self, elapsed_s: float) -> None:
        """Look at every connection, `elapsed_s` after the last time."""
        self.now_s += elapsed_s
        self.tick()
        for connection in list(self.connections):
            connection.check(self.now_s)

    async def close(self, limit_s: float) -> None:
        """Let what is at hand be answered, for up to `limit_s`, and close every connection."""
        self.is_closing = True
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            self._all_gone.clear()
            try:
                async with asyncio.timeout(limit_s):
                    await self._all_gone.wait()
            except TimeoutError:
                for connection in list(self.connections):
                    connection.drop()
                await asyncio.sleep(0)

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._swept_at = loop.time()
        self._timer = loop.call_later(SWEEP_S, self._sweep_on_time)

    def _sweep_on_time(self) -> None:
        elapsed_s = asyncio.get_running_loop().time() - self._swept_at
        self._arm()
        self.sweep(min(elapsed_s, MAX_STEP_S))
