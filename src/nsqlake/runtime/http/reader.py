"""Bytes in, requests out: no socket, no time. Any bytes yield requests, `BodyTooBig` or an HttpError."""

import re

from nsqlake.runtime.http.chunked import ChunkedBody
from nsqlake.runtime.http.errors import HttpError
from nsqlake.runtime.http.head import CHUNKED, HEAD_END, HeadParser, RequestHead

__all__ = ["BodyTooBig", "RequestReader"]

_BARE_LF = re.compile(rb"(?<!\r)\n")


class BodyTooBig(Exception):  # noqa: N818  not an error of ours: the connection turns it into the route's own
    """The body exceeds what the route takes; it was not read."""

    def __init__(self, head: RequestHead) -> None:
        super().__init__(head.target.path)
        self.head = head


class RequestReader:
    """Cuts one connection's input into requests. After it raised, nothing it was fed makes sense any more."""

    def __init__(self, parser: HeadParser) -> None:
        self._parser = parser
        self._known = parser.known
        self._data = b""
        self._at = 0
        self._seen = 0  # how far an unfinished head was looked at, so that a trickle of bytes costs little
        self._head: RequestHead | None = None  # whose body is being read
        self._body = bytearray()
        self._chunked: ChunkedBody | None = None
        self.body = b""  # of the request that `next_request` returned

    @property
    def pending_bytes(self) -> int:
        return len(self._data) - self._at + len(self._body if self._chunked is None else self._chunked.body)

    @property
    def is_empty(self) -> bool:
        return self._head is None and self._at == len(self._data)

    @property
    def is_in_body(self) -> bool:
        return self._head is not None

    @property
    def has_more(self) -> bool:
        """There may be enough for `next_request` already, but others are to have their turn first."""
        return self._chunked is not None and self._chunked.has_more

    @property
    def awaits_continue(self) -> bool:
        """The client waits to be told that it may send the body."""
        head = self._head
        return head is not None and head.expects_continue and self.pending_bytes == 0

    def take_whole(self, data: bytes) -> RequestHead | None:
        """The head of the request that `data` is, no more and no less, if the like was seen before.

        Only while the reader is empty. Almost every request of a busy client goes this way.
        """
        body_start = data.find(HEAD_END) + len(HEAD_END)
        head = self._known.get(data[:body_start])
        if head is None or body_start + head.content_length != len(data):
            return None
        self.body = data[body_start:] if head.target.route.max_body_bytes else b""
        return head

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._seen = max(0, self._seen - self._at)
        self._at = 0

    def next_request(self) -> RequestHead | None:
        """The next complete request, its body in `body`; None when more input is needed."""
        head = self._head or self._next_head()
        if head is None:
            return None
        chunked = self._chunked
        is_complete = self._read_body(head) if chunked is None else self._read_chunks(chunked, head)
        if self._at == len(self._data):
            self._data, self._at = b"", 0  # an idle connection holds on to nothing
        if not is_complete:
            return None
        self._head = None
        return head

    def _next_head(self) -> RequestHead | None:
        while self._data.startswith(b"\r\n", self._at):  # some clients end a body with a line too many
            self._at += 2
        start = max(self._at, self._seen - len(HEAD_END) + 1)
        end = self._data.find(HEAD_END, start, self._at + self._parser.header_bytes)
        if end < 0:
            self._refuse_early()
            return None
        end += len(HEAD_END)
        data = self._data[self._at : end]
        head = self._known.get(data) or self._parser.parse(data)
        self._at = end
        if head.content_length > head.target.body_limit_bytes:
            raise BodyTooBig(head)
        self._head = head
        self._body.clear()
        self._chunked = ChunkedBody(head.target.body_limit_bytes) if head.content_length == CHUNKED else None
        return head

    def _refuse_early(self) -> None:
        """What can be no head any more is not waited for."""
        if len(self._data) - self._at >= self._parser.header_bytes:
            raise HttpError(431, "HEADERS_TOO_BIG")
        if _BARE_LF.search(self._data, max(self._at, self._seen)):
            raise HttpError(400, "BAD_REQUEST")
        self._seen = len(self._data)

    def _read_body(self, head: RequestHead) -> bool:
        missing = head.content_length - len(self._body)
        piece = self._data[self._at : self._at + missing]
        self._at += len(piece)
        if len(piece) < missing:
            self._body += piece
            return False
        is_wanted = head.target.route.max_body_bytes
        if self._body:
            self._body += piece
            piece = bytes(self._body)
            self._body.clear()
        self.body = piece if is_wanted else b""
        return True

    def _read_chunks(self, chunked: ChunkedBody, head: RequestHead) -> bool:
        self._at = chunked.feed(self._data, self._at)
        if chunked.is_too_big:
            raise BodyTooBig(head)
        if chunked.is_done:
            self.body = bytes(chunked.body) if head.target.route.max_body_bytes else b""
            self._chunked = None
        return chunked.is_done
