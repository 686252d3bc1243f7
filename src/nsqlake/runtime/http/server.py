"""What the connections of one HTTP or HTTPS listener share: routes, limits, and the sweep for deadlines."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from nsqlake.runtime.http.connection import HttpConnection
from nsqlake.runtime.http.encoding import ResponseEncoder
from nsqlake.runtime.http.head import HeadParser
from nsqlake.runtime.http.limits import HttpLimits
from nsqlake.runtime.http.request import Request
from nsqlake.runtime.http.response import Response
from nsqlake.runtime.http.router import Router
from nsqlake.runtime.http.tls_protocol import TlsProtocol
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder

__all__ = ["HttpServer"]

SWEEP_S = 1.0
MAX_STEP_S = (
    2 * SWEEP_S
)  # after a stall of the loop, what waits in the sockets is read before anybody is late


class Connection(Protocol):
    """What the server does with its connections."""

    def check(self, now_s: float) -> None:
        """End whatever takes too long."""

    def finish(self) -> None:
        """Close once the request at hand is answered."""

    def drop(self) -> None:
        """Close at once."""


class InputBudget(Protocol):
    """A limit on unfinished requests of all connections together."""

    def note(self, connection: object, held_bytes: int) -> bool: ...

    def release(self, connection: object) -> None: ...


class HttpServer:
    """Serves `router`; `gate` may answer any request before its handler does."""

    def __init__(
        self,
        router: Router,
        *,
        tasks: TaskSupervisor,
        name: str = "HTTP",
        limits: HttpLimits | None = None,
        gate: Callable[[Request], Response | None] | None = None,
        tls: TlsContextHolder | None = None,
        budget: InputBudget | None = None,
    ) -> None:
        self.name, self.tasks, self.gate, self.budget = name, tasks, gate, budget
        self.limits = limits or HttpLimits()
        self.heads = HeadParser(router, self.limits)
        self.encoder = ResponseEncoder()
        self.connections: set[Connection] = set()
        self.is_closing = False
        self.now_s = 0.0  # grows by sweeps
        self._tls = tls
        self._timer: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self._all_gone = asyncio.Event()

    def protocol_factory(self, on_closed: Callable[[], None]) -> asyncio.BaseProtocol:
        """For a `Listener`."""
        connection = HttpConnection(self, on_closed)
        if self._tls is None:
            return connection
        return TlsProtocol(self, self._tls.current.new_layer(), connection, on_closed)

    def add(self, connection: Connection) -> None:
        self.connections.add(connection)
        if self._timer is None:
            self.encoder.tick()
            self._arm()

    def discard(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._all_gone.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def sweep(self, elapsed_s: float) -> None:
        """Look at every connection, `elapsed_s` after the last time."""
        self.now_s += elapsed_s
        self.encoder.tick()
        for connection in list(self.connections):
            connection.check(self.now_s)

    async def close(self, limit_s: float) -> None:
        """Let the requests at hand be answered, for up to `limit_s`, and close every connection."""
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
