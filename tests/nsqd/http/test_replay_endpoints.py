"""`/channel/seek` and `/channel/commit`."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.fakes.http_connection import HttpConnection
from tests.nsqd.http.support import asked_nsqd, fill, reason, refusal, said

_numbers = count()


@pytest.fixture(scope="module")
def http() -> Iterator[HttpConnection]:
    with asked_nsqd() as (_, http):
        yield http


@pytest.fixture
def topic() -> str:
    return f"t{next(_numbers)}"


def depth(http: HttpConnection, topic: str, channel: str = "c") -> int:
    stats = http.get_json(f"/stats?format=json&topic={topic}&channel={channel}")
    figure: int = stats["topics"][0]["channels"][0]["depth"]
    return figure


def seek(http: HttpConnection, topic: str, to: object) -> int:
    offset: int = said(http.post(f"/channel/seek?topic={topic}&channel=c&to={to}"))["offset"]
    return offset


def commit(http: HttpConnection, topic: str, offset: int) -> int:
    cursor: int = said(http.post(f"/channel/commit?topic={topic}&channel=c&offset={offset}"))["offset"]
    return cursor


def test_seek_to_every_kind_of_position(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b", b"c")
    stamp = http.get_json(f"/message/peek?topic={topic}")["messages"][1]["timestamp"]

    steps = [("latest", 3), ("earliest", 0), (first + 2, 2), (f"@{stamp // 10**9}.{stamp % 10**9:09d}", 1)]

    for to, distance in steps:
        assert seek(http, topic, to) == first + distance
        assert depth(http, topic) == 3 - distance


def test_a_seek_that_is_refused_changes_nothing(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b")
    seek(http, topic, first + 1)

    early = http.post(f"/channel/seek?topic={topic}&channel=c&to={first - 1}")
    late = http.post(f"/channel/seek?topic={topic}&channel=c&to={first + 3}")

    assert refusal(early) == refusal(late) == (416, "OFFSET_OUT_OF_RANGE")
    assert str(first - 1) in reason(early)
    assert "--retention-time" in reason(early)
    assert early.headers["x-nsq-log-first"] == str(first)
    assert depth(http, topic) == 1


def test_commit_goes_forward_only(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b", b"c")

    cursors = [commit(http, topic, first + distance) for distance in (2, 1, 3)]

    assert [cursor - first for cursor in cursors] == [2, 2, 3]
    assert depth(http, topic) == 0
    beyond = http.post(f"/channel/commit?topic={topic}&channel=c&offset={first + 4}")
    assert refusal(beyond) == (416, "OFFSET_OUT_OF_RANGE")
    assert commit(http, topic, 0) == first + 3


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("seek", 400, "MISSING_ARG_TOPIC"),
        ("seek?topic=%21", 400, "INVALID_ARG_TOPIC"),
        ("seek?topic=there", 400, "MISSING_ARG_CHANNEL"),
        ("seek?topic=there&channel=%21", 400, "INVALID_ARG_CHANNEL"),
        ("seek?topic=nowhere&channel=c&to=latest", 404, "TOPIC_NOT_FOUND"),
        ("seek?topic=there&channel=none&to=latest", 404, "CHANNEL_NOT_FOUND"),
        ("seek?topic=there&channel=c", 400, "MISSING_ARG_TO"),
        ("seek?topic=there&channel=c&to=", 400, "INVALID_ARG_TO"),
        ("seek?topic=there&channel=c&to=newest", 400, "INVALID_ARG_TO"),
        ("commit", 400, "MISSING_ARG_TOPIC"),
        ("commit?topic=there&channel=none&offset=1", 404, "CHANNEL_NOT_FOUND"),
        ("commit?topic=there&channel=c", 400, "MISSING_ARG_OFFSET"),
        ("commit?topic=there&channel=c&offset=latest", 400, "INVALID_ARG_OFFSET"),
        ("commit?topic=there&channel=c&offset=-1", 400, "INVALID_ARG_OFFSET"),
    ],
)
def test_what_is_refused(http: HttpConnection, target: str, status: int, code: str) -> None:
    fill(http, "there", b"x")
    seek(http, "there", "earliest")
    before = depth(http, "there")

    assert refusal(http.post(f"/channel/{target}")) == (status, code)
    assert depth(http, "there") == before


def test_the_reason_says_what_is_accepted(http: HttpConnection, topic: str) -> None:
    fill(http, topic)

    said_why = reason(http.post(f"/channel/seek?topic={topic}&channel=c&to=newest"))

    assert "'newest' is no position" in said_why
    assert "earliest, latest, an offset in digits" in said_why


def test_a_new_channel_begins_where_it_is_told(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b")

    for name, start in (("all", "earliest"), ("one", first + 1), ("none", "latest"), ("plain", "")):
        argument = f"&from={start}" if start else ""
        assert http.post(f"/channel/create?topic={topic}&channel={name}{argument}").status == 200

    assert [depth(http, topic, name) for name in ("all", "one", "none", "plain")] == [2, 1, 0, 0]


def test_a_channel_that_exists_stays_where_it_is(http: HttpConnection, topic: str) -> None:
    fill(http, topic, b"a", b"b")

    assert http.post(f"/channel/create?topic={topic}&channel=c&from=latest").status == 200

    assert depth(http, topic) == 2


def test_a_beginning_that_is_refused_makes_no_channel(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a")

    word = http.post(f"/channel/create?topic={topic}&channel=d&from=begin")
    gone = http.post(f"/channel/create?topic={topic}&channel=d&from={first - 1}")

    assert (refusal(word), refusal(gone)) == ((400, "INVALID_ARG_FROM"), (416, "OFFSET_OUT_OF_RANGE"))
    assert refusal(http.post(f"/channel/empty?topic={topic}&channel=d")) == (404, "CHANNEL_NOT_FOUND")


def test_once_the_daemon_stops_nothing_is_moved() -> None:
    with asked_nsqd() as (nsqd, http):
        fill(http, "t", b"a")
        nsqd.call(lambda daemon: daemon.broker.begin_exit())

        answers = [
            http.post("/channel/seek?topic=t&channel=c&to=latest"),
            http.post("/channel/commit?topic=t&channel=c&offset=1"),
            http.post("/channel/deferred/cancel?topic=t&channel=c&all=true"),
            http.post("/channel/dead/replay?topic=t&channel=c&all=true"),
            http.post("/channel/max_attempts?topic=t&channel=c&max_attempts=1"),
        ]

        assert [refusal(answer) for answer in answers] == [(503, "EXITING")] * 5
        assert depth(http, "t") == 1
