"""The small HTTP/1.1 server of the daemons."""

from nsqlake.runtime.http.errors import Headers, HttpError
from nsqlake.runtime.http.go_json import encode_json
from nsqlake.runtime.http.limits import HttpLimits
from nsqlake.runtime.http.request import Params, Peer, Request
from nsqlake.runtime.http.response import (
    FilePart,
    FileResponse,
    Later,
    Response,
    error_response,
    json_response,
    text_response,
)
from nsqlake.runtime.http.router import Handler, Route, Router
from nsqlake.runtime.http.server import HttpServer

__all__ = [
    "FilePart",
    "FileResponse",
    "Handler",
    "Headers",
    "HttpError",
    "HttpLimits",
    "HttpServer",
    "Later",
    "Params",
    "Peer",
    "Request",
    "Response",
    "Route",
    "Router",
    "encode_json",
    "error_response",
    "json_response",
    "text_response",
]
