"""`HttpCaller` against real servers on loopback."""

import asyncio
import base64
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest

from nsqlake.cluster.addresses import HttpAddress, parse_http_address
from nsqlake.cluster.errors import RequestError, StatusError
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_answers import LookupAnswer, TopicsAnswer
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import FakeHttpServer, answer

TOPICS = answer({"topics": ["a"]})


def address_of(text: str) -> HttpAddress:
    return parse_http_address(text, default_port=1)


async def topics(text: str, **options: object) -> list[str]:
    async with HttpCaller(**options) as caller:
        return (await caller.get(address_of(text), "/topics", TopicsAnswer)).topics


def run_with_server(scenario: Callable[[FakeHttpServer], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with FakeHttpServer(**options) as server:
            server.answers["/topics"] = TOPICS
            await scenario(server)

    asyncio.run(run())


@pytest.fixture
def authority(tmp_path) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path))


def trust(authority: CertificateAuthority) -> Callable[[], ssl.SSLContext]:
    return lambda: ssl.create_default_context(cafile=authority.ca_file)


def test_question_and_answer() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        assert await topics(server.address) == ["a"]

        (request,) = server.requests
        assert (request.method, request.target) == ("GET", "/topics")
        assert request.headers["accept"] == "application/vnd.nsq; version=1.0"
        assert "authorization" not in request.headers

    run_with_server(scenario)


def test_post_carries_its_parameters_in_the_query() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topic/create"] = answer()
        async with HttpCaller() as caller:
            await caller.post(address_of(server.address), "/topic/create", {"topic": "a#ephemeral"})

        assert server.requests[0].method == "POST"
        assert server.requests[0].params == {"topic": "a#ephemeral"}

    run_with_server(scenario)


def test_token_is_sent_to_servers_without_a_user_of_their_own() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        await topics(server.address, bearer_token="sécret")
        await topics(f"http://me:p%20w@{server.address}", bearer_token="sécret")

        sent = [request.headers["authorization"].encode("latin-1") for request in server.requests]
        assert sent == ["Bearer sécret".encode(), b"Basic " + base64.b64encode(b"me:p w")]

    run_with_server(scenario)


def test_token_that_no_header_takes_is_not_shown() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        with pytest.raises(RequestError) as caught:
            await topics(server.address, bearer_token="hidden\r\nX: y")

        assert "hidden" not in str(caught.value)
        assert server.requests == []

    run_with_server(scenario)


def test_nothing_is_logged_that_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: FakeHttpServer) -> None:
        await topics(f"http://me:hidden@{server.address}/?key=hidden", bearer_token="hidden")

    with caplog.at_level(logging.INFO):
        run_with_server(scenario)

    assert "hidden" not in caplog.text


def test_other_status_is_an_error_with_the_answer() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer({"message": "BROKEN"}, 500)

        with pytest.raises(StatusError) as caught:
            await topics(server.address)

        assert caught.value.status == 500
        assert str(caught.value) == 'got response 500 Internal Server Error "{\\"message\\": \\"BROKEN\\"}"'

    run_with_server(scenario)


def test_refused_connection_reads_as_in_nsqs_tools() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"

    with pytest.raises(RequestError) as caught:
        asyncio.run(topics(address))

    text = f'Get "http://{address}/topics": dial tcp {address}: connect: connection refused'
    assert str(caught.value) == text
    assert caught.value.address == address


def test_unknown_host_reads_as_in_nsqs_tools() -> None:
    with pytest.raises(RequestError) as caught:
        asyncio.run(topics("no-such-host.invalid:1"))

    assert caught.value.reason == "dial tcp: lookup no-such-host.invalid: no such host"


@pytest.mark.parametrize("host", ["xn--a", "a" * 300, "exämple..invalid"])
def test_impossible_host_is_an_error(host: str) -> None:
    with pytest.raises(RequestError):
        asyncio.run(topics(f"{host}:1"))


def test_whole_question_is_limited_in_time() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.stalled.add("/topics")

        with pytest.raises(RequestError, match=r"no reply within 0\.05 s"):
            await topics(server.address, request_timeout_s=0.05)

    run_with_server(scenario)


def test_answer_is_limited_in_size() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer({"topics": ["a" * 1_000]})

        assert await topics(server.address, max_reply_bytes=2_000)
        with pytest.raises(RequestError, match="reply larger than 1000 bytes"):
            await topics(server.address, max_reply_bytes=1_000)

    run_with_server(scenario)


def test_compressed_answer_is_refused() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer(b"x", headers="Content-Encoding: gzip\r\n")

        with pytest.raises(RequestError, match="compressed reply"):
            await topics(server.address)

    run_with_server(scenario)


@pytest.mark.parametrize(
    "junk", [b"", b"\x00\xff", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"SSH-2.0\r\n"]
)
def test_what_is_not_http_is_an_error(junk: bytes) -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = junk

        with pytest.raises(RequestError) as caught:
            await topics(server.address)
        assert str(caught.value).isprintable()

    run_with_server(scenario)


def test_answer_to_another_question_is_an_error() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        async with HttpCaller() as caller:
            with pytest.raises(RequestError, match="invalid answer"):
                await caller.get(address_of(server.address), "/topics", LookupAnswer)

    run_with_server(scenario)


def test_answer_without_the_mark_of_1_0_may_be_wrapped() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer({"status_code": 200, "data": {"topics": ["old"]}}, headers="")

        assert await topics(server.address) == ["old"]

    run_with_server(scenario)


def test_redirect_within_the_server_is_followed() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer(status=301, headers="Location: /TOPICS?x=1\r\n")
        server.answers["/TOPICS"] = answer({"topics": ["moved"]})

        assert await topics(server.address) == ["moved"]
        assert server.requests[1].target == "/TOPICS?x=1"

    run_with_server(scenario)


def test_redirect_to_another_server_is_not_followed() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        async with FakeHttpServer() as other:
            location = f"Location: http://{other.address}/topics\r\n"
            server.answers["/topics"] = answer(status=302, headers=location)

            with pytest.raises(StatusError):
                await topics(server.address, bearer_token="secret")
            assert other.requests == []

    run_with_server(scenario)


def test_redirects_have_an_end() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer(status=307, headers="Location: /topics\r\n")

        with pytest.raises(RequestError, match="redirected more than 3 times"):
            await topics(server.address)
        assert len(server.requests) == 4

    run_with_server(scenario)


def test_https_is_verified(authority: CertificateAuthority) -> None:
    async def scenario(server: FakeHttpServer) -> None:
        assert await topics(f"https://{server.address}", ssl_context=trust(authority)) == ["a"]
        with pytest.raises(RequestError, match="tls: failed to verify certificate"):
            await topics(f"https://{server.address}")

    run_with_server(scenario, pair=authority.issue_server())


def test_trust_that_cannot_be_made_is_an_error_of_the_question(authority: CertificateAuthority) -> None:
    async def scenario(server: FakeHttpServer) -> None:
        with pytest.raises(RequestError, match="tls: "):
            await topics(
                f"https://{server.address}",
                ssl_context=lambda: ssl.create_default_context(cafile="/nowhere/ca.pem"),
            )

    run_with_server(scenario, pair=authority.issue_server())


def test_server_that_wants_tls_is_asked_on_the_port_it_names(authority: CertificateAuthority) -> None:
    async def scenario(server: FakeHttpServer) -> None:
        async with FakeHttpServer(authority.issue_server()) as secure:
            secure.answers["/topics"] = answer({"topics": ["secure"]})
            refusal = {"message": "TLS_REQUIRED", "https_port": secure.port}
            server.answers["/topics"] = answer(refusal, 403)

            assert await topics(server.address, ssl_context=trust(authority)) == ["secure"]

    run_with_server(scenario)


@pytest.mark.parametrize(
    "content", [b"no JSON", {}, {"https_port": 0}, {"https_port": 70_000}, {"https_port": "1"}]
)
def test_403_without_a_port_is_a_refusal(content: object) -> None:
    async def scenario(server: FakeHttpServer) -> None:
        server.answers["/topics"] = answer(content, 403)

        with pytest.raises(StatusError) as caught:
            await topics(server.address)
        assert caught.value.status == 403

    run_with_server(scenario)


def test_many_questions_may_be_asked_at_once() -> None:
    async def scenario(server: FakeHttpServer) -> None:
        async with HttpCaller() as caller:
            questions = [caller.get(address_of(server.address), "/topics", TopicsAnswer) for _ in range(5)]
            assert len(await asyncio.gather(*questions)) == 5

    run_with_server(scenario)
