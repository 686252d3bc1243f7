"""Who may stage, commit and abort transactions, with an auth server."""

from collections.abc import Iterator

import pytest

from nsqlake.testing.nsqd import running_nsqd
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.http_connection import HttpConnection
from tests.nsqd.http.support import reason, refusal, said
from tests.nsqd.http.test_txn_endpoints import committed, staged

BEARER = {"Authorization": "Bearer secret"}
OTHER = {"Authorization": "Bearer other"}


@pytest.fixture
def guarded(auth_server: FakeAuthServer) -> Iterator[HttpConnection]:
    with (
        running_nsqd(auth_http_addresses=(auth_server.address,)) as nsqd,
        HttpConnection(nsqd.http_address) as http,
    ):
        yield http


def grant(server: FakeAuthServer, identity: str, topic: str, *permissions: str) -> None:
    entry = {"topic": topic, "channels": [".*"], "permissions": list(permissions or ("publish",))}
    server.reply = {"ttl": 60, "identity": identity, "authorizations": [entry]}


def test_who_staged_it_may_commit_it(guarded: HttpConnection, auth_server: FakeAuthServer) -> None:
    grant(auth_server, "me", "t")
    assert refusal(staged(guarded, b"x", topic="u", headers=BEARER)) == (403, "FORBIDDEN")
    assert staged(guarded, b"x", headers=BEARER).status == 200

    grant(auth_server, "you", "t")
    assert refusal(staged(guarded, b"x", number=1, headers=OTHER)) == (403, "FORBIDDEN")
    assert refusal(committed(guarded, (0, 0, 1, 1), headers=OTHER)) == (403, "FORBIDDEN")
    assert refusal(guarded.post("/txn/abort?txn=q.1", b"", OTHER)) == (403, "FORBIDDEN")

    assert said(committed(guarded, (0, 0, 1, 1), headers=BEARER))["messages"] == 1


def test_to_commit_is_to_publish_to_all_topics(guarded: HttpConnection, auth_server: FakeAuthServer) -> None:
    grant(auth_server, "me", "t|u")
    for number, topic in enumerate("tu"):
        assert staged(guarded, b"x", topic=topic, number=number, headers=BEARER).status == 200

    grant(auth_server, "me", "t")
    for target, body in (("/txn/commit?txn=q.1", b'{"parts": []}'), ("/txn/abort?txn=q.1", b"")):
        answer = guarded.post(target, body, OTHER)
        assert (refusal(answer), reason(answer)) == ((403, "FORBIDDEN"), "needed: publish on the topic u")
