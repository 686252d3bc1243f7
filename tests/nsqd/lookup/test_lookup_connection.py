import contextlib
import socket

import pytest

from nsqlake.nsqd.lookup.lookup_connection import LookupConnection, LookupdError, connect
from nsqlake.wire.lookup_commands import MAGIC_V1, PING
from tests.fakes.lookupd import DROP, STALL, FakeLookupd, framed
from tests.nsqd.lookup.support import MAX_REPLY_BYTES, run_on_loop, run_with_lookupd, until


class Losses:
    """Counts how often a connection said that it was lost."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def open_connection(
    lookupd: FakeLookupd, losses: Losses | None = None, limit_s: float = 5
) -> LookupConnection:
    return await connect(
        lookupd.address, limit_s=limit_s, max_reply_bytes=MAX_REPLY_BYTES, on_lost=losses or Losses()
    )


@pytest.mark.parametrize(
    "address", ["", "localhost", "/tmp/socket", "a:b:c", "127.0.0.1:99999", "x" * 99 + ":1"]
)
def test_an_address_that_cannot_be_is_an_error(address: str) -> None:
    async def scenario() -> None:
        with pytest.raises(LookupdError):
            await connect(address, limit_s=5, max_reply_bytes=1, on_lost=Losses())

    run_on_loop(scenario())


def test_a_port_where_nobody_listens_is_an_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

        async def scenario() -> None:
            with pytest.raises(LookupdError, match="cannot connect"):
                await connect(f":{port}", limit_s=5, max_reply_bytes=1, on_lost=Losses())

        run_on_loop(scenario())


def test_connecting_has_a_limit() -> None:
    async def scenario(address: str) -> None:
        with pytest.raises(LookupdError, match=r"no connection within 0\.05 s"):
            await connect(address, limit_s=0.05, max_reply_bytes=1, on_lost=Losses())

    with socket.socket() as listening, contextlib.ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):  # nobody accepts: the queue is full, and who comes next gets no answer
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())

        run_on_loop(scenario(f"127.0.0.1:{listening.getsockname()[1]}"))


def test_each_command_gets_its_reply() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["REGISTER"] = framed(b"fine")
        connection = await open_connection(lookupd)

        assert await connection.exchange(MAGIC_V1 + PING) == b"OK"
        assert await connection.exchange(b"REGISTER t\n") == b"fine"

        connection.close()

    run_with_lookupd(scenario)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (STALL, r"no reply within 0\.05 s"),
        (framed(b"OK")[:5], r"no reply within 0\.05 s"),
        (DROP, "connection"),
        (b"\xff\xff\xff\xff", "reply of -1 bytes"),
        (b"\x00\x00\x10\x01", "reply of 4097 bytes"),
    ],
)
def test_without_a_reply_the_connection_is_given_up(answer: bytes, reason: str) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["PING"] = answer
        losses = Losses()
        connection = await open_connection(lookupd, losses, limit_s=0.05)

        with pytest.raises(LookupdError, match=reason):
            await connection.exchange(MAGIC_V1 + PING)

        await lookupd.wait_until(lambda: lookupd.latest.has_ended)
        with pytest.raises(LookupdError, match=reason):
            await connection.exchange(PING)
        assert losses.count == 1

    run_with_lookupd(scenario)


def test_a_second_reply_to_one_command_ends_the_connection() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["PING"] = framed(b"OK") * 2
        losses = Losses()
        connection = await open_connection(lookupd, losses)

        await connection.exchange(MAGIC_V1 + PING)
        await until(lambda: losses.count == 1)

        assert connection.failure == "reply without a command"

    run_with_lookupd(scenario)


def test_the_loss_of_an_idle_connection_is_noticed() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        losses = Losses()
        connection = await open_connection(lookupd, losses)
        await connection.exchange(MAGIC_V1 + PING)

        lookupd.latest.drop()
        await until(lambda: losses.count == 1)

        assert connection.failure.startswith("connection")

    run_with_lookupd(scenario)


def test_closing_is_no_loss() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        losses = Losses()
        connection = await open_connection(lookupd, losses)
        await connection.exchange(MAGIC_V1 + PING)

        connection.close()
        await lookupd.wait_until(lambda: lookupd.latest.has_ended)

        assert losses.count == 0
        assert lookupd.latest.rest == b""

    run_with_lookupd(scenario)
