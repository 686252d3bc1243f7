"""Sending one message to one address."""

import asyncio
import ssl
from urllib.parse import quote_plus

import httpx

from nsqlake import NSQ_VERSION
from nsqlake.apps.nsq_to_http.headers import parse_headers
from nsqlake.apps.nsq_to_http.options import PLACE_OF_BODY, NsqToHttpOptions
from nsqlake.apps.tool_support.errors import ToolError
from nsqlake.runtime.durations import SECOND_NS

MAX_ANSWER_BYTES = 1024 * 1024  # more is not read, and costs the connection


class StatusError(ToolError):
    """The answer was none of success."""

    def __init__(self, status: int) -> None:
        super().__init__(f"got status code {status}")
        self.status = status


class RequestFailedError(ToolError):
    """There was no answer."""


def get_url(address: str, body: bytes) -> str:
    """`body` as a form would send it, in the place of `%s`; any other percent sign stays as it is."""
    return address.replace(PLACE_OF_BODY, quote_plus(body))


def seconds_or_none(duration_ns: int) -> float | None:
    """0 and less is no limit, as in Go."""
    return duration_ns / SECOND_NS if duration_ns > 0 else None


class HttpTarget:
    """POST or GET, by the options; follows redirects, ignores proxies of the environment."""

    def __init__(self, options: NsqToHttpOptions) -> None:
        self._is_post = bool(options.post)
        self._limit_s = seconds_or_none(options.request_timeout_ns)
        self._headers = {"user-agent": f"nsq_to_http v{NSQ_VERSION}"}
        if self._is_post:
            self._headers["content-type"] = options.content_type
        self._headers |= parse_headers(options.header)
        self._client = httpx.AsyncClient(
            follow_redirects=True,
            trust_env=False,
            verify=ssl.create_default_context(),
            timeout=httpx.Timeout(None, connect=seconds_or_none(options.connect_timeout_ns)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=options.n),
        )

    async def send(self, address: str, body: bytes) -> None:
        """StatusError or RequestFailedError unless the message is taken."""
        try:
            async with asyncio.timeout(self._limit_s):
                status = await self._status(address, body)
        except TimeoutError:
            raise RequestFailedError(f"{address}: no answer within {self._limit_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RequestFailedError(f"{address}: {str(error) or type(error).__name__}") from error
        if not (200 <= status < 300 if self._is_post else status == 200):
            raise StatusError(status)

    async def _status(self, address: str, body: bytes) -> int:
        request = self._client.stream(
            "POST" if self._is_post else "GET",
            address if self._is_post else get_url(address, body),
            content=body if self._is_post else None,
            headers=self._headers,
        )
        async with request as answer:
            read_bytes = 0
            async for chunk in answer.aiter_raw():
                read_bytes += len(chunk)
                if read_bytes > MAX_ANSWER_BYTES:
                    break
            return answer.status_code

    async def close(self) -> None:
        await self._client.aclose()
