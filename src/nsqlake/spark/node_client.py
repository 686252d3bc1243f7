"""One nsqd as Spark's processes ask it: blocking HTTP on a connection that is kept, every call bounded."""

import atexit
import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from nsqlake.spark.errors import NodeError, OptionError, RefusedError
from nsqlake.spark.options import Access

__all__ = ["Answer", "NodeClient", "RefusedError", "client_for", "close_clients"]

MAX_ANSWER_BYTES = (1 << 31) - 1  # what an Arrow array of bytes can hold
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
SLOWEST_BYTES_PER_S = 64 * 1024  # a node that drips would hold the query for ever

Body = bytes | memoryview

_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
_clients: dict[tuple[str, Access], "NodeClient"] = {}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: memoryview


def client_for(node: str, access: Access) -> "NodeClient":
    """The client of this process for a node: a worker keeps it from batch to batch."""
    client = _clients.get((node, access))
    if client is None:
        client = _clients[node, access] = NodeClient(node, access)
    return client


@atexit.register
def close_clients() -> None:
    """Of this process, all."""
    while _clients:
        _clients.popitem()[1].close()


class NodeClient:
    """For one thread at a time. The body of an answer is valid until the next call."""

    def __init__(self, node: str, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self.node, self._access, self._sleep = node, access, sleep
        self._connection: http.client.HTTPConnection | None = None
        self._buffer = bytearray(1 << 20)

    def get_json(self, path: str, params: Mapping[str, object] | None = None) -> Any:
        return _decode(self.node, path, self.request("GET", path, params or {}))

    def post_json(self, path: str, params: Mapping[str, object], body: Body = b"") -> Any:
        answer = self.request("POST", path, params, body)
        return _decode(self.node, path, answer) if answer.body else None

    def request(self, method: str, path: str, params: Mapping[str, object], body: Body = b"") -> Answer:
        """Ask, again after a pause while the node is down or busy; NodeError when it stays so."""
        target = f"{path}?{urlencode(params, quote_via=quote)}" if params else path
        tries = self._access.retries + 1
        reason, pause_s = "", FIRST_PAUSE_S
        for number in range(tries):
            try:
                answer = self._ask(method, target, body)
            except ssl.SSLCertVerificationError as error:
                raise NodeError(self.node, f"its certificate is not trusted: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            else:
                if answer.status == 200:
                    return answer
                refusal = _refused(self.node, answer)
                if answer.status not in _RETRIED_STATUS:
                    raise refusal
                reason = refusal.reason
            if number + 1 < tries:
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise NodeError(self.node, f"{path} failed {tries} times: {reason}")

    def _ask(self, method: str, target: str, body: Body) -> Answer:
        """On the connection we have, or on a new one if the node has closed that meanwhile."""
        was_kept = self._connection is not None
        try:
            return self._ask_once(method, target, body)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.close()
            if not was_kept:
                raise
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        try:
            return self._ask_once(method, target, body)
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _ask_once(self, method: str, target: str, body: Body) -> Answer:
        connection = self._connection or self._connect()
        headers = {"Accept": "application/vnd.nsq; version=1.0"}
        if self._access.secret:
            headers["Authorization"] = f"Bearer {self._access.secret}"
        connection.request(method, target, body or None, headers)
        response = connection.getresponse()
        length = response.length
        if length is None or length > MAX_ANSWER_BYTES:
            raise http.client.HTTPException(f"an answer of {'unknown' if length is None else length} bytes")
        view = self._read(response, length)
        if response.will_close:
            self.close()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, view)

    def _read(self, response: http.client.HTTPResponse, length: int) -> memoryview:
        # One buffer for all answers: fresh memory costs a page fault for every 4 KiB.
        if length > len(self._buffer):
            self._buffer = bytearray(length + length // 4)
        view = memoryview(self._buffer)[:length]
        got, deadline_s = 0, time.monotonic() + self._access.timeout_s
        while got < length:
            count = response.readinto(view[got:])
            if not count:
                raise http.client.IncompleteRead(b"", length - got)
            got += count
            if time.monotonic() > deadline_s + got / SLOWEST_BYTES_PER_S:
                raise TimeoutError(f"{got} of {length} bytes came in time")
        response.read()
        return view

    def _connect(self) -> http.client.HTTPConnection:
        url = urlsplit(self.node if "://" in self.node else f"http://{self.node}")
        host, port, timeout_s = url.hostname or "", url.port, self._access.timeout_s
        if url.scheme == "https":
            context = _tls_context(self._access)
            self._connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _tls_context(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.root_ca_file or None)
    except OSError as error:
        raise OptionError("tlsRootCaFile", access.root_ca_file, f"cannot be used: {error}") from error
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.cert_file:
        try:
            context.load_cert_chain(access.cert_file, access.key_file)
        except OSError as error:
            raise OptionError("tlsCert", access.cert_file, f"cannot be used: {error}") from error
    return context


def _decode(node: str, path: str, answer: Answer) -> Any:
    try:
        return json.loads(bytes(answer.body))
    except ValueError as error:
        raise NodeError(node, f"{path} gave an answer that is not JSON") from error


def _refused(node: str, answer: Answer) -> RefusedError:
    try:
        found = json.loads(bytes(answer.body[:4096]))
        code, reason = str(found["message"]), str(found.get("reason", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        code = reason = ""
    return RefusedError(node, answer.status, code, reason, answer.headers)
