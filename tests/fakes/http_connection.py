"""A blocking HTTP connection that sends exactly the bytes it is given and reads one answer at a time."""

import json
import socket
import ssl
from typing import Any, Self

from tests.fakes.http_client import Answer, request_bytes

LIMIT_S = 10.0


class HttpConnection:
    """To `host:port`, or to the path of a unix socket; through TLS with a context."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        host, separator, port = address.rpartition(":")
        if separator:
            self.socket = socket.create_connection((host, int(port)), LIMIT_S)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(LIMIT_S)
            self.socket.connect(address)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    @property
    def local_address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        self.send(request_bytes(method, target, body, headers))
        return self.answer(has_body=method != "HEAD")

    def get(self, target: str, headers: dict[str, str] | None = None) -> Answer:
        return self.ask("GET", target, headers=headers)

    def post(self, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        return self.ask("POST", target, body, headers)

    def get_json(self, target: str) -> Any:
        answer = self.get(target)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def answer(self, *, has_body: bool = True) -> Answer:
        head = self._until(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        version, status, _ = line.split(" ", 2)
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", "0")) if has_body and int(status) >= 200 else 0
        return Answer(int(status), headers, self._exactly(length), version, head)

    def is_closed(self) -> bool:
        """Whether the server has closed it; waits for that."""
        try:
            return not self._received and self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(mark)
        return head + mark

    def _exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            self._receive()
        data, self._received = self._received[:count], self._received[count:]
        return data

    def _receive(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionError(f"closed by the server after {self._received!r}")
        self._received += data
