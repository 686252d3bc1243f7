"""An HTTP node on loopback, for clients that block: answers each path as the test wants."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.certificates import KeyPair


@dataclass(frozen=True)
class Reply:
    """What is answered. `raw` is sent instead of all else; after it the connection is closed."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    is_stalled: bool = False
    closes: bool = False


STALL = Reply(is_stalled=True)
DROP = Reply(raw=b"")


def json_reply(content: object, status: int = 200, **headers: str) -> Reply:
    return Reply(json.dumps(content).encode(), status, headers)


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: int  # the port of the other side: the same for the same connection


class FakeHttpNode:
    """`answers` by path: one reply, or several of which the last one stays. 404 for other paths."""

    def __init__(self, pair: KeyPair | None = None) -> None:
        self.answers: dict[str, Reply | list[Reply]] = {}
        self.asked: list[Asked] = []
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if pair is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(pair.cert_file, pair.key_file)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, path: str) -> Reply:
        found = self.answers.get(path, json_reply({"message": "NOT_FOUND"}, 404))
        if isinstance(found, Reply):
            return found
        return found.pop(0) if len(found) > 1 else found[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                port = self.client_address[1]
                params = dict(parse_qsl(url.query))
                node.asked.append(Asked(self.command, url.path, params, headers, body, port))
                self.send(node._reply(url.path))

            do_GET = do_POST = answer  # noqa: N815 - names of the standard library

            def send(self, reply: Reply) -> None:
                if reply.is_stalled:
                    node._ended.wait(30)
                if reply.is_stalled or reply.raw is not None:
                    self.close_connection = True
                    self.wfile.write(reply.raw or b"")
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
                # Without telling the other side, as a server does that tidies up idle connections.
                if reply.closes:
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@contextmanager
def http_node(pair: KeyPair | None = None) -> Iterator[FakeHttpNode]:
    node = FakeHttpNode(pair)
    try:
        yield node
    finally:
        node.close()
