"""One nsqd as Spark's processes ask it: blocking HTTP on a connection that is kept, every call bounded."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from nsqlake.spark.errors import NodeError
from nsqlake.spark.options import Access

__all__ = ["Answer", "NodeClient", "RefusedError", "client_for"]

MAX_JSON_BYTES = 64 * 1024 * 1024
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
_clients: dict[tuple[str, Access], "NodeClient"] = {}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: memoryview


class RefusedError(NodeError):
    """The node understood and said no; asking again would not help."""

    retriable = False

    def __init__(self, node: str, status: int, code: str, reason: str) -> None:
        super().__init__(node, f"answered {status} {code}{': ' + reason if reason else ''}")
        self.status, self.code = status, code


def client_for(node: str, access: Access) -> "NodeClient":
    """The client of this process for a node: a worker keeps it from batch to batch."""
    client = _clients.get((node, access))
    if client is None:
        client = _clients[node, access] = NodeClient(node, access)
    return client


class NodeClient:
    """For one thread. The body of an answer is valid until the next call."""

    def __init__(self, node: str, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self.node, self._access, self._sleep = node, access, sleep
        self._connection: http.client.HTTPConnection | None = None
        self._buffer = bytearray(1 << 20)

    def get_json(self, path: str, params: Mapping[str, object] | None = None) -> Any:
        return _decode(self.node, self.request("GET", path, params or {}))

    def post_json(self, path: str, params: Mapping[str, object], body: bytes = b"") -> Any:
        answer = self.request("POST", path, params, body)
        return _decode(self.node, answer) if answer.body else None

    def request(self, method: str, path: str, params: Mapping[str, object], body: bytes = b"") -> Answer:
        """Ask, again after a pause while the node is down or busy; NodeError when it stays so."""
        target = f"{path}?{urlencode(params, quote_via=quote)}" if params else path
        pause_s = FIRST_PAUSE_S
        for attempt in range(self._access.retries + 1):
            last = attempt == self._access.retries
            try:
                answer = self._ask(method, target, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if last:
                    reason = str(error) or type(error).__name__
                    raise NodeError(self.node, f"{path} failed {attempt + 1} times: {reason}") from error
            else:
                if answer.status == 200:
                    return answer
                if last or answer.status not in _RETRIED_STATUS:
                    raise _refused(self.node, answer)
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    def _ask(self, method: str, target: str, body: bytes) -> Answer:
        connection = self._connection or self._connect()
        headers = {"Accept": "application/vnd.nsq; version=1.0"}
        if self._access.secret:
            headers["Authorization"] = f"Bearer {self._access.secret}"
        connection.request(method, target, body or None, headers)
        response = connection.getresponse()
        length = response.length
        if length is None:
            raise http.client.HTTPException("an answer of unknown length")
        view = self._read(response, length)
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, view)

    def _read(self, response: http.client.HTTPResponse, length: int) -> memoryview:
        # One buffer for all answers: fresh memory costs a page fault for every 4 KiB.
        if length > len(self._buffer):
            self._buffer = bytearray(length + length // 4)
        view = memoryview(self._buffer)[:length]
        got = 0
        while got < length:
            count = response.readinto(view[got:])
            if not count:
                raise http.client.IncompleteRead(b"", length - got)
            got += count
        response.read()
        return view

    def _connect(self) -> http.client.HTTPConnection:
        address = self.node if "://" in self.node else f"http://{self.node}"
        url = urlsplit(address)
        host, port, timeout_s = url.hostname or "", url.port, self._access.timeout_s
        if url.scheme == "https":
            context = _tls_context(self._access)
            self._connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        else:
            self._connection = http.client.HTTPConnection(host, port or 4151, timeout=timeout_s)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _tls_context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.root_ca_file or None)
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.cert_file:
        context.load_cert_chain(access.cert_file, access.key_file)
    return context


def _decode(node: str, answer: Answer) -> Any:
    if len(answer.body) > MAX_JSON_BYTES:
        raise NodeError(node, f"an answer of {len(answer.body)} bytes is too large")
    try:
        return json.loads(bytes(answer.body))
    except ValueError as error:
        raise NodeError(node, "gave an answer that is not JSON") from error


def _refused(node: str, answer: Answer) -> RefusedError:
    try:
        found = json.loads(bytes(answer.body[:4096]))
        return RefusedError(node, answer.status, str(found["message"]), str(found.get("reason", "")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return RefusedError(node, answer.status, "", "")
