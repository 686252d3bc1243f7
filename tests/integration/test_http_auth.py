"""With an auth server the HTTP API needs the same permissions as TCP, and denies by default."""

import base64
import json
import logging
from collections.abc import Iterator

import pytest

from nsqlake.nsqd.access import Access
from nsqlake.nsqd.http.endpoints import Endpoint
from nsqlake.nsqd.option_choices import HttpAuth
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.http_client import Answer
from tests.fakes.http_connection import HttpConnection
from tests.integration.support import has_topic

BEARER = {"Authorization": "Bearer secret"}
OPEN = {("GET", "/ping"), ("GET", "/info"), ("GET", "/config/{key}"), ("GET", "/openapi.json")}


@pytest.fixture
def nsqd(auth_server: FakeAuthServer) -> Iterator[NsqdFixture]:
    with running_nsqd(auth_http_addresses=(auth_server.address,)) as nsqd:
        yield nsqd


def grant(
    server: FakeAuthServer, *permissions: str, topic: str = ".*", channel: str = ".*", ttl: int = 60
) -> None:
    entry = {"topic": topic, "channels": [channel], "permissions": list(permissions)}
    server.reply = {"ttl": ttl, "identity": "me", "authorizations": [entry]}


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["message"] if answer.body else ""


def request_of(endpoint: Endpoint) -> tuple[str, str]:
    """Method and target of a request that names everything the endpoint may ask for."""
    query = "&".join(f"{each.name}=x" for each in endpoint.parameters if not each.in_path)
    return endpoint.method, endpoint.path.replace("{key}", "log_level") + "?" + query


def all_endpoints(nsqd: NsqdFixture) -> list[Endpoint]:
    return nsqd.call(lambda daemon: daemon.api.endpoints)


# The table --------------------------------------------------------------------------------------------


def test_only_what_was_decided_on_is_open(nsqd: NsqdFixture) -> None:
    is_open = {(each.method, each.path) for each in all_endpoints(nsqd) if each.access is Access.OPEN}

    assert is_open <= OPEN
    assert ("GET", "/ping") in is_open


def test_no_endpoint_that_is_not_open_answers_without_credentials(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer
) -> None:
    guarded = [each for each in all_endpoints(nsqd) if each.access is not Access.OPEN]

    answers = {request_of(each): http.ask(*request_of(each), b"x") for each in guarded}

    assert {said(answer) for answer in answers.values()} == {(401, "UNAUTHORIZED")}
    assert all(answer.headers["www-authenticate"] == "Bearer" for answer in answers.values())
    assert not auth_server.requests
    assert not has_topic(nsqd, "x")


@pytest.mark.parametrize(
    ("granted", "allowed"),
    [
        ("publish", {Access.AUTHENTICATED, Access.PUBLISH}),
        ("subscribe", {Access.AUTHENTICATED, Access.SUBSCRIBE}),
        ("admin", {Access.AUTHENTICATED, Access.ADMIN, Access.LOOPBACK_OR_ADMIN}),
    ],
)
def test_every_endpoint_needs_its_own_permission(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer, granted: str, allowed: set[Access]
) -> None:
    grant(auth_server, granted)
    guarded = [
        each
        for each in all_endpoints(nsqd)
        if each.access is not Access.OPEN and "/profile" not in each.path and each.path != "/drain"
    ]

    for endpoint in guarded:
        answer = http.ask(*request_of(endpoint), b"x", BEARER)

        is_refused = answer.status in (401, 403)
        assert is_refused is (endpoint.access not in allowed), (endpoint.path, answer)
        assert not is_refused or said(answer) == (403, "FORBIDDEN")


def test_a_permission_is_for_the_names_it_matches(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer
) -> None:
    grant(auth_server, "publish", "admin", topic="orders|logs", channel="archive|")

    answers = {
        target: http.post(target, b"x", BEARER).status
        for target in (
            "/pub?topic=orders",
            "/pub?topic=orders2",
            "/mpub?topic=logs&topic=other",
            "/mpub?topic=other&topic=logs",
            "/topic/pause?topic=orders",
            "/topic/pause?topic=other",
            "/channel/create?topic=orders&channel=archive",
            "/channel/create?topic=orders&channel=other",
            "/debug/freememory",
        )
    }

    assert list(answers.values()) == [200, 403, 200, 403, 200, 403, 200, 403, 403]


def test_what_is_missing_is_said_to_those_who_are_known(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer
) -> None:
    grant(auth_server, "publish", "admin", topic="orders")

    assert said(http.post("/pub", b"x", BEARER)) == (400, "MISSING_ARG_TOPIC")
    assert said(http.post("/channel/delete?topic=orders", b"", BEARER)) == (400, "MISSING_ARG_CHANNEL")
    assert said(http.post("/pub?topic=a;b", b"x", BEARER)) == (400, "INVALID_REQUEST")


# Credentials ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    ["Bearer s3cret", "bearer  s3cret", "Basic " + base64.b64encode(b"anybody:s3cret").decode()],
)
def test_the_secret_comes_in_a_header(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer, header: str
) -> None:
    grant(auth_server, "publish")

    answer = http.post("/pub?topic=t", b"x", {"Authorization": header})

    assert (answer.status, answer.body) == (200, b"OK")
    assert auth_server.requests[0].fields == {
        "common_name": [""],
        "remote_ip": ["127.0.0.1"],
        "secret": ["s3cret"],
        "tls": ["false"],
    }


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic", "Basic !!", "Basic YWJj", "Digest secret", "secret"]
)
def test_what_is_no_secret_is_not_even_asked_about(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer, header: str
) -> None:
    answer = http.post("/pub?topic=t&secret=secret", b"x", {"Authorization": header} if header else {})

    assert said(answer) == (401, "UNAUTHORIZED")
    assert not auth_server.requests


def test_an_answer_is_kept_for_its_time(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer
) -> None:
    grant(auth_server, "publish", "admin")

    statuses = [http.post("/pub?topic=t", b"x", BEARER).status for _ in range(5)]
    statuses.append(http.post("/topic/delete?topic=t", b"", BEARER).status)
    http.post("/pub?topic=t", b"x", {"Authorization": "Bearer other"})

    assert statuses == [200] * 6
    assert [request.fields["secret"] for request in auth_server.requests] == [["secret"], ["other"]]


@pytest.mark.parametrize(("status", "reply"), [(403, {}), (401, {}), (200, {"ttl": 1, "authorizations": []})])
def test_whom_the_auth_server_does_not_know_gets_nothing(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer, status: int, reply: object
) -> None:
    auth_server.status, auth_server.reply = status, reply

    answers = [http.get("/stats", BEARER) for _ in range(2)]

    assert [said(answer) for answer in answers] == [(401, "UNAUTHORIZED")] * 2
    assert len(auth_server.requests) == 2


def test_without_a_word_of_the_auth_server_nothing_is_allowed(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer
) -> None:
    auth_server.status = 500

    assert said(http.post("/pub?topic=t", b"x", BEARER)) == (503, "AUTH_UNAVAILABLE")
    assert not has_topic(nsqd, "t")


def test_who_fails_too_often_has_to_wait(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer
) -> None:
    auth_server.status = 403
    for _ in range(10):
        http.get("/stats", BEARER)

    answer = http.get("/stats", BEARER)

    assert said(answer) == (429, "TOO_MANY_FAILURES")
    assert answer.headers["retry-after"] == "1"
    assert len(auth_server.requests) == 10


# Switched off, and the record -------------------------------------------------------------------------


def test_http_auth_off_leaves_the_api_open_and_says_so(
    auth_server: FakeAuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        running_nsqd(auth_http_addresses=(auth_server.address,), http_auth=HttpAuth.OFF) as nsqd,
        HttpConnection(nsqd.http_address) as http,
    ):
        assert http.post("/pub?topic=t", b"x").status == 200
        assert http.post("/topic/delete?topic=t").status == 200

    assert "HTTP: --http-auth=off, the API asks nobody for credentials, as in NSQ" in caplog.messages
    assert not auth_server.requests


def test_who_did_what_is_recorded_without_the_secret(
    nsqd: NsqdFixture, http: HttpConnection, auth_server: FakeAuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    grant(auth_server, "admin")
    client = http.local_address

    with caplog.at_level(logging.DEBUG, "nsqlake"):
        http.post("/topic/create?topic=t", b"", BEARER)
        http.post("/topic/delete?topic=t")

    assert f"ADMIN(me@{client}): POST /topic/create topic=t -> 200" in caplog.messages
    assert f"ADMIN(-@{client}): POST /topic/delete topic=t -> 401" in caplog.messages
    assert not [line for line in caplog.messages if "secret" in line]
