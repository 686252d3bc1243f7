"""Sockets: every address a name has is tried, within the time there is."""

import asyncio
import socket
from typing import Any

import pytest

from nsqlake.client.addresses import NsqdAddress, parse_nsqd_address
from nsqlake.client.config import ClientConfig
from nsqlake.client.dialing import dial
from nsqlake.client.errors import ConnectError
from nsqlake.runtime.timers import LoopTimers
from tests.fakes.loop_turns import next_turn
from tests.fakes.moved_timers import MovedTimers


@pytest.fixture
def listener() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def dial_now(address: NsqdAddress, **options: Any) -> socket.socket:
    return asyncio.run(dial(address, ClientConfig(**options), LoopTimers()))


def test_the_socket_sends_at_once_and_notices_a_vanished_peer(listener: socket.socket) -> None:
    with dial_now(NsqdAddress("127.0.0.1", listener.getsockname()[1])) as opened:
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        assert not opened.getblocking()


def test_the_local_address_is_used(listener: socket.socket) -> None:
    port = free_port()

    with dial_now(
        NsqdAddress("127.0.0.1", listener.getsockname()[1]), local_addr=f"127.0.0.2:{port}"
    ) as opened:
        assert opened.getsockname() == ("127.0.0.2", port)


def test_ipv6_hosts_work() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with server, dial_now(parse_nsqd_address(f"[::1]:{server.getsockname()[1]}")) as opened:
        assert opened.family == socket.AF_INET6


def test_unix_sockets_work(tmp_path: Any) -> None:
    path = str(tmp_path / "nsqd.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        with dial_now(parse_nsqd_address(f"unix://{path}")) as opened:
            assert opened.getpeername() == path


def test_a_refusal_names_the_address_and_the_reason() -> None:
    port = free_port()

    with pytest.raises(ConnectError) as caught:
        dial_now(NsqdAddress("127.0.0.1", port))

    assert str(caught.value) == f"127.0.0.1:{port}: cannot connect: 127.0.0.1:{port}: connection refused"


def test_a_missing_unix_socket_is_a_connect_error(tmp_path: Any) -> None:
    with pytest.raises(ConnectError, match="no such file"):
        dial_now(NsqdAddress(path=str(tmp_path / "none.sock")))


def test_a_name_that_does_not_exist_is_a_connect_error() -> None:
    with pytest.raises(ConnectError, match="cannot resolve the name"):
        dial_now(NsqdAddress("no-such-host.invalid", 4150), dial_timeout=20)


class NamesLoop(asyncio.SelectorEventLoop):
    """A loop on which every name has these addresses."""

    addresses: tuple[str, ...] = ()

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


def test_all_addresses_of_a_name_are_tried(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    loop = NamesLoop()
    loop.addresses = ("127.0.0.3", "127.0.0.4", "127.0.0.1")
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        opened = runner.run(dial(NsqdAddress("nsqd", port), ClientConfig(), LoopTimers()))

    with opened:
        assert opened.getpeername() == ("127.0.0.1", port)


def test_a_failure_at_every_address_is_told() -> None:
    port = free_port()
    loop = NamesLoop()
    loop.addresses = ("127.0.0.3", "127.0.0.4")

    with asyncio.Runner(loop_factory=lambda: loop) as runner, pytest.raises(ConnectError) as caught:
        runner.run(dial(NsqdAddress("nsqd", port), ClientConfig(), LoopTimers()))

    assert caught.value.reason == (
        f"cannot connect: 127.0.0.3:{port}: connection refused; 127.0.0.4:{port}: connection refused"
    )


class SilentLoop(NamesLoop):
    """Connections that are never answered, but for the last address."""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if address[0] != self.addresses[-1]:
            await self.create_future()
        await super().sock_connect(sock, address)


def test_an_address_that_does_not_answer_leaves_time_for_the_next(listener: socket.socket) -> None:
    loop, timers = SilentLoop(), MovedTimers()
    loop.addresses = ("10.0.0.1", "127.0.0.1")
    address = NsqdAddress("nsqd", listener.getsockname()[1])

    async def scenario() -> socket.socket:
        dialling = asyncio.ensure_future(dial(address, ClientConfig(dial_timeout=4), timers))
        while not timers.waiting_count or timers.timers[-1].due_s != timers.now_s() + 2:
            await next_turn()
        timers.advance(2)
        return await dialling

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        opened = runner.run(scenario())

    with opened:
        assert opened.getpeername()[0] == "127.0.0.1"


def test_a_name_server_that_does_not_answer_is_given_up() -> None:
    class MuteLoop(NamesLoop):
        async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
            await self.create_future()

    timers = MovedTimers()

    async def scenario() -> None:
        asyncio.get_running_loop().call_soon(timers.advance, 1)
        await dial(NsqdAddress("nsqd", 4150), ClientConfig(dial_timeout=1), timers)

    with (
        asyncio.Runner(loop_factory=MuteLoop) as runner,
        pytest.raises(ConnectError, match="cannot resolve the name: timed out"),
    ):
        runner.run(scenario())
