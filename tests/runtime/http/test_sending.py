"""Files, by sendfile, through TLS, to clients that leave."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from nsqlake.runtime.http import FileResponse, Request, Route
from nsqlake.runtime.http.sending import FileSender
from nsqlake.runtime.tls_context import TlsContextHolder, build_server_context
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_client import request_bytes
from tests.fakes.loop_turns import next_turn, wait_until
from tests.fakes.tls_client import client_context
from tests.runtime.http.support import LOOPS, MemoryTransport, Running, run_on, scenario_on

CONTENT = bytes(range(256)) * 40_000  # 10 MB


class Files:
    """`/file` serves two parts of one file, and counts how often it was done."""

    def __init__(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(CONTENT)
        self.descriptor = os.open(path, os.O_RDONLY)
        self.done_count = 0
        self.parts = [(self.descriptor, 1_000, 9_000_000), (self.descriptor, 0, 0), (self.descriptor, 7, 500)]
        self.expected = CONTENT[1_000:9_001_000] + CONTENT[7:507]

    def answer(self, _: Request) -> FileResponse:
        return FileResponse(self.parts, "application/octet-stream", (("X-Next", "7"),), on_done=self.done)

    def done(self) -> None:
        self.done_count += 1


@pytest.fixture
def files(tmp_path) -> Iterator[Files]:
    files = Files(str(tmp_path / "content"))
    yield files
    os.close(files.descriptor)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture(params=[(loop, is_tls) for loop in LOOPS for is_tls in (False, True)], ids=str)
def serve(request, authority) -> Callable[..., None]:
    """Runs a scenario, which gets a function that connects, on both loops, with and without TLS."""
    loop, is_tls = request.param
    pair = authority.issue_server()
    tls = TlsContextHolder(lambda: build_server_context(pair.cert_file, pair.key_file)) if is_tls else None
    context = client_context(authority.ca_file) if is_tls else None

    def run(scenario, handler, **options) -> None:
        async def with_client(running: Running) -> None:
            await scenario(running, lambda: running.connect(context=context))

        route = Route("GET", "/file", handler, deadline_s=3.0)
        scenario_on(loop, with_client, routes=[route], tls=tls, **options)

    return run


def test_parts_of_files_are_sent_one_after_the_other(serve, files):
    async def scenario(_: Running, connect) -> None:
        client = await connect()
        client.send(request_bytes("GET", "/file") * 2 + request_bytes("GET", "/ping"))
        for _ in range(2):
            answer = await client.answer()
            assert answer.body == files.expected
            assert answer.headers["x-next"] == "7"
        assert (await client.answer()).body == b"OK"
        assert files.done_count == 2

    serve(scenario, files.answer)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_file_waits_for_the_answers_before_it(loop, files):
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            transport, ends = MemoryTransport(), []
            transport.socket, transport.unsent_bytes = ours, 5
            sender = FileSender(transport, FileResponse([(files.descriptor, 3, 9)], ""), ends.append)
            sender.start()
            for _ in range(20):
                await next_turn()
            with pytest.raises(BlockingIOError):
                theirs.recv(1)

            transport.unsent_bytes = 0
            await wait_until(lambda: ends == [True])

            assert theirs.recv(100) == CONTENT[3:12]

    run_on(loop, scenario())


def test_no_parts_are_an_empty_answer(serve, files):
    files.parts = []

    async def scenario(_: Running, connect) -> None:
        client = await connect()
        assert (await client.ask("GET", "/file")).body == b""
        assert (await client.ask("GET", "/ping")).body == b"OK"
        assert files.done_count == 1

    serve(scenario, files.answer)


def test_a_file_that_is_too_short_breaks_the_connection(serve, files, caplog):
    files.parts = [(files.descriptor, len(CONTENT) - 10, 20)]

    async def scenario(running: Running, connect) -> None:
        client = await connect()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.ask("GET", "/file")
        await wait_until(lambda: not running.server.connections)
        assert files.done_count == 1

    serve(scenario, files.answer)
    assert "shorter than the answer" in caplog.text


def test_a_file_whose_client_leaves_is_done_once(serve, files):
    async def scenario(running: Running, connect) -> None:
        client = await connect()
        client.writer.transport.pause_reading()
        client.send(request_bytes("GET", "/file"))
        await wait_until(lambda: any(getattr(each, "_sender", None) for each in running.server.connections))
        client.writer.transport.abort()
        await wait_until(lambda: not running.server.connections)
        assert files.done_count == 1

    serve(scenario, files.answer)


def test_a_file_that_is_not_read_is_given_up(serve, files):
    async def scenario(running: Running, connect) -> None:
        client = await connect()
        client.writer.transport.pause_reading()
        client.send(request_bytes("GET", "/file"))
        await wait_until(lambda: any(getattr(each, "_sender", None) for each in running.server.connections))
        for _ in range(200):
            await asyncio.sleep(0)
        for _ in range(5):
            running.server.sweep(29)
        await wait_until(lambda: not running.server.connections)
        assert files.done_count == 1

    serve(scenario, files.answer)


def test_a_file_over_the_deadline_of_its_route_is_sent_on(serve, files):
    async def scenario(running: Running, connect) -> None:
        client = await connect()
        client.send(request_bytes("GET", "/file"))
        await wait_until(lambda: any(getattr(each, "_sender", None) for each in running.server.connections))
        running.server.sweep(20)
        assert (await client.answer()).body == files.expected

    serve(scenario, files.answer)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_of_a_file_may_end_the_connection(serve, files, version):
    async def scenario(_: Running, connect) -> None:
        client = await connect()
        client.send(request_bytes("GET", "/file", headers={"Connection": "close"}, version=version))
        assert (await client.answer()).body == files.expected
        assert await client.rest() == b""

    serve(scenario, files.answer)
