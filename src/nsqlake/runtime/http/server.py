"""What the connections of one HTTP or HTTPS listener share: routes, limits, TLS."""

import asyncio
from collections.abc import Callable

from nsqlake.runtime.http.connection import HttpConnection
from nsqlake.runtime.http.encoding import ResponseEncoder
from nsqlake.runtime.http.head import HeadParser
from nsqlake.runtime.http.limits import HttpLimits
from nsqlake.runtime.http.request import Request
from nsqlake.runtime.http.response import Response
from nsqlake.runtime.http.router import Router
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.runtime.sweeping_server import SweepingServer
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder
from nsqlake.runtime.tls_protocol import TlsProtocol

__all__ = ["HttpServer"]

PLAIN_REQUEST_ANSWER = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"Client sent an HTTP request to an HTTPS server.\n"
)


class HttpServer(SweepingServer):
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
        super().__init__()
        self.name, self.tasks, self.gate, self.budget = name, tasks, gate, budget
        self.limits = limits or HttpLimits()
        self.heads = HeadParser(router, self.limits)
        self.encoder = ResponseEncoder()
        self._tls = tls

    def protocol_factory(self, on_closed: Callable[[], None]) -> asyncio.BaseProtocol:
        """For a `Listener`."""
        connection = HttpConnection(self, on_closed)
        if self._tls is None:
            return connection
        return TlsProtocol(
            self,
            self._tls.current.new_layer(),
            connection,
            on_closed,
            name=self.name,
            plain_answer=PLAIN_REQUEST_ANSWER,
        )

    def tick(self) -> None:
        self.encoder.tick()
