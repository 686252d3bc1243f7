"""Seek, commit, peek, deferred messages and dead letters over HTTP, while consumers have messages out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from nsqlake.wire import commands
from tests.fakes.http_connection import HttpConnection
from tests.fakes.nsqd_process import NsqdProcess
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures
from tests.nsqd.http.support import fill, said

LATE_MS = 3_600_000


@pytest.fixture
def http(nsqd: NsqdFixture) -> Iterator[HttpConnection]:
    with HttpConnection(nsqd.http_address) as http:
        yield http


def seek(http: HttpConnection, topic: str, to: object) -> int:
    offset: int = said(http.post(f"/channel/seek?topic={topic}&channel=c&to={to}"))["offset"]
    return offset


def commit(http: HttpConnection, topic: str, offset: int) -> int:
    cursor: int = said(http.post(f"/channel/commit?topic={topic}&channel=c&offset={offset}"))["offset"]
    return cursor


def peek(http: HttpConnection, topic: str, offset: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = said(http.get(f"/message/peek?topic={topic}&channel=c&offset={offset}"))[
        "messages"
    ]
    return messages


def test_a_seek_back_delivers_again_to_the_same_consumer(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    first = fill(http, topic, b"a", b"b", b"c")
    client = connect(nsqd)
    client.sub(topic, "c", 3)
    out = client.messages(3)
    client.fin(out[0])
    client.expect_nothing_so_far()

    assert seek(http, topic, "earliest") == first

    again = client.messages(3)
    assert [message.id for message in again] == [message.id for message in out]
    assert [message.attempts for message in again] == [1, 1, 1]


def test_what_was_out_before_a_seek_can_be_finished_only_when_it_is_delivered_again(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    fill(http, topic, b"a", b"b")
    client = connect(nsqd)
    client.sub(topic, "c", 2)
    out = client.messages(2)

    seek(http, topic, "latest")
    client.fin(out[0])
    client.req(out[1])

    assert client.error().startswith("E_FIN_FAILED")
    assert client.error().startswith("E_REQ_FAILED")
    assert figures(nsqd, topic, "c")[:3] == (0, 0, 0)
    http.post(f"/pub?topic={topic}", b"next")
    assert client.message().body == b"next"


def test_a_commit_finishes_what_is_out_below_it_and_nothing_else(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    first = fill(http, topic, b"a", b"b", b"c", b"d")
    client = connect(nsqd)
    client.sub(topic, "c", 3)
    out = client.messages(3)

    assert commit(http, topic, first + 2) == first + 3  # the cursor is behind what is out

    assert client.message().body == b"d"  # two fewer are in flight
    client.fin(out[0])
    assert client.error().startswith("E_FIN_FAILED")
    client.fin(out[2])
    client.expect_nothing_so_far()
    states = [each["state"] for each in peek(http, topic, first)]
    assert states == ["finished", "finished", "finished", "out"]


def test_a_reader_of_the_log_commits_and_its_lag_is_the_depth(
    nsqd: NsqdFixture, http: HttpConnection, topic: str
) -> None:
    offset = fill(http, topic, *[b"x"] * 10)
    lags = []

    while (answer := http.get(f"/log/read?topic={topic}&offset={offset}&max_bytes=200")).body:
        offset = commit(http, topic, int(answer.headers["x-nsq-next-offset"]))
        lags.append(figures(nsqd, topic, "c").depth)

    assert len(lags) > 2
    assert lags == sorted(lags, reverse=True)
    assert lags[-1] == 0


def test_peek_tells_of_every_state(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    first = fill(http, topic, b"finished", b"out", b"deferred", b"fresh")
    client = connect(nsqd)
    client.sub(topic, "c", 3)
    finished, _, late = client.messages(3)
    client.send(commands.rdy(0))
    client.fin(finished)
    client.req(late, LATE_MS)
    client.expect_nothing_so_far()

    shown = peek(http, topic, first)

    assert [each["state"] for each in shown] == [each["body"] for each in shown]
    assert [each["attempts"] for each in shown[1:]] == [1, 1, 0]
    assert shown[2]["id"] == late.id.decode()


def test_a_requeued_message_is_listed_and_cancelled_for_good(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    fill(http, topic, b"a")
    client = connect(nsqd)
    client.sub(topic, "c", 1)
    message = client.message()
    client.req(message, LATE_MS)
    client.expect_nothing_so_far()

    (listed,) = said(http.get(f"/channel/deferred?topic={topic}&channel=c"))["messages"]
    target = f"/channel/deferred/cancel?topic={topic}&channel=c&id={listed['id']}"

    assert (listed["id"], listed["attempts"]) == (message.id.decode(), 1)
    assert said(http.post(target)) == {"cancelled": 1}
    assert figures(nsqd, topic, "c")[:3] == (0, 0, 0)


def test_a_poisoned_message_goes_to_the_dead_and_comes_back(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    fill(http, topic, b"poison", channels=("c", "other"))
    said(http.post(f"/channel/max_attempts?topic={topic}&channel=c&max_attempts=2"))
    client = connect(nsqd)
    client.sub(topic, "c", 1)
    for _ in range(2):
        client.req(client.message())
    target = f"/channel/dead?topic={topic}&channel=c"
    eventually(lambda: len(said(http.get(target))["messages"]) == 1)

    (letter,) = said(http.get(target))["messages"]
    replayed = said(http.post(f"/channel/dead/replay?topic={topic}&channel=c&id={letter['id']}"))

    assert (letter["reason"], letter["attempts"], replayed) == ("requeued", 2, {"replayed": 1})
    again = client.message()
    assert (again.body, again.attempts) == (b"poison", 1)
    assert figures(nsqd, topic, "other").depth == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["seek", "commit"])
def test_what_was_answered_outlives_a_kill(tmp_path: Path, way: str) -> None:
    for round_ in range(3):
        with NsqdProcess(str(tmp_path)) as process, HttpConnection(process.http_address) as http:
            topic = f"t{round_}"
            first = fill(http, topic, *[b"%d" % number for number in range(10)])
            if way == "commit":
                moved = commit(http, topic, first + 7)
            else:
                seek(http, topic, "latest")
                moved = seek(http, topic, first + 7)
            process.kill()

        with NsqdProcess(str(tmp_path)) as process, process.connect() as client:
            client.sub(topic, "c", 10)
            bodies = [message.body for message in client.messages(3)]

        assert (moved, bodies) == (first + 7, [b"7", b"8", b"9"])


@pytest.mark.slow
def test_a_channel_that_was_made_to_begin_somewhere_outlives_a_kill(tmp_path: Path) -> None:
    with NsqdProcess(str(tmp_path)) as process, HttpConnection(process.http_address) as http:
        first = fill(http, "t", b"a", b"b")
        assert http.post(f"/channel/create?topic=t&channel=d&from={first + 1}").status == 200
        process.kill()

    with NsqdProcess(str(tmp_path)) as process, process.connect() as client:
        client.sub("t", "d", 2)
        assert client.message().body == b"b"
        client.expect_nothing_so_far()
