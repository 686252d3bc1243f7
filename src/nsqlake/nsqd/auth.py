"""Asking the auth servers who a client is and what it may do.

Nothing here may show a secret: with `get` it is part of the URL, so URLs are never logged, and requests go
through httpx's transport because its client logs them.
"""

import asyncio
import json
import logging
import random
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.auth_backoff import AuthBackoff
from nsqlake.nsqd.permissions import AuthState, Permission, ReplyError, decode_json, decode_reply
from nsqlake.runtime.addresses import MAX_PORT
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.tls_context import build_client_context
from nsqlake.wire.errors import printable

if TYPE_CHECKING:
    import httpx

    from nsqlake.nsqd.options import NsqdOptions

__all__ = ["AuthError", "AuthServers", "AuthState", "Permission"]

logger = logging.getLogger(__name__)

SECOND_NS = 1_000_000_000
DEFAULT_CONNECT_TIMEOUT_NS = 2 * SECOND_NS
DEFAULT_REQUEST_TIMEOUT_NS = 5 * SECOND_NS
MAX_REPLY_BYTES = 262_144
MAX_SECRET_BYTES = 65_536
MAX_CONNECTIONS = 32
REFUSALS = (401, 403)
HEADERS = {"Accept": "application/vnd.nsq; version=1.0", "Accept-Encoding": "identity"}


class AuthError(NsqlakeError):
    """No server vouched for the client; `is_refusal` when one knew it and said no.

    With `wait_ns` none was asked: the client has failed too often and has to wait that long.
    """

    def __init__(self, reason: str, *, is_refusal: bool = False, wait_ns: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.is_refusal, self.wait_ns = reason, is_refusal, wait_ns


class AuthServers:
    """The configured auth servers, asked in turn from a random one on until one answers."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        *,
        method: str = "post",
        root_ca_file: str = "",
        connect_timeout_ns: int = DEFAULT_CONNECT_TIMEOUT_NS,
        request_timeout_ns: int = DEFAULT_REQUEST_TIMEOUT_NS,
        clock: Clock | None = None,
        random_source: random.Random | None = None,
    ) -> None:
        """StartupError when `root_ca_file` holds no certificate."""
        self._urls = [_server_url(address) for address in addresses]
        self._method = method
        self._tls_context = build_client_context(root_ca_file)
        self._connect_timeout_s = (connect_timeout_ns or DEFAULT_CONNECT_TIMEOUT_NS) / SECOND_NS
        self._request_timeout_s = (request_timeout_ns or DEFAULT_REQUEST_TIMEOUT_NS) / SECOND_NS
        self._clock = clock or Clock()
        self._random = random_source or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._backoff = AuthBackoff()
        self._transport: httpx.AsyncHTTPTransport | None = None

    @classmethod
    def from_options(cls, options: "NsqdOptions", clock: Clock | None = None) -> "AuthServers":
        return cls(
            options.auth_http_addresses,
            method=options.auth_http_request_method,
            root_ca_file=options.tls_root_ca_file,
            connect_timeout_ns=options.http_client_connect_timeout_ns,
            request_timeout_ns=options.http_client_request_timeout_ns,
            clock=clock,
        )

    def is_expired(self, state: AuthState) -> bool:
        return state.is_expired(self._clock.now_ns())

    async def query(self, secret: bytes, *, remote_ip: str, common_name: str, is_tls: bool) -> AuthState:
        """The first valid reply; AuthError when there is none or the address has failed too often."""
        wait_ns = self._backoff.wait_ns(remote_ip, self._clock.now_ns())
        if wait_ns:
            reason = f"too many failures of {remote_ip}, to wait {wait_ns // 1_000_000} ms"
            raise AuthError(reason, wait_ns=wait_ns)
        try:
            state = await self._query_in_turn(_fields(secret, remote_ip, common_name, is_tls=is_tls))
        except AuthError as error:
            if error.is_refusal:
                self._backoff.add_failure(remote_ip, self._clock.now_ns())
            raise
        if state.permission_count:
            self._backoff.add_success(remote_ip)
        else:
            self._backoff.add_failure(remote_ip, self._clock.now_ns())
        return state

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def _query_in_turn(self, fields: dict[str, bytes]) -> AuthState:
        if len(fields["secret"]) > MAX_SECRET_BYTES:
            raise AuthError(f"secret longer than {MAX_SECRET_BYTES} bytes", is_refusal=True)
        is_refusal = False
        start = self._random.randrange(len(self._urls))
        for url in self._urls[start:] + self._urls[:start]:
            try:
                return await self._query_server(url, fields)
            except AuthError as error:
                is_refusal = is_refusal or error.is_refusal
                logger.warning("AUTH(%s): query failed reason=%s", _shown(url), error)
        raise AuthError("no auth server accepted the client", is_refusal=is_refusal)

    async def _query_server(self, url: str, fields: dict[str, bytes]) -> AuthState:
        import httpx

        try:
            async with asyncio.timeout(self._request_timeout_s):
                reply = await self._exchange(url, fields)
        except TimeoutError as error:
            raise AuthError(f"no reply within {self._request_timeout_s} s") from error
        except httpx.ConnectError as error:
            raise AuthError(f"cannot connect: {printable(str(error).encode(), 200)}") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            raise AuthError(type(error).__name__) from error  # its text may quote the request
        try:
            return decode_reply(reply, now_ns=self._clock.now_ns())
        except ReplyError as error:
            raise AuthError(f"invalid reply: {printable(str(error).encode(), 200)}") from error

    async def _exchange(self, url: str, fields: dict[str, bytes]) -> bytes:
        request = self._request(url, fields)
        if (request.url.port or 0) > MAX_PORT:  # httpx lets it through to a traceback
            raise AuthError("invalid port")
        status, reply = await self._send(request)
        if status == 403 and request.url.scheme == "http":
            https_port = _https_port(reply)
            if https_port:
                secure_url = str(request.url.copy_with(scheme="https", port=https_port))
                body = request.content if self._method == "post" else None
                status, reply = await self._send(self._new_request(secure_url, body))
        if status != 200:
            raise AuthError(f"status {status}", is_refusal=status in REFUSALS)
        return reply

    def _request(self, url: str, fields: dict[str, bytes]) -> "httpx.Request":
        if self._method == "get":
            return self._new_request(f"{url}?{urlencode(sorted(fields.items()))}", None)
        values = {name: [value.decode("utf-8", "replace")] for name, value in sorted(fields.items())}
        return self._new_request(url, json.dumps(values, separators=(",", ":")).encode())

    def _new_request(self, url: str, body: bytes | None) -> "httpx.Request":
        import httpx

        limits = {"connect": self._connect_timeout_s} | dict.fromkeys(
            ("read", "write", "pool"), self._request_timeout_s
        )
        headers = HEADERS | ({} if body is None else {"Content-Type": "application/json"})
        method = "GET" if body is None else "POST"
        return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": limits})

    async def _send(self, request: "httpx.Request") -> tuple[int, bytes]:
        import httpx

        if self._transport is None:
            limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
            self._transport = httpx.AsyncHTTPTransport(verify=self._tls_context, limits=limits)
        response = await self._transport.handle_async_request(request)
        reply = bytearray()
        try:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise AuthError("compressed reply")
            async for chunk in response.aiter_raw():
                reply += chunk
                if len(reply) > MAX_REPLY_BYTES:
                    raise AuthError(f"reply larger than {MAX_REPLY_BYTES} bytes")
        finally:
            await response.aclose()
        return response.status_code, bytes(reply)


def _server_url(address: str) -> str:
    return address if "://" in address else f"http://{address}/auth"


def _shown(url: str) -> str:
    """Without user, password and query, which may be secrets of the operator."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _fields(secret: bytes, remote_ip: str, common_name: str, *, is_tls: bool) -> dict[str, bytes]:
    return {
        "common_name": common_name.encode("utf-8", "replace"),
        "remote_ip": remote_ip.encode(),
        "secret": secret,
        "tls": b"true" if is_tls else b"false",
    }


def _https_port(reply: bytes) -> int:
    """The port a server wants to be asked on instead, 0 if it names none."""
    try:
        answer = decode_json(reply)
    except ReplyError:
        return 0
    port = answer.get("https_port") if isinstance(answer, dict) else None
    return port if type(port) is int and 0 < port <= MAX_PORT else 0
