"""Requests as handlers get them, without a connection."""

from nsqlake.runtime.http import HttpLimits, Peer, Request, Response, Route, Router
from nsqlake.runtime.http.head import HeadParser
from tests.fakes.http_client import request_bytes


def new_request(
    target: str = "/x", body: bytes = b"", headers: dict[str, str] | None = None, **peer: object
) -> Request:
    path = target.partition("?")[0]
    router = Router([Route("POST", path, lambda _: Response())])
    head = request_bytes("POST", target, b"", headers)
    defaults = {"ip": "10.0.0.7", "address": "10.0.0.7:5", "is_loopback": False}
    return Request(HeadParser(router, HttpLimits()).parse(head), body, Peer(**{**defaults, **peer}))
