import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from nsqlake.apps.nsq_to_http.http_target import HttpTarget, RequestFailedError, StatusError, get_url
from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions
from tests.fakes.http_sink import SinkAnswer, SunkRequest, running_sink


def send(body: bytes, *addresses: str, **options: Any) -> None:
    async def scenario() -> None:
        target = HttpTarget(NsqToHttpOptions(**options))
        try:
            for address in addresses or options.get("post") or options["get"]:
                await target.send(address, body)
        finally:
            await target.close()

    asyncio.run(scenario())


def always(status: int, *headers: tuple[str, str], body: bytes = b"") -> Callable[[SunkRequest], SinkAnswer]:
    return lambda request: SinkAnswer(status, headers, body)


def test_a_post_carries_the_body_as_it_is() -> None:
    with running_sink() as sink:
        send(b"\x00\xff", post=(f"{sink.url}/x",), content_type="text/plain")

    request = sink.requests[0]
    assert (request.method, request.target, request.body) == ("POST", "/x", b"\x00\xff")
    assert (request.headers["content-type"], request.headers["user-agent"]) == (
        "text/plain",
        "nsq_to_http v1.3.0",
    )


def test_headers_replace_the_default_ones() -> None:
    with running_sink() as sink:
        send(b"x", post=(sink.url,), header=("User-Agent:mine", "Content-Type: a/b", "X-More: yes"))

    headers = sink.requests[0].headers
    assert [headers[name] for name in ("user-agent", "content-type", "x-more")] == ["mine", "a/b", "yes"]


def test_a_get_carries_the_body_in_its_url() -> None:
    with running_sink() as sink:
        send(b"a b&c\xff+%/~", get=(f"{sink.url}/a%20b?x=%s&y=%2F",))

    request = sink.requests[0]
    assert (request.method, request.target) == ("GET", "/a%20b?x=a+b%26c%FF%2B%25%2F~&y=%2F")
    assert "content-type" not in request.headers


def test_only_the_place_of_the_body_is_replaced() -> None:
    assert get_url("http://a/%20%d?%s", b"%s %") == "http://a/%20%d?%25s+%25"


@pytest.mark.parametrize("status", [200, 201, 204])
def test_any_success_takes_a_post(status: int) -> None:
    with running_sink(always(status)) as sink:
        send(b"x", post=(sink.url,))


@pytest.mark.parametrize("status", [302, 400, 500])
def test_anything_else_refuses_a_post(status: int) -> None:
    with running_sink(always(status)) as sink, pytest.raises(StatusError) as caught:
        send(b"x", post=(sink.url,))

    assert str(caught.value) == f"got status code {status}"


def test_only_200_takes_a_get() -> None:
    with running_sink(always(204)) as sink, pytest.raises(StatusError, match="got status code 204"):
        send(b"x", get=(f"{sink.url}/%s",))


def test_redirects_are_followed() -> None:
    def answer(request: SunkRequest) -> SinkAnswer:
        return SinkAnswer(307, (("Location", "/there"),)) if request.target == "/" else SinkAnswer()

    with running_sink(answer) as sink:
        send(b"x", post=(sink.url,))

    assert [(request.target, request.body) for request in sink.requests] == [("/", b"x"), ("/there", b"x")]


def test_a_long_answer_is_not_read_to_its_end() -> None:
    with running_sink(always(200, body=b"x" * 50_000_000)) as sink:
        send(b"x", post=(sink.url,))


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "nonsense", "http://", "ftp://a/"])
def test_an_address_that_cannot_be_reached_fails(address: str) -> None:
    with pytest.raises(RequestFailedError, match=address):
        send(b"x", post=(address,))


def test_a_request_takes_only_so_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        with pytest.raises(RequestFailedError, match=r"no answer within 0\.05 s"):
            send(b"x", post=(url,), request_timeout_ns=50_000_000)


def test_a_limit_of_0_is_no_limit() -> None:
    with running_sink() as sink:
        send(b"x", post=(sink.url,), request_timeout_ns=0, connect_timeout_ns=0)

    assert sink.bodies == [b"x"]
