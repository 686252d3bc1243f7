"""`/channel/dead`, `/channel/dead/replay`, `/channel/max_attempts`."""

from collections.abc import Iterator
from typing import Any

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from tests.fakes.http_connection import HttpConnection
from tests.fakes.tcp_client import TcpClient
from tests.integration.support import eventually, find_topic, set_free_bytes_needed
from tests.nsqd.http.support import asked_nsqd, fill, reason, refusal, said


@pytest.fixture
def asked() -> Iterator[tuple[NsqdFixture, HttpConnection]]:
    with asked_nsqd(max_attempts=1) as both:
        yield both


def dead(http: HttpConnection, arguments: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = said(http.get(f"/channel/dead?topic=t&channel=c{arguments}"))
    return answer


def replay(http: HttpConnection, arguments: str = "&all=true") -> object:
    return said(http.post(f"/channel/dead/replay?topic=t&channel=c{arguments}"))


def kill_messages(nsqd: NsqdFixture, http: HttpConnection, *bodies: bytes) -> list[dict[str, Any]]:
    fill(http, "t", *bodies)
    with TcpClient(nsqd.tcp_address) as client:
        client.sub("t", "c", len(bodies))
        for message in client.messages(len(bodies)):
            client.req(message)
        eventually(lambda: len(dead(http)["messages"]) == len(bodies))
    letters: list[dict[str, Any]] = dead(http)["messages"]
    return letters


def test_a_channel_without_dead_letters(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    fill(asked[1], "t")

    assert dead(asked[1]) == {"topic": "t.c.dead", "max_attempts": 1, "messages": [], "after": None}
    assert replay(asked[1]) == {"replayed": 0}


def test_what_was_given_up_is_listed_with_its_reason(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    first, second = kill_messages(*asked, b"one", b"three")

    assert (first["reason"], first["attempts"], first["size"], first["in_flight"]) == (
        "requeued",
        1,
        3,
        False,
    )
    assert first["dead_since"] >= first["published"] > 0
    assert first["id"] != first["original_id"]
    assert second["offset"] > first["offset"]
    body = said(asked[1].get(f"/message/peek?topic=t.c.dead&channel=dead&offset={first['offset']}&count=1"))
    assert body["messages"][0]["body"] == "one"


def test_a_list_goes_on_behind_its_last_letter(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    letters = kill_messages(*asked, b"a", b"b", b"c")

    page = dead(asked[1], "&limit=2")
    rest = dead(asked[1], f"&limit=2&after={page['after']}")

    assert page["messages"] + rest["messages"] == letters
    assert (page["after"], rest["after"]) == (letters[1]["offset"], None)


def test_one_is_replayed_and_then_all(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    nsqd, http = asked
    letters = kill_messages(nsqd, http, b"a", b"b", b"c")

    assert replay(http, f"&id={letters[1]['id']}") == {"replayed": 1}
    assert [each["id"] for each in dead(http)["messages"]] == [letters[0]["id"], letters[2]["id"]]
    assert replay(http) == {"replayed": 2}

    with TcpClient(nsqd.tcp_address) as client:
        client.sub("t", "c", 3)
        assert [message.body for message in client.messages(3)] == [b"b", b"a", b"c"]


def test_a_letter_that_is_not_there_or_not_free(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    nsqd, http = asked
    (letter,) = kill_messages(nsqd, http, b"a")
    with TcpClient(nsqd.tcp_address) as undertaker:
        undertaker.sub("t.c.dead", "dead", 1)
        undertaker.message()

        busy = http.post(f"/channel/dead/replay?topic=t&channel=c&id={letter['id']}")
        wrong = http.post("/channel/dead/replay?topic=t&channel=c&id=0123456789abcdef")

        assert dead(http)["messages"][0]["in_flight"] is True
    assert (refusal(busy), refusal(wrong)) == ((409, "BUSY"), (404, "MESSAGE_NOT_FOUND"))
    assert reason(busy) == f"dead letter {letter['id']} is in flight"


def test_a_paused_topic_takes_nothing_back_nor_does_a_draining_daemon(
    asked: tuple[NsqdFixture, HttpConnection],
) -> None:
    nsqd, http = asked
    kill_messages(nsqd, http, b"a")
    http.post("/topic/pause?topic=t")

    paused = http.post("/channel/dead/replay?topic=t&channel=c&all=true")
    http.post("/topic/unpause?topic=t")
    nsqd.call(lambda daemon: setattr(daemon.broker, "refusal", "draining"))
    draining = http.post("/channel/dead/replay?topic=t&channel=c&all=true")

    assert (refusal(paused), reason(paused)) == ((409, "BUSY"), "TOPIC(t) is paused")
    assert refusal(draining) == (503, "DRAINING")
    assert len(dead(http)["messages"]) == 1


def test_a_disk_that_takes_nothing_back_is_named(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    nsqd, http = asked
    kill_messages(nsqd, http, b"a")
    set_free_bytes_needed(nsqd, "t", 1 << 60)

    full = http.post("/channel/dead/replay?topic=t&channel=c&all=true")
    nsqd.call(lambda daemon: setattr(find_topic(daemon, "t").log._writer, "failed", "sync failed: no disk"))
    broken = http.post("/channel/dead/replay?topic=t&channel=c&all=true")

    assert (refusal(full), refusal(broken)) == ((503, "DISK_FULL"), (503, "SYNC_FAILED"))
    assert reason(broken) == "sync failed: no disk"
    assert len(dead(http)["messages"]) == 1


def test_a_channel_has_a_limit_of_its_own(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    http = asked[1]
    fill(http, "t")
    target = "/channel/max_attempts?topic=t&channel=c&max_attempts="

    answers = [said(http.post(target + value)) for value in ("5", "0", "default")]

    assert answers == [
        {"max_attempts": 5, "own": True},
        {"max_attempts": 0, "own": True},
        {"max_attempts": 1, "own": False},
    ]
    assert dead(http)["max_attempts"] == 1


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("dead", 400, "MISSING_ARG_TOPIC"),
        ("dead?topic=t&channel=none", 404, "CHANNEL_NOT_FOUND"),
        ("dead?topic=t&channel=c&limit=x", 400, "INVALID_ARG_LIMIT"),
        ("dead?topic=t&channel=c&after=-1", 400, "INVALID_ARG_AFTER"),
    ],
)
def test_what_the_list_refuses(
    asked: tuple[NsqdFixture, HttpConnection], target: str, status: int, code: str
) -> None:
    fill(asked[1], "t")

    assert refusal(asked[1].get(f"/channel/{target}")) == (status, code)


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("dead/replay?topic=t&channel=none&all=true", 404, "CHANNEL_NOT_FOUND"),
        ("dead/replay?topic=t&channel=c", 400, "MISSING_ARG_ID"),
        ("dead/replay?topic=t&channel=c&id=1", 400, "INVALID_ARG_ID"),
        ("max_attempts?topic=t&channel=none&max_attempts=1", 404, "CHANNEL_NOT_FOUND"),
        ("max_attempts?topic=t&channel=c", 400, "MISSING_ARG_MAX_ATTEMPTS"),
        ("max_attempts?topic=t&channel=c&max_attempts=", 400, "INVALID_ARG_MAX_ATTEMPTS"),
        ("max_attempts?topic=t&channel=c&max_attempts=-1", 400, "INVALID_ARG_MAX_ATTEMPTS"),
        ("max_attempts?topic=t&channel=c&max_attempts=65536", 400, "INVALID_ARG_MAX_ATTEMPTS"),
    ],
)
def test_what_changes_refuse(
    asked: tuple[NsqdFixture, HttpConnection], target: str, status: int, code: str
) -> None:
    fill(asked[1], "t")

    assert refusal(asked[1].post(f"/channel/{target}")) == (status, code)
    assert dead(asked[1])["max_attempts"] == 1
