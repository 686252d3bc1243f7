"""The HTTP and HTTPS listeners of an nsqd, and what serves their connections."""

import asyncio
from collections.abc import Callable

from nsqlake.nsqd.input_budget import InputBudget
from nsqlake.nsqd.option_choices import TLSRequired
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.http import HttpServer, Request, Response, Router
from nsqlake.runtime.http.response import JSON_TYPE
from nsqlake.runtime.listeners import Listener
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder

__all__ = ["HttpFront"]


class HttpFront:
    """Bound when it is made, serving from `start` to `close`. A port is 0 where nothing listens."""

    def __init__(
        self,
        options: NsqdOptions,
        *,
        tasks: TaskSupervisor,
        tls: TlsContextHolder | None,
        budget: InputBudget,
        limit: int,
    ) -> None:
        """StartupError when an address cannot be had."""
        self._options, self._tasks, self._tls, self._budget = options, tasks, tls, budget
        self._servers: dict[str, HttpServer] = {}
        self._listeners: dict[str, Listener] = {}
        try:
            if options.http_address:
                self._bind("HTTP", options.http_address, limit)
            if options.https_address and tls is not None:
                self._bind("HTTPS", options.https_address, limit)
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
                gate=None if is_secure else self._gate(),
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

    def _gate(self) -> "_TlsGate | None":
        return _TlsGate(self.https_port) if self._options.tls_required is TLSRequired.TRUE else None


class _TlsGate:
    """Sends everybody to HTTPS. NSQ's own text, spaces and all."""

    def __init__(self, https_port: int) -> None:
        body = b'{"message": "TLS_REQUIRED", "https_port": %d}' % https_port
        self._refusal = Response(403, body, JSON_TYPE)

    def __call__(self, _request: Request) -> Response:
        return self._refusal
