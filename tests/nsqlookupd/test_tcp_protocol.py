"""Deadlines, floods and endings of an nsqd's connection; time is moved by sweeps."""

import contextlib
import struct
from collections.abc import Iterator

import pytest

from nsqlake.nsqlookupd.tcp_protocol import (
    COMMAND_LIMIT_S,
    LINGER_S,
    MAGIC_LIMIT_S,
    UNIDENTIFIED_LIMIT_S,
    UNREAD_LIMIT_S,
)
from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from nsqlake.wire.lookup_commands import encode_reply
from tests.fakes.lookup_client import LookupClient, identify
from tests.integration.support import eventually


@pytest.fixture
def lookupd() -> Iterator[NsqlookupdFixture]:
    with running_nsqlookupd() as lookupd:
        yield lookupd


@pytest.fixture
def client(lookupd: NsqlookupdFixture) -> Iterator[LookupClient]:
    with LookupClient(lookupd.tcp_address) as client:
        yield client


def pass_time(lookupd: NsqlookupdFixture, seconds: float) -> None:
    lookupd.call(lambda daemon: daemon.peers.sweep(seconds))


def wait_connections(lookupd: NsqlookupdFixture, count: int) -> None:
    eventually(lambda: lookupd.call(lambda daemon: len(daemon.peers.connections)) == count)


def wait_held(lookupd: NsqlookupdFixture, count: int) -> None:
    eventually(lambda: lookupd.call(lambda daemon: daemon.peers.budget.total) == count)


@pytest.mark.parametrize("magic", [b"", b"  V"])
def test_who_sends_no_magic_is_closed(lookupd: NsqlookupdFixture, magic: bytes) -> None:
    with LookupClient(lookupd.tcp_address, magic=magic) as client:
        wait_connections(lookupd, 1)
        pass_time(lookupd, MAGIC_LIMIT_S - 0.1)
        wait_connections(lookupd, 1)

        pass_time(lookupd, 0.2)

        client.expect_end()


def test_who_never_ends_its_command_is_closed(lookupd: NsqlookupdFixture, client: LookupClient) -> None:
    client.identify()
    pass_time(lookupd, 1_000)
    client.send(b"REGIST")
    wait_held(lookupd, 6)

    pass_time(lookupd, COMMAND_LIMIT_S / 2)
    client.send(b"ER")
    wait_held(lookupd, 8)
    pass_time(lookupd, COMMAND_LIMIT_S / 2 + 1)

    client.expect_end()


def test_who_does_not_identify_may_ping_but_not_be_silent(
    lookupd: NsqlookupdFixture, client: LookupClient
) -> None:
    for _ in range(3):
        client.expect_ok(b"PING\n")
        pass_time(lookupd, UNIDENTIFIED_LIMIT_S - 1)

    pass_time(lookupd, 2)

    client.expect_end()


def test_who_has_identified_may_be_silent(lookupd: NsqlookupdFixture, client: LookupClient) -> None:
    client.identify()

    pass_time(lookupd, 100_000)

    client.expect_ok(b"PING\n")


def test_who_does_not_read_its_replies_is_closed(
    lookupd: NsqlookupdFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nsqlake")
    with LookupClient(lookupd.tcp_address, receive_buffer=4096) as client:
        client.identify()
        client.socket.setblocking(False)

        def is_closed() -> bool:
            with contextlib.suppress(OSError):
                client.send(b"PING\n" * 20_000)
            pass_time(lookupd, UNREAD_LIMIT_S / 4)
            return "closed, does not read its replies" in caplog.text

        eventually(is_closed)
        wait_connections(lookupd, 0)


def test_a_flood_is_answered_in_turns(lookupd: NsqlookupdFixture, client: LookupClient) -> None:
    client.identify()
    commands = b"".join(b"REGISTER t%d c\n" % number for number in range(5_000))
    client.socket.setblocking(False)
    replies, sent = b"", 0
    while len(replies) < 5_000 * len(encode_reply(b"OK")):
        with contextlib.suppress(BlockingIOError):
            sent += client.socket.send(commands[sent : sent + 65_536])
        with contextlib.suppress(BlockingIOError):
            replies += client.socket.recv(65_536)

    assert replies == encode_reply(b"OK") * 5_000
    assert len(lookupd.topics()) == 5_000


def test_a_refused_peer_may_read_why_and_is_then_cut_off(
    lookupd: NsqlookupdFixture, client: LookupClient
) -> None:
    client.send(b"BAD\n" + b"x" * 1_000_000)

    assert client.reply() == b"E_INVALID invalid command BAD"
    client.expect_end()
    pass_time(lookupd, LINGER_S + 0.1)
    wait_connections(lookupd, 0)


@pytest.mark.parametrize(
    ("sent", "replies"),
    [
        (b"PING\nPING", [b"OK"]),
        (b"IDENTIFY\n\0\0", [b"E_BAD_BODY IDENTIFY failed to read body size"]),
        (b"IDENTIFY\n\0\0\0\5ab", [b"E_BAD_BODY IDENTIFY failed to read body"]),
    ],
)
def test_a_peer_that_has_nothing_more_to_say_gets_its_replies(
    lookupd: NsqlookupdFixture, client: LookupClient, sent: bytes, replies: list[bytes]
) -> None:
    client.send(sent)
    client.finish_sending()

    assert [client.reply() for _ in replies] == replies
    client.expect_end()
    wait_connections(lookupd, 0)


def test_much_unfinished_input_of_all_together_costs_the_last_one_its_connection(
    lookupd: NsqlookupdFixture,
) -> None:
    lookupd.call(lambda daemon: setattr(daemon.peers.budget, "_limit_bytes", 1_000_000))
    part = b"IDENTIFY\n" + struct.pack(">i", 1_000_000) + b"x" * 600_000
    with LookupClient(lookupd.tcp_address) as first, LookupClient(lookupd.tcp_address) as second:
        first.send(part)
        wait_held(lookupd, 600_004)
        with contextlib.suppress(ConnectionError):
            second.send(part)

        second.expect_end()
        wait_held(lookupd, 600_004)


def test_no_more_connections_than_allowed_are_served() -> None:
    with running_nsqlookupd(max_connections=1) as lookupd, LookupClient(lookupd.tcp_address) as first:
        first.expect_ok(b"PING\n")
        with LookupClient(lookupd.tcp_address) as second:
            second.send(b"PING\n")
            first.expect_ok(b"PING\n")
            assert lookupd.call(lambda daemon: daemon.tcp_listener.open_count) == 1

            first.close()

            assert second.reply() == b"OK"


def test_a_stop_ends_all_connections() -> None:
    with contextlib.ExitStack() as stack:
        with running_nsqlookupd() as lookupd:
            clients = [
                stack.enter_context(LookupClient(lookupd.tcp_address, magic=magic))
                for magic in (b"", b"  V1", b"  V1IDENTIFY\n\0\0")
            ]
            clients[1].send(identify())
            assert clients[1].reply()
            wait_connections(lookupd, 3)

        for client in clients:
            client.expect_end()


def test_what_peers_do_is_logged_and_counted(
    lookupd: NsqlookupdFixture, client: LookupClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nsqlake")
    client.identify()
    client.expect_ok(*(b"REGISTER t%d c\n" % number for number in range(30)))
    client.ask(b"BAD\n\x1b[31m")
    client.expect_end()

    name = f"client({client.local_address})"
    assert f"DB: {name} REGISTER category:channel key:t0 subkey:c" in caplog.messages
    assert f"TCP: {name} E_INVALID invalid command BAD, closed" in caplog.messages
    counts = lookupd.call(lambda daemon: (daemon.peers.command_count, dict(daemon.peers.error_counts)))
    assert counts == (32, {"E_INVALID": 1})
