"""AUTH: the auth server decides, and nothing guarded happens without its word."""

import json
from collections.abc import Iterator

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import eventually, has_topic

GUARDED = {
    "PUB": commands.pub("guarded", b"x"),
    "MPUB": commands.mpub("guarded", [b"x"]),
    "DPUB": commands.dpub("guarded", 0, b"x"),
    "SUB": commands.sub("guarded", "c"),
}


@pytest.fixture
def nsqd(auth_server: FakeAuthServer) -> Iterator[NsqdFixture]:
    with running_nsqd(auth_http_addresses=(auth_server.address,)) as nsqd:
        yield nsqd


def grant(server: FakeAuthServer, ttl: object = 60, **entry: object) -> None:
    server.reply = {"ttl": ttl, "identity": "me", "identity_url": "http://x", "authorizations": [entry]}


def authenticate(client: TcpClient) -> dict[str, object]:
    client.send(commands.auth(b"secret"))
    answer: dict[str, object] = json.loads(client.response())
    return answer


def test_auth_is_refused_where_it_is_off(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)

        client.send(commands.auth(b"secret"))

        client.expect_fatal("E_AUTH_DISABLED AUTH disabled")


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"AUTH x\n", "E_INVALID AUTH invalid number of parameters"),
        (b"AUTH \n", "E_INVALID AUTH invalid number of parameters"),
        (b"AUTH\n\x00\x00\x00\x00", "E_BAD_BODY AUTH invalid body size 0"),
        (b"AUTH\n\x00\x50\x00\x01", "E_BAD_BODY AUTH body too big 5242881 > 5242880"),
        (b"AUTH\n\x00", "E_BAD_BODY AUTH failed to read body size"),
        (b"AUTH\n\x00\x00\x00\x09abc", "E_BAD_BODY AUTH failed to read body"),
    ],
)
def test_wrong_auth_is_refused(client: TcpClient, sent: bytes, text: str) -> None:
    client.send(sent)
    client.finish_sending()

    client.expect_fatal(text)


def test_identify_tells_that_auth_is_required(client: TcpClient) -> None:
    assert client.identify()["auth_required"] is True


@pytest.mark.parametrize("name", GUARDED)
def test_guarded_commands_need_auth_first(nsqd: NsqdFixture, client: TcpClient, name: str) -> None:
    client.send(GUARDED[name])

    client.expect_fatal(f"E_AUTH_FIRST AUTH required before {name}")
    assert not has_topic(nsqd, "guarded")


def test_names_are_checked_before_auth(client: TcpClient) -> None:
    client.send(b"PUB bad!\n")

    client.expect_fatal('E_BAD_TOPIC PUB topic name "bad!" is not valid')


def test_auth_is_answered_with_the_identity(client: TcpClient, auth_server: FakeAuthServer) -> None:
    grant(auth_server, topic=".*", channels=[".*"], permissions=["publish"])

    client.send(commands.auth(b"secret"))

    assert client.response() == b'{"identity":"me","identity_url":"http://x","permission_count":1}'
    assert auth_server.requests[0].fields == {
        "common_name": [""],
        "remote_ip": ["127.0.0.1"],
        "secret": ["secret"],
        "tls": ["false"],
    }


def test_whoever_may_do_everything_can(client: TcpClient) -> None:
    authenticate(client)

    client.send(*GUARDED.values())

    for _ in GUARDED:
        client.expect_ok()


def test_auth_twice_is_refused(client: TcpClient) -> None:
    authenticate(client)

    client.send(commands.auth(b"secret"))

    client.expect_fatal("E_INVALID AUTH already set")


def test_auth_after_sub_is_refused(client: TcpClient) -> None:
    authenticate(client)
    client.sub("t", "c")

    client.send(commands.auth(b"secret"))

    client.expect_fatal("E_INVALID cannot AUTH in current state")


@pytest.mark.parametrize("name", ["PUB", "MPUB", "DPUB"])
@pytest.mark.parametrize("channels", [["^c$"], [], None])
def test_publishing_needs_a_pattern_that_matches_the_empty_channel(
    nsqd: NsqdFixture, client: TcpClient, auth_server: FakeAuthServer, name: str, channels: object
) -> None:
    entry = {"topic": ".*", "permissions": ["publish"]} | ({} if channels is None else {"channels": channels})
    grant(auth_server, **entry)
    authenticate(client)

    client.send(GUARDED[name])

    client.expect_fatal(f'E_UNAUTHORIZED AUTH failed for {name} on "guarded" ""')
    assert not has_topic(nsqd, "guarded")


@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ({"topic": "guarded", "channels": [".*"], "permissions": ["publish"]}, {"SUB"}),
        ({"topic": "guarded", "channels": [".*"], "permissions": ["subscribe"]}, {"PUB", "MPUB", "DPUB"}),
        ({"topic": "guarded", "channels": ["d"], "permissions": ["subscribe"]}, set(GUARDED)),
        ({"topic": "other", "channels": [".*"], "permissions": ["subscribe", "publish"]}, set(GUARDED)),
        ({"topic": "guard", "channels": [".*"], "permissions": ["subscribe", "publish"]}, set(GUARDED)),
        ({"topic": "u", "channels": [".*"], "permissions": ["subscribe", "publish"]}, set(GUARDED)),
    ],
    ids=["publish", "subscribe", "other channel", "other topic", "prefix of the topic", "part of the topic"],
)
def test_only_what_is_granted_for_whole_names_is_allowed(
    nsqd: NsqdFixture,
    connect: Connect,
    auth_server: FakeAuthServer,
    entry: dict[str, object],
    refused: set[str],
) -> None:
    """NSQ is content with a pattern that matches a part of the name."""
    grant(auth_server, **entry)

    for name, command in GUARDED.items():
        client = connect(nsqd)
        authenticate(client)
        client.send(command)
        if name in refused:
            channel = "c" if name == "SUB" else ""
            client.expect_fatal(f'E_UNAUTHORIZED AUTH failed for {name} on "guarded" "{channel}"')
        else:
            client.expect_ok()


@pytest.mark.parametrize("ttl", [0, -1, "60", 1.5, None])
def test_reply_without_a_usable_ttl_fails(
    client: TcpClient, auth_server: FakeAuthServer, ttl: object
) -> None:
    grant(auth_server, ttl=ttl, topic=".*", channels=[".*"], permissions=["publish"])

    client.send(commands.auth(b"secret"))

    client.expect_fatal("E_AUTH_FAILED AUTH failed")


@pytest.mark.parametrize(
    "entry",
    [
        {"topic": ".*", "channels": [".*"], "permissions": ["fly"]},
        {"topic": "(", "channels": [".*"], "permissions": ["publish"]},
        {"topic": ".*", "channels": ["(?=x)"], "permissions": ["publish"]},
    ],
)
def test_reply_that_makes_no_sense_fails(
    client: TcpClient, auth_server: FakeAuthServer, entry: dict[str, object]
) -> None:
    grant(auth_server, **entry)

    client.send(commands.auth(b"secret"))

    client.expect_fatal("E_AUTH_FAILED AUTH failed")


@pytest.mark.parametrize(
    ("status", "reply"), [(500, {}), (403, {}), (200, b"no json"), (200, b"[" * 100_000)]
)
def test_auth_server_that_fails_lets_nobody_in(
    client: TcpClient, auth_server: FakeAuthServer, status: int, reply: object
) -> None:
    auth_server.status, auth_server.reply = status, reply

    client.send(commands.auth(b"secret"))

    client.expect_fatal("E_AUTH_FAILED AUTH failed")


def test_client_without_authorizations_is_refused(client: TcpClient, auth_server: FakeAuthServer) -> None:
    auth_server.reply = {"ttl": 60, "authorizations": []}

    client.send(commands.auth(b"secret"))

    client.expect_fatal("E_UNAUTHORIZED AUTH no authorizations found")


@pytest.mark.slow
def test_expired_grant_is_asked_for_again_and_may_be_gone(
    client: TcpClient, auth_server: FakeAuthServer
) -> None:
    grant(auth_server, ttl=1, topic=".*", channels=[".*"], permissions=["publish"])
    authenticate(client)
    client.pub("t", b"x")
    assert len(auth_server.requests) == 1

    client.expect_silence(1.1)
    client.pub("t", b"x")
    assert len(auth_server.requests) == 2
    auth_server.status = 500
    client.expect_silence(1.1)
    client.send(commands.pub("t", b"x"))

    client.expect_fatal("E_AUTH_FAILED AUTH failed")


def test_answers_keep_their_order_around_the_auth_server(client: TcpClient) -> None:
    client.send(commands.auth(b"secret"), commands.pub("t", b"x"), commands.nop(), commands.sub("t", "c"))

    assert json.loads(client.response())["identity"] == "me"
    client.expect_ok()
    client.expect_ok()


def test_client_that_leaves_while_the_auth_server_is_asked_does_no_harm(
    nsqd: NsqdFixture, connect: Connect, auth_server: FakeAuthServer
) -> None:
    auth_server.is_silent = True
    leaving = connect(nsqd)
    leaving.send(commands.auth(b"secret"), commands.pub("guarded", b"x"))
    leaving.close()
    eventually(lambda: len(auth_server.requests) == 1)
    auth_server.is_silent = False

    other = connect(nsqd)
    authenticate(other)

    other.pub("t", b"x")
    assert not has_topic(nsqd, "guarded")
