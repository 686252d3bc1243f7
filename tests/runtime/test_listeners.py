"""`Listener` on both loops, with real sockets."""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import cast

import pytest
import uvloop

from nsqlake.runtime.listeners import Listener, OnClosed, connection_limit, raise_descriptor_limit
from nsqlake.runtime.tasks import TaskSupervisor
from tests.fakes.loop_turns import next_turn, wait_until


class Greeter(asyncio.Protocol):
    """Says hello, closes when the client does."""

    def __init__(self, on_closed: OnClosed) -> None:
        self._on_closed = on_closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_closed()
        self._on_closed()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    def run_on_loop(scenario: Coroutine[object, object, object]) -> object:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(scenario)

    return run_on_loop


@contextlib.asynccontextmanager
async def listening(
    address: str = "127.0.0.1:0", factory=Greeter, **options: float
) -> AsyncIterator[Listener]:
    supervisor = TaskSupervisor()
    listener = Listener("TCP", address, factory, supervisor=supervisor, **options)
    listener.start()
    try:
        yield listener
    finally:
        listener.close()
        await supervisor.close()


async def connect(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", listener.port)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def test_connections_are_served_and_counted(run, caplog):
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with listening() as listener:
            clients = [await connect(listener) for _ in range(100)]
            assert [await reader.readexactly(5) for reader, _ in clients] == [b"hello"] * 100
            assert listener.open_count == 100
            for _, writer in clients:
                await hang_up(writer)
            await wait_until(lambda: listener.open_count == 0)
            assert f"TCP: listening on 127.0.0.1:{listener.port}" in caplog.text

    run(scenario())


def test_small_writes_are_not_delayed(run):
    async def scenario() -> None:
        protocols = []

        def factory(on_closed: OnClosed) -> Greeter:
            protocols.append(Greeter(on_closed))
            return protocols[-1]

        async with listening(factory=factory) as listener:
            reader, writer = await connect(listener)
            await reader.readexactly(5)
            accepted = protocols[0].transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            await hang_up(writer)
            await wait_until(lambda: listener.open_count == 0)

    run(scenario())


def test_beyond_the_limit_connections_wait_until_one_closes(run, caplog):
    async def scenario() -> None:
        async with listening(limit=2) as listener:
            clients = [await connect(listener) for _ in range(4)]
            await clients[1][0].readexactly(5)
            await wait_until(lambda: not listener.is_accepting)
            assert listener.open_count == 2

            await hang_up(clients[0][1])
            assert await clients[2][0].readexactly(5) == b"hello"
            assert listener.open_count == 2
            await hang_up(clients[1][1])
            assert await clients[3][0].readexactly(5) == b"hello"
            for _, writer in clients[2:]:
                await hang_up(writer)
            await wait_until(lambda: listener.open_count == 0)
            assert listener.is_accepting

    run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["TCP: connection limit reached limit=2"]


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                fillers.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for filler in fillers:
            os.close(filler)


def test_a_lack_of_descriptors_pauses_accepting_and_is_logged_once(run, caplog):
    async def scenario() -> None:
        async with listening(exhausted_pause_s=0.02) as listener:
            with socket.create_connection(("127.0.0.1", listener.port)) as client:
                client.setblocking(False)
                with no_descriptors_left():
                    for _ in range(3):
                        await wait_until(lambda: not listener.is_accepting)
                        await wait_until(lambda: listener.is_accepting)
                assert listener.open_count == 0
                assert await asyncio.get_running_loop().sock_recv(client, 5) == b"hello"
            await wait_until(lambda: listener.open_count == 0)

    run(scenario())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["TCP: paused accepting connections reason=Too many open files"]


def test_a_protocol_that_cannot_be_made_costs_neither_place_nor_descriptor(run, caplog):
    def factory(on_closed: OnClosed) -> Greeter:
        raise ValueError("no protocol today")

    async def scenario() -> None:
        async with listening(factory=factory, limit=1) as listener:
            for _ in range(3):
                reader, writer = await connect(listener)
                assert await reader.read() == b""
                await hang_up(writer)
            await wait_until(lambda: listener.open_count == 0)

    run(scenario())
    assert caplog.text.count("ValueError: no protocol today") == 3


def test_a_connection_still_being_accepted_at_shutdown_is_closed(run):
    async def scenario() -> None:
        async with listening() as listener:
            with socket.create_connection(("127.0.0.1", listener.port)) as client:
                listener._accept_ready()
                assert listener.open_count == 1
                listener.close()
                await listener._supervisor.close()
                await wait_until(lambda: listener.open_count == 0)
                assert client.recv(1) == b""

    run(scenario())


def test_close_refuses_new_connections_and_keeps_the_open_ones(run):
    async def scenario() -> None:
        async with listening() as listener:
            reader, writer = await connect(listener)
            await reader.readexactly(5)
            listener.close()
            listener.close()
            with pytest.raises(ConnectionRefusedError):
                await connect(listener)
            assert listener.open_count == 1
            await hang_up(writer)
            await wait_until(lambda: listener.open_count == 0)
            assert not listener.is_accepting

    run(scenario())


def test_closing_during_a_pause_ends_the_pause(run):
    async def scenario() -> None:
        async with listening(exhausted_pause_s=0.001) as listener:
            listener._pause_accepting(OSError(24, "Too many open files"))
            listener.close()
            await next_turn()
            assert not listener.is_accepting

    run(scenario())


def test_a_unix_socket_is_served_and_its_file_removed(run, tmp_path):
    path = str(tmp_path / "nsqd.sock")

    async def scenario() -> None:
        async with listening(path) as listener:
            assert (listener.local_address, listener.port) == (path, -1)
            reader, writer = await asyncio.open_unix_connection(path)
            assert await reader.readexactly(5) == b"hello"
            await hang_up(writer)
            await wait_until(lambda: listener.open_count == 0)

    run(scenario())
    assert not os.path.lexists(path)


def test_a_socket_file_that_another_daemon_has_taken_over_is_not_removed(run, tmp_path):
    path = str(tmp_path / "nsqd.sock")

    async def scenario() -> None:
        async with listening(path) as first:
            os.rename(path, f"{path}.old")
            async with listening(path):
                first.close()
                assert os.path.lexists(path)

    run(scenario())
    assert os.listdir(tmp_path) == ["nsqd.sock.old"]


@pytest.mark.parametrize(
    ("option", "descriptors", "limit"),
    [
        (0, 1_024, 896),
        (100, 1_024, 100),
        (5_000, 1_024, 896),
        (0, 256, 192),
        (0, 20, 1),
        (0, 1_048_576, 917_504),
    ],
)
def test_some_descriptors_are_kept_for_storage(option, descriptors, limit):
    assert connection_limit(option, descriptors) == limit


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        raised = raise_descriptor_limit()

        expected = 1_048_576 if hard == resource.RLIM_INFINITY else hard
        assert raised == raise_descriptor_limit() == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
