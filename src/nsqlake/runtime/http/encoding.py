"""Answers as bytes: heads in Go's order and spelling."""

import time
from email.utils import formatdate
from http import HTTPStatus

from nsqlake.runtime.http.errors import Headers
from nsqlake.runtime.http.head import RequestHead
from nsqlake.runtime.http.response import FileResponse, Response

__all__ = ["CONTINUE", "ResponseEncoder"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NSQ_HEADER = ("X-Nsq-Content-Type", "nsq; version=1.0")
MAX_CACHED_STARTS = 256

_GO_REASONS = {
    413: "Request Entity Too Large",
    414: "Request URI Too Long",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
}
_REASONS = {status.value: status.phrase for status in HTTPStatus} | _GO_REASONS


class ResponseEncoder:
    """Encodes answers; what many have in common is kept. `tick` once a second keeps the date right."""

    def __init__(self) -> None:
        self._starts: dict[tuple[int, str, bool], bytes] = {}
        self.tick()

    def tick(self) -> None:
        self._date = f"Date: {formatdate(time.time(), usegmt=True)}\r\n".encode()

    def encode(self, response: Response, head: RequestHead) -> bytes:
        """The whole of a plain answer that leaves the connection open."""
        if not head.is_ordinary:
            return self.encode_head(response, head, keeps_alive=head.keeps_alive) + (
                b"" if head.method == "HEAD" else response.body
            )
        if response.encoded_on is not self._date:
            start = self._start(response, is_plain=False)
            length = len(response.body)
            response.encoded = b"%b%bContent-Length: %d\r\n\r\n%b" % (
                start,
                self._date,
                length,
                response.body,
            )
            response.encoded_on = self._date
        return response.encoded

    def encode_head(self, response: Response, head: RequestHead | None, *, keeps_alive: bool) -> bytes:
        """The head alone, for whatever body the answer has; `head` is None when the request had none."""
        is_http_10 = head is not None and head.is_http_10
        parts = [self._start(response, is_plain=head is not None and head.target.route.plain), self._date]
        if is_http_10:
            parts[0] = parts[0].replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        length = response.count if isinstance(response, FileResponse) else len(response.body)
        parts.append(b"Content-Length: %d\r\n" % length)
        if not keeps_alive:
            parts.append(b"Connection: close\r\n")
        elif is_http_10:
            parts.append(b"Connection: keep-alive\r\n")
        return b"".join([*parts, b"\r\n"])

    def _start(self, response: Response, *, is_plain: bool) -> bytes:
        """Status line and the headers that the handler decides."""
        if response.headers:
            return _encode_start(response, response.headers, is_plain)
        key = (response.status, response.content_type, is_plain)
        start = self._starts.get(key)
        if start is None:
            if len(self._starts) >= MAX_CACHED_STARTS:
                self._starts.clear()
            start = self._starts[key] = _encode_start(response, (), is_plain)
        return start


def _encode_start(response: Response, headers: Headers, is_plain: bool) -> bytes:
    if response.content_type:
        headers = (*headers, ("Content-Type", response.content_type))
    if not is_plain:
        headers = (*headers, NSQ_HEADER)
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in sorted(headers)]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header of an answer holds a line break")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")
