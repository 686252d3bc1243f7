"""An HTTP server that keeps what it is sent and answers as told."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class SunkRequest:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class SinkAnswer:
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass
class HttpSink:
    """`answer` decides per request; change it at any time."""

    answer: Callable[[SunkRequest], SinkAnswer] = lambda request: SinkAnswer()
    requests: list[SunkRequest] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]


def _handler_of(sink: HttpSink) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = SunkRequest(self.command, self.path, headers, self.rfile.read(size))
            sink.requests.append(request)
            answer = sink.answer(request)
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # whoever asked had enough
                self.wfile.write(answer.body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 200


@contextlib.contextmanager
def running_sink(answer: Callable[[SunkRequest], SinkAnswer] | None = None) -> Iterator[HttpSink]:
    sink = HttpSink() if answer is None else HttpSink(answer)
    with _Server(("127.0.0.1", 0), _handler_of(sink)) as server:
        sink.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield sink
        finally:
            server.shutdown()
            thread.join()
