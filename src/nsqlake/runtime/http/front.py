"""The HTTP and HTTPS listeners of a daemon, and what serves their connections."""

import asyncio
from collections.abc import Callable

from nsqlake.runtime.http.request import Request
from nsqlake.runtime.http.response import Response
from nsqlake.runtime.http.router import Router
from nsqlake.runtime.http.server import HttpServer
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.runtime.listeners import Listener
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder

__all__ = ["Gate", "HttpFront"]

Gate = Callable[[Request], Response | None]


class HttpFront:
    """Bound when it is made, serving from `start` to `close`. A port is 0 where nothing listens."""

    def __init__(
        self,
        http_address: str,
        https_address: str,
        *,
        tasks: TaskSupervisor,
        tls: TlsContextHolder | None,
        budget: InputBudget,
        limit: int,
        gate: Callable[[int], Gate | None] = lambda _: None,
    ) -> None:
        """HTTPS needs `tls`; `gate` makes that of plain HTTP, from the port of HTTPS.

        StartupError when an address cannot be had.
        """
        self._tasks, self._tls, self._budget, self._gate = tasks, tls, budget, gate
        self._servers: dict[str, HttpServer] = {}
        self._listeners: dict[str, Listener] = {}
        try:
            if http_address:
                self._bind("HTTP", http_address, limit)
            if https_address and tls is not None:
                self._bind("HTTPS", https_address, limit)
        except BaseException:
            self.stop_accepting()
            raise

    @property
    def http_port(self) -> int:
        return self._port("HTTP")

    @property
    def https_port(self) -> int:
        return self._port("HTTPS")

    @property
    def http_address(self) -> str:
        """`host:port`, or the path of the unix socket; "" where nothing listens."""
        listener = self._listeners.get("HTTP")
        return listener.local_address if listener else ""

    def connection_counts(self) -> dict[bool, int]:
        """By whether they are through TLS."""
        return {name == "HTTPS": listener.open_count for name, listener in self._listeners.items()}

    def open_counts(self) -> dict[str, int]:
        """Connections now, by listener."""
        return {name.lower(): listener.open_count for name, listener in self._listeners.items()}

    def accepted_counts(self) -> dict[str, int]:
        """Connections since the start, by listener."""
        return {name.lower(): listener.accepted_count for name, listener in self._listeners.items()}

    def start(self, router: Router) -> None:
        """Begin to accept, on the running loop."""
        for name, listener in self._listeners.items():
            is_secure = name == "HTTPS"
            self._servers[name] = HttpServer(
                router,
                tasks=self._tasks,
                name=name,
                gate=None if is_secure else self._gate(self.https_port),
                tls=self._tls if is_secure else None,
                budget=self._budget,
            )
            listener.start()

    def stop_accepting(self) -> None:
        for listener in self._listeners.values():
            listener.close()

    async def close(self, limit_s: float) -> None:
        """Let the requests at hand be answered, for up to `limit_s`, then close every connection."""
        self.stop_accepting()
        await asyncio.gather(*(server.close(limit_s) for server in self._servers.values()))

    def _bind(self, name: str, address: str, limit: int) -> None:
        def new_connection(on_closed: Callable[[], None]) -> asyncio.BaseProtocol:
            return self._servers[name].protocol_factory(on_closed)

        self._listeners[name] = Listener(name, address, new_connection, supervisor=self._tasks, limit=limit)

    def _port(self, name: str) -> int:
        listener = self._listeners.get(name)
        return listener.port if listener else 0
