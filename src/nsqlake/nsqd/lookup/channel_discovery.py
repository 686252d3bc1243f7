"""Asking nsqlookupds which channels a topic has elsewhere, so that a new topic begins with them."""

import asyncio
import logging
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.lookup.lookup_tls import LookupTls
from nsqlake.wire.errors import printable
from nsqlake.wire.names import is_ephemeral, is_valid_name

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

SECOND_NS = 1_000_000_000
DEFAULT_CONNECT_TIMEOUT_NS = 2 * SECOND_NS
DEFAULT_REQUEST_TIMEOUT_NS = 5 * SECOND_NS
MAX_REPLY_BYTES = 1_048_576
MAX_CHANNELS = 1_024  # of one topic; each costs files and memory
MAX_CONNECTIONS = 32
HEADERS = {"Accept": "application/vnd.nsq; version=1.0", "Accept-Encoding": "identity"}


class DiscoveryError(NsqlakeError):
    """One nsqlookupd gave no usable answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ChannelDiscovery:
    """Every address is asked at the same time; those that fail are logged and left out."""

    def __init__(
        self,
        *,
        connect_timeout_ns: int = DEFAULT_CONNECT_TIMEOUT_NS,
        request_timeout_ns: int = DEFAULT_REQUEST_TIMEOUT_NS,
        tls: LookupTls | None = None,
    ) -> None:
        self._tls = tls
        self._connect_timeout_s = (connect_timeout_ns or DEFAULT_CONNECT_TIMEOUT_NS) / SECOND_NS
        self._request_timeout_s = (request_timeout_ns or DEFAULT_REQUEST_TIMEOUT_NS) / SECOND_NS
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._questions: set[asyncio.Task[list[str]]] = set()
        self._is_closed = False

    async def find(self, http_addresses: Iterable[str], topic: str) -> list[str]:
        """The names to create, in order; nothing once this is closed."""
        questions = [asyncio.ensure_future(self._ask_one(address, topic)) for address in http_addresses]
        self._questions.update(questions)
        try:
            answers = await asyncio.gather(*questions, return_exceptions=True)
        finally:
            self._questions.difference_update(questions)
        found: set[str] = set()
        for answer in answers:
            if isinstance(answer, list):
                found.update(answer)
            elif not isinstance(answer, asyncio.CancelledError):  # that one is `close`
                raise answer
        return _usable(topic, found)

    async def close(self) -> None:
        """Whoever waits gets what was found so far."""
        self._is_closed = True
        for question in self._questions:
            question.cancel()
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def _ask_one(self, address: str, topic: str) -> list[str]:
        try:
            return await self._ask(address, topic)
        except DiscoveryError as error:
            logger.warning("LOOKUPD(%s): channels of %s not found: %s", address, topic, error)
            return []

    async def _ask(self, address: str, topic: str) -> list[str]:
        # Not on the loop: the first import takes longer than a consumer should wait for a message.
        await asyncio.to_thread(_load_httpx)
        import httpx

        try:
            async with asyncio.timeout(self._request_timeout_s):
                base = address if address.startswith("https://") else f"http://{address}"
                return await self._exchange(f"{base}/channels?topic={quote(topic, safe='')}")
        except TimeoutError as error:
            raise DiscoveryError(f"no reply within {self._request_timeout_s} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:  # the last: IDNA's
            reason = printable(str(error).encode("utf-8", "replace"), 200)
            raise DiscoveryError(f"{type(error).__name__} {reason}".rstrip()) from error

    async def _exchange(self, url: str) -> list[str]:
        import httpx

        limits = {"connect": self._connect_timeout_s} | dict.fromkeys(
            ("read", "write", "pool"), self._request_timeout_s
        )
        request = httpx.Request("GET", url, headers=HEADERS, extensions={"timeout": limits})
        response = await self._open_transport().handle_async_request(request)
        try:
            if response.status_code != 200:
                raise DiscoveryError(f"status {response.status_code}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise DiscoveryError("compressed reply")
            return decode_channels(await _read_body(response))
        finally:
            await response.aclose()

    def _open_transport(self) -> "httpx.AsyncHTTPTransport":
        import httpx

        if self._is_closed:
            raise DiscoveryError("stopping")
        if self._transport is None:
            pool = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
            # For plain HTTP: a context that trusts nobody and takes no time to make.
            context = self._tls.context if self._tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._transport = httpx.AsyncHTTPTransport(verify=context, limits=pool)
        return self._transport


class _Reply(msgspec.Struct):
    channels: list[str] | None = None


def decode_channels(payload: bytes) -> list[str]:
    """What nsqlookupd lists; DiscoveryError when it is not a reply to that question."""
    try:
        return msgspec.json.decode(payload, type=_Reply).channels or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DiscoveryError(f"invalid reply: {printable(payload)}") from error


async def _read_body(response: "httpx.Response") -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise DiscoveryError(f"reply larger than {MAX_REPLY_BYTES} bytes")
    return bytes(body)


def _usable(topic: str, names: set[str]) -> list[str]:
    durable = sorted(name for name in names if not is_ephemeral(name))
    usable = [name for name in durable if is_valid_name(name.encode("utf-8", "replace"))]
    if len(usable) < len(durable):
        logger.warning(
            "TOPIC(%s): invalid channel names left out count=%d", topic, len(durable) - len(usable)
        )
    if len(usable) > MAX_CHANNELS:
        logger.warning("TOPIC(%s): too many channels count=%d limit=%d", topic, len(usable), MAX_CHANNELS)
    return usable[:MAX_CHANNELS]


def _load_httpx() -> None:
    import httpx  # noqa: F401
