"""`is_local`."""

import pytest

from nsqlake.nsqd.http.locality import is_local
from nsqlake.runtime.addresses import host_name
from nsqlake.runtime.http import HttpLimits, Peer, Request, Response, Route, Router
from nsqlake.runtime.http.head import HeadParser

ROUTER = Router([Route("POST", "/x", lambda _: Response())])


def new_request(host: str | None, origin: str = "", **peer: object) -> Request:
    lines = ["POST /x HTTP/1.0", *([f"Host: {host}"] if host is not None else [])]
    lines += [f"Origin: {origin}"] if origin else []
    head = "\r\n".join([*lines, "", ""]).encode()
    defaults = {"ip": "127.0.0.1", "address": "127.0.0.1:5", "is_loopback": True}
    return Request(HeadParser(ROUTER, HttpLimits()).parse(head), b"", Peer(**{**defaults, **peer}))


@pytest.mark.parametrize(
    "host",
    [None, "localhost", "LOCALHOST:4151", "127.0.0.1:4151", "[::1]:4151", "[::1]", "10.0.0.7", host_name()],
)
def test_tools_on_this_machine_are_local(host: str | None) -> None:
    assert is_local(new_request(host))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4151", "localhost.evil.example", "a:b:c"])
def test_a_strangers_name_for_this_machine_is_not(host: str) -> None:
    assert not is_local(new_request(host))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:4151"])
def test_what_a_browser_was_told_to_send_is_not(origin: str) -> None:
    assert not is_local(new_request("localhost:4151", origin))


def test_other_machines_are_not() -> None:
    assert not is_local(new_request("localhost", ip="10.0.0.7", is_loopback=False))


def test_whoever_may_use_the_unix_socket_is() -> None:
    assert is_local(new_request("nsqd.sock", ip="", address="@"))
