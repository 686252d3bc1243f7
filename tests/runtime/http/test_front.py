"""The HTTP and HTTPS listeners of a daemon."""

import asyncio

import pytest

from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.http import HttpError, Route, Router, error_response, text_response
from nsqlake.runtime.http.front import HttpFront
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder, build_server_context
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_client import HttpClient
from tests.fakes.tls_client import client_context

ANY = "127.0.0.1:0"
ROUTER = Router([Route("GET", "/ping", lambda _: text_response("OK"))])
REFUSAL = error_response(HttpError(403, "TLS_REQUIRED"))


def new_front(http: str = ANY, https: str = "", tls: TlsContextHolder | None = None, **options) -> HttpFront:
    return HttpFront(
        http, https, tasks=TaskSupervisor(), tls=tls, budget=InputBudget(1_000), limit=10, **options
    )


def test_both_listeners_serve_and_are_counted(tmp_path):
    authority = CertificateAuthority(str(tmp_path))
    pair = authority.issue_server()
    tls = TlsContextHolder(lambda: build_server_context(pair.cert_file, pair.key_file))
    ports = []

    async def scenario() -> None:
        front = new_front(ANY, ANY, tls, gate=lambda port: ports.append(port) or (lambda _: REFUSAL))
        front.start(ROUTER)
        plain = await HttpClient.connect(front.http_port)
        secure = await HttpClient.connect(front.https_port, client_context(authority.ca_file))
        assert (await plain.ask("GET", "/ping")).status == 403
        assert (await secure.ask("GET", "/ping")).body == b"OK"
        assert ports == [front.https_port]
        assert front.open_counts() == front.accepted_counts() == {"http": 1, "https": 1}
        assert front.connection_counts() == {False: 1, True: 1}
        await front.close(1.0)
        assert await plain.rest() == b""
        await plain.close()
        await secure.close()

    asyncio.run(scenario())


def test_nothing_listens_where_no_address_is_given():
    async def scenario() -> None:
        front = new_front("", ANY)
        assert (front.http_port, front.https_port, front.http_address) == (0, 0, "")

    asyncio.run(scenario())


def test_an_address_that_is_taken_leaves_nothing_bound():
    async def scenario() -> None:
        first = new_front()
        with pytest.raises(StartupError, match="address already in use"):
            new_front(first.http_address)
        first.stop_accepting()

    asyncio.run(scenario())
