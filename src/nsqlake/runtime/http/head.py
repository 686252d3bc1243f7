"""The head of a request, read strictly: whatever two servers might read differently is refused."""

import re

from nsqlake.runtime.http.errors import HttpError
from nsqlake.runtime.http.limits import HttpLimits
from nsqlake.runtime.http.router import Router, Target

__all__ = ["CHUNKED", "HEAD_END", "HeadParser", "RequestHead"]

HEAD_END = b"\r\n\r\n"
CHUNKED = -1  # the content length of a body that comes in chunks
MAX_CACHED_HEADS = 1_024
MAX_CACHED_HEAD_BYTES = 1_024

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb"{1,32}) ([!-~\x80-\xff]+) HTTP/([0-9])\.([0-9])\r\n")
# No blank before the colon, no folded line, no bare CR or LF, no control characters.
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb"+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*\r\n")
# Blanks around a value are cut off later: an expression that does it takes half a second for 16 KiB of them.
_FIELD = re.compile(rb"([^:]+):([^\r]*)\r\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
_SINGLE = ("content-length", "host", "transfer-encoding", "expect")


class RequestHead:
    """Everything about a request but its body."""

    __slots__ = (
        "content_length",
        "expects_continue",
        "headers",
        "is_http_10",
        "is_ordinary",
        "keeps_alive",
        "method",
        "target",
    )

    def __init__(self, method: str, target: Target, headers: dict[str, str], minor: int) -> None:
        self.method, self.target, self.headers = method, target, headers
        self.is_http_10 = minor == 0
        self.content_length = _content_length(headers, self.is_http_10)
        self.expects_continue = _expects_continue(headers) and not self.is_http_10
        self.keeps_alive = _keeps_alive(headers, self.is_http_10)
        # Its answer has the usual head, which may be ready made.
        self.is_ordinary = (
            self.keeps_alive and not self.is_http_10 and method != "HEAD" and not target.route.plain
        )


class HeadParser:
    """Parses heads, once for those that come again and again: `known` has them by their bytes."""

    def __init__(self, router: Router, limits: HttpLimits) -> None:
        self._router, self._limits = router, limits
        self.header_bytes = limits.header_bytes
        self.known: dict[bytes, RequestHead] = {}

    def parse(self, data: bytes) -> RequestHead:
        """`data` ends with the empty line; HttpError if it is not a head this server takes."""
        line = _REQUEST_LINE.match(data)
        if line is None:
            raise HttpError(400, "BAD_REQUEST")
        if line[3] != b"1":
            raise HttpError(505, "VERSION_NOT_SUPPORTED")
        if len(line[2]) > self._limits.url_bytes:
            raise HttpError(414, "URI_TOO_LONG")
        if _FIELDS.fullmatch(data, line.end()) is None:
            raise HttpError(400, "BAD_REQUEST")
        headers = self._headers(data, line.end())
        minor = int(line[4])
        if minor and not headers.get("host"):
            raise HttpError(400, "BAD_REQUEST")
        method = line[1].decode("ascii")
        target = self._router.resolve(method, line[2].decode("latin-1"))
        head = RequestHead(method, target, headers, minor)
        self._remember(data, head)
        return head

    def _headers(self, data: bytes, start: int) -> dict[str, str]:
        fields = _FIELD.findall(data, start)
        if len(fields) > self._limits.headers:
            raise HttpError(431, "HEADERS_TOO_BIG")
        headers: dict[str, str] = {}
        for raw_name, raw_value in fields:
            name, value = raw_name.lower().decode("ascii"), raw_value.strip(b" \t").decode("latin-1")
            if name in headers:
                if name in _SINGLE:
                    raise HttpError(400, "BAD_REQUEST")
                value = f"{headers[name]}, {value}"
            headers[name] = value
        return headers

    def _remember(self, data: bytes, head: RequestHead) -> None:
        is_small = head.content_length <= head.target.body_limit_bytes
        if len(data) > MAX_CACHED_HEAD_BYTES or head.expects_continue or not is_small:
            return
        if len(self.known) >= MAX_CACHED_HEADS:
            self.known.clear()
        self.known[data] = head


def _content_length(headers: dict[str, str], is_http_10: bool) -> int:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None or is_http_10:
            raise HttpError(400, "BAD_REQUEST")
        if coding.lower() != "chunked":
            raise HttpError(501, "NOT_IMPLEMENTED")
        return CHUNKED
    if length is None:
        return 0
    if _LENGTH.fullmatch(length) is None:
        raise HttpError(400, "BAD_REQUEST")
    return int(length)


def _expects_continue(headers: dict[str, str]) -> bool:
    expectation = headers.get("expect")
    if expectation is None:
        return False
    if expectation.lower() != "100-continue":
        raise HttpError(417, "EXPECTATION_FAILED")
    return True


def _keeps_alive(headers: dict[str, str], is_http_10: bool) -> bool:
    options = headers.get("connection")
    if options is None:
        return not is_http_10
    words = {word.strip().lower() for word in options.split(",")}
    return "close" not in words and (not is_http_10 or "keep-alive" in words)
