"""What a load asks a broker's HTTP side for besides publishing: topics, statistics, the raw log."""

import http.client
import json
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.load.connection import Address
from bench.load.errors import LoadError

TIMEOUT_SECONDS = 60
CREATING_CONNECTIONS = 8
BUFFER_BYTES = 1024 * 1024


class HttpClient:
    """One connection that is kept."""

    def __init__(self, address: Address) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_SECONDS)

    def post(self, target: str) -> None:
        self._ask("POST", target)

    def get(self, target: str) -> bytes:
        return self._ask("GET", target)

    def get_json(self, target: str) -> Any:
        return json.loads(self._ask("GET", target))

    def _ask(self, method: str, target: str) -> bytes:
        self._connection.request(method, target)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise LoadError(f"{method} {target}: {answer.status} {body.decode(errors='backslashreplace')}")
        return body

    def close(self) -> None:
        self._connection.close()


def create_topics(address: Address, names: Sequence[str], channel: str) -> None:
    def create(share: Sequence[str]) -> None:
        client = HttpClient(address)
        for name in share:
            client.post(f"/topic/create?topic={name}")
            client.post(f"/channel/create?topic={name}&channel={channel}")
        client.close()

    with ThreadPoolExecutor(CREATING_CONNECTIONS) as pool:
        for _ in pool.map(create, [names[i::CREATING_CONNECTIONS] for i in range(CREATING_CONNECTIONS)]):
            pass


class RawReader:
    """Reads answers without looking at them: the least work a reader of the log can do."""

    def __init__(self, address: Address) -> None:
        self._sock = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def read(self, target: str) -> tuple[int, dict[str, str]]:
        """How many bytes the body had, and the headers."""
        self._sock.sendall(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._receive_some()
        start, _, beginning = head.partition(b"\r\n\r\n")
        status, *lines = start.decode("latin-1").split("\r\n")
        if " 200 " not in status:
            raise LoadError(f"GET {target}: {status}")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        size = left = int(headers["content-length"])
        left -= len(beginning)
        while left > 0:
            left -= self._sock.recv_into(self._buffer, min(left, BUFFER_BYTES)) or self._ended()
        return size, headers

    def _receive_some(self) -> bytes:
        return self._sock.recv(4096) or bytes(self._ended())

    def _ended(self) -> int:
        raise LoadError("the broker closed the connection")

    def close(self) -> None:
        self._sock.close()
