"""HTTP calls that always end: limited in time and size, never led to another host.

Requests go through httpx's transport, because its client obeys proxies of the environment and logs URLs.
httpx is imported with the first call and off the loop: it takes longer than a message should wait.
"""

import asyncio
import base64
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from nsqlake.cluster.addresses import HttpAddress
from nsqlake.cluster.decoding import Answer, decode_answer
from nsqlake.cluster.errors import RequestError, StatusError
from nsqlake.cluster.failures import failure_reason
from nsqlake.errors import NsqlakeError
from nsqlake.runtime.addresses import MAX_PORT

if TYPE_CHECKING:
    import httpx

A = TypeVar("A", bound=Answer)

DEFAULT_CONNECT_TIMEOUT_S = 2.0
DEFAULT_REQUEST_TIMEOUT_S = 5.0
MAX_REPLY_BYTES = 64 * 1024 * 1024  # /stats of 10,000 topics with 5 channels each has 20 MiB
MAX_CONNECTIONS = 100
MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 307, 308)
HEADERS = {"Accept": "application/vnd.nsq; version=1.0", "Accept-Encoding": "identity"}
FLAT_MARK = ("X-NSQ-Content-Type", "nsq; version=1.0")

Params = Mapping[str, str]


@dataclass(frozen=True)
class Question:
    """One request; `url` differs from what the address and the path say only after a redirect."""

    method: str
    address: HttpAddress
    path: str
    params: Params
    url: str = ""

    @property
    def target(self) -> str:
        return self.url or self.address.url(self.path, self.params)

    def failed(self, reason: str) -> RequestError:
        return RequestError(str(self.address), method=self.method, url=self._shown, reason=reason)

    def refused(self, reply: "Reply") -> StatusError:
        return StatusError(
            str(self.address),
            method=self.method,
            url=self._shown,
            status=reply.status,
            phrase=reply.phrase,
            body=reply.body,
        )

    @property
    def _shown(self) -> str:
        return self.address.shown_url(self.path, self.params)


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    is_flat: bool = True
    location: str = ""

    @property
    def phrase(self) -> str:
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return ""


class HttpCaller:
    """Shared by the clients of many servers; `ssl_context` makes the trust for https when it is first needed.

    `bearer_token` goes to every server, unless its address names a user.
    """

    def __init__(
        self,
        *,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        bearer_token: str = "",
        ssl_context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._max_reply_bytes = max_reply_bytes
        self._bearer_token = bearer_token
        self._ssl_context = ssl_context or _system_trust
        self._transports: dict[str, httpx.AsyncHTTPTransport] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    async def get(
        self, address: HttpAddress, path: str, answer_type: type[A], params: Params | None = None
    ) -> A:
        """The answer to a GET; RequestError when there is none."""
        question = Question("GET", address, path, params or {})
        reply = await self._ask(question)
        try:
            return decode_answer(reply.body, answer_type, is_flat=reply.is_flat)
        except ValueError as error:
            raise question.failed(str(error)) from error

    async def post(self, address: HttpAddress, path: str, params: Params | None = None) -> None:
        """Ask for something to be done; RequestError when it is not known to be."""
        await self._ask(Question("POST", address, path, params or {}))

    async def _ask(self, question: Question) -> Reply:
        if "httpx" not in sys.modules:
            await asyncio.to_thread(_load_httpx)
        import httpx

        try:
            async with asyncio.timeout(self._request_timeout_s):
                reply = await self._exchange(question)
        except TimeoutError as error:
            raise question.failed(f"no reply within {self._request_timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:  # the last: IDNA's
            raise question.failed(failure_reason(error, question.address)) from error
        if reply.status != 200:
            raise question.refused(reply)
        return reply

    async def _exchange(self, question: Question) -> Reply:
        """With the turns that a server may ask for: to another path of its own, or to its HTTPS port."""
        for _ in range(1 + MAX_REDIRECTS):
            reply = await self._send(question)
            followed = _redirected(question, reply) or _upgraded(question, reply)
            if followed is None:
                return reply
            question = followed
        raise question.failed(f"redirected more than {MAX_REDIRECTS} times")

    async def _send(self, question: Question) -> Reply:
        import httpx

        limits = {"connect": self._connect_timeout_s} | dict.fromkeys(
            ("read", "write", "pool"), self._request_timeout_s
        )
        headers = HEADERS | self._authorization(question.address)
        request = httpx.Request(
            question.method,
            question.target,
            headers=[
                (name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items()
            ],
            extensions={"timeout": limits},
        )
        transport = await self._transport(question)
        response = await transport.handle_async_request(request)
        try:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise question.failed("compressed reply")
            body = await self._read_body(response, question)
        finally:
            await response.aclose()
        name, value = FLAT_MARK
        return Reply(
            response.status_code,
            body,
            is_flat=response.headers.get(name) == value,
            location=response.headers.get("Location", ""),
        )

    async def _read_body(self, response: "httpx.Response", question: Question) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._max_reply_bytes:
                raise question.failed(f"reply larger than {self._max_reply_bytes} bytes")
        return bytes(body)

    def _authorization(self, address: HttpAddress) -> dict[str, str]:
        if address.user or address.password:
            pair = f"{address.user}:{address.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        if self._bearer_token:
            return {"Authorization": f"Bearer {self._bearer_token}"}
        return {}

    async def _transport(self, question: Question) -> "httpx.AsyncHTTPTransport":
        import httpx

        scheme = question.address.scheme
        if scheme not in self._transports:
            # For plain HTTP one that trusts nobody will do, and takes no time to make.
            context = _no_trust() if scheme == "http" else await self._build_context(question)
            limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
            transport = httpx.AsyncHTTPTransport(verify=context, limits=limits)
            self._transports.setdefault(scheme, transport)
        return self._transports[scheme]

    async def _build_context(self, question: Question) -> ssl.SSLContext:
        try:
            return await asyncio.to_thread(self._ssl_context)
        except (NsqlakeError, OSError, ValueError) as error:
            raise question.failed(f"tls: {error}") from error


class _SecurePort(msgspec.Struct):
    https_port: int = 0


def _redirected(question: Question, reply: Reply) -> Question | None:
    """To another path of the same server; a redirect to any other is an answer like the rest of the 300s."""
    import httpx

    if reply.status not in REDIRECTS or not reply.location:
        return None
    before = httpx.URL(question.target)
    after = before.join(reply.location)
    if (after.scheme, after.host, after.port) != (before.scheme, before.host, before.port) or after.userinfo:
        return None
    return replace(question, url=str(after))


def _upgraded(question: Question, reply: Reply) -> Question | None:
    """An nsqd with --tls-required names its HTTPS port in a 403."""
    if reply.status != 403 or question.address.scheme != "http":
        return None
    try:
        port = msgspec.json.decode(reply.body, type=_SecurePort).https_port
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not 0 < port <= MAX_PORT:
        return None
    return replace(question, address=replace(question.address, scheme="https", port=port), url="")


def _load_httpx() -> None:
    import httpx  # noqa: F401


def _no_trust() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _system_trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
