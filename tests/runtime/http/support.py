"""A server with sample routes on a real socket, on both loops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

import uvloop

from nsqlake.runtime.http import HttpError, HttpServer, Later, Request, Response, Route, Router, text_response
from nsqlake.runtime.listeners import Listener
from nsqlake.runtime.tasks import TaskSupervisor
from tests.fakes.http_client import HttpClient

OK = text_response("OK")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def run_on(loop: str, scenario: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(scenario)


class Site:
    """Routes of every kind; `seen` has what `/echo` was asked, `laters` what `/later` owes."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.laters: list[Later] = []
        self.released = asyncio.Event()

    def routes(self) -> list[Route]:
        too_big = HttpError(413, "MSG_TOO_BIG")
        return [
            Route("POST", "/echo", self.echo, max_body_bytes=1_000, too_big=too_big),
            Route("POST", "/big", self.echo, max_body_bytes=4_000_000),
            Route("GET", "/ping", lambda _: OK, plain=True),
            Route("GET", "/topic", self.topic),
            Route("POST", "/later", self.later, max_body_bytes=100, deadline_s=3.0),
            Route("GET", "/await", self.wait, deadline_s=3.0),
            Route("GET", "/crash", self.crash),
            Route("GET", "/crash/later", self.crash_later),
            Route("GET", "/refuse", self.refuse),
            Route("GET", "/refuse/later", self.refuse_later),
            Route("GET", "/large", lambda _: Response(200, b"x" * 8_000_000, "application/octet-stream")),
            Route("GET", "/empty", lambda _: Response()),
            Route("GET", "/header", lambda _: Response(headers=(("X-Bad", "a\r\nb: c"),))),
            Route("GET", "/config/{key}", lambda request: text_response(request.path_params["key"])),
        ]

    def echo(self, request: Request) -> Response:
        self.seen.append(request)
        return text_response(request.body)

    def topic(self, request: Request) -> Response:
        return text_response(request.params.get("topic") or "none")

    def later(self, request: Request) -> Later:
        self.laters.append(Later())
        return self.laters[-1]

    async def wait(self, _: Request) -> Response:
        await self.released.wait()
        return OK

    def crash(self, _: Request) -> Response:
        raise ZeroDivisionError("secret detail")

    async def crash_later(self, _: Request) -> Response:
        raise ZeroDivisionError("secret detail")

    def refuse(self, _: Request) -> Response:
        raise HttpError(404, "TOPIC_NOT_FOUND")

    async def refuse_later(self, _: Request) -> Response:
        raise HttpError(404, "TOPIC_NOT_FOUND")


class MemoryTransport(asyncio.Transport):
    """Keeps what is written; events that a loop would send are sent by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = self.has_eof = False
        self.unsent_bytes = 0
        self.socket: object = None

    def get_extra_info(self, name, default=None):
        return {"peername": ("192.0.2.1", 5), "socket": self.socket}.get(name, default)

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return self.unsent_bytes

    def write(self, data):
        assert not self.has_eof
        self.written.append(bytes(data))

    def write_eof(self):
        self.has_eof = True

    def can_write_eof(self):
        return True

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    def abort(self):
        self.is_closed = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Running:
    """A server that runs: `connect` makes clients, which are closed with it."""

    def __init__(self, server: HttpServer, listener: Listener, site: Site) -> None:
        self.server, self.listener, self.site = server, listener, site
        self.clients: list[HttpClient] = []

    async def connect(self, **options: Any) -> HttpClient:
        path = self.listener.local_address
        address = path if self.listener.port < 0 else self.listener.port
        self.clients.append(await HttpClient.connect(address, **options))
        return self.clients[-1]


@contextlib.asynccontextmanager
async def serving(
    *, routes: Iterable[Route] = (), address: str = "127.0.0.1:0", **options: Any
) -> AsyncIterator[Running]:
    tasks, site = TaskSupervisor(), Site()
    server = HttpServer(Router([*site.routes(), *routes]), tasks=tasks, **options)
    listener = Listener("HTTP", address, server.protocol_factory, supervisor=tasks)
    listener.start()
    running = Running(server, listener, site)
    try:
        yield running
    finally:
        listener.close()
        for client in running.clients:
            await client.close()
        await server.close(1.0)
        await tasks.close()


def scenario_on(loop: str, scenario: Callable[[Running], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run `scenario` against a server on the named loop, which no exception must reach."""

    async def run() -> None:
        escaped: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
        async with serving(**options) as running:
            await scenario(running)
        assert escaped == []

    run_on(loop, run())
