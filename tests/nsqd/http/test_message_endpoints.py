"""`/message/peek`."""

import base64
from collections.abc import Iterator
from itertools import count

import pytest

from nsqlake.nsqd.http.message_endpoints import shown_body
from tests.fakes.http_connection import HttpConnection
from tests.nsqd.http.support import LATE_MS, asked_nsqd, fill, reason, refusal, said

_numbers = count()


@pytest.fixture(scope="module")
def http() -> Iterator[HttpConnection]:
    with asked_nsqd() as (_, http):
        yield http


@pytest.fixture
def topic() -> str:
    return f"t{next(_numbers)}"


def test_messages_of_a_topic_as_they_are(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, "süß & <b>".encode(), b"\xff\x00", channels=())

    shown = said(http.get(f"/message/peek?topic={topic}"))

    text, raw = shown["messages"]
    assert (text["offset"], text["encoding"], text["body"], text["size"]) == (first, "utf-8", "süß & <b>", 11)
    assert (raw["offset"], raw["encoding"]) == (first + 1, "base64")
    assert (base64.b64decode(raw["body"]), raw["size"], raw["truncated"]) == (b"\xff\x00", 2, False)
    assert len(text["id"]) == 16
    assert raw["timestamp"] >= text["timestamp"] > 0
    assert text.keys().isdisjoint({"state", "attempts", "due"})
    assert shown["next"] == first + 2


def test_a_channel_says_what_became_of_them(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b", b"c")
    http.post(f"/pub?topic={topic}&defer={LATE_MS}", b"late")
    http.post(f"/channel/commit?topic={topic}&channel=c&offset={first + 1}")

    shown = said(http.get(f"/message/peek?topic={topic}&channel=c&offset={first}"))["messages"]

    assert [each["state"] for each in shown] == ["finished", "fresh", "fresh", "deferred"]
    assert [each["attempts"] for each in shown] == [0, 0, 0, 0]
    assert shown[3]["due"] - shown[3]["timestamp"] == pytest.approx(LATE_MS * 10**6, abs=10**9)
    assert "due" not in shown[0]
    ahead = said(http.get(f"/message/peek?topic={topic}&channel=c"))["messages"]
    assert [each["body"] for each in ahead] == ["b", "c", "late"]


def test_looking_changes_nothing(http: HttpConnection, topic: str) -> None:
    fill(http, topic, b"a")

    once, again = (http.get(f"/message/peek?topic={topic}&channel=c").body for _ in range(2))

    assert once == again
    assert b'"state":"fresh"' in once


def test_looking_on_where_the_last_answer_ended(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b", b"c")

    page = said(http.get(f"/message/peek?topic={topic}&count=2"))
    rest = said(http.get(f"/message/peek?topic={topic}&offset={page['next']}"))
    end = said(http.get(f"/message/peek?topic={topic}&offset={rest['next']}"))

    assert [each["body"] for each in page["messages"] + rest["messages"]] == ["a", "b", "c"]
    assert end == {"messages": [], "next": first + 3}


def test_bodies_are_cut_to_the_size_asked_for(http: HttpConnection, topic: str) -> None:
    fill(http, topic, b"abcdef", b"ab\xff\xfe\xfd", b"abc")

    shown = said(http.get(f"/message/peek?topic={topic}&max_body_bytes=3"))["messages"]

    assert [(each["body"], each["size"], each["truncated"]) for each in shown] == [
        ("abc", 6, True),
        (base64.b64encode(b"ab\xff").decode(), 5, True),
        ("abc", 3, False),
    ]


def test_text_is_not_cut_within_a_character() -> None:
    assert shown_body("aäb".encode(), 2) == ("utf-8", "a")
    assert shown_body("aäb".encode(), 3) == ("utf-8", "aä")
    assert shown_body(b"", 0) == ("utf-8", "")


def test_an_offset_outside_is_refused(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a")

    before = http.get(f"/message/peek?topic={topic}&offset={first - 1}")
    behind = http.get(f"/message/peek?topic={topic}&channel=c&offset={first + 2}")

    assert refusal(before) == refusal(behind) == (416, "OFFSET_OUT_OF_RANGE")
    assert "--retention-time" in reason(before)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "MISSING_ARG_TOPIC"),
        ("topic=%21", 400, "INVALID_TOPIC"),
        ("topic=nowhere", 404, "TOPIC_NOT_FOUND"),
        ("topic=there&channel=", 400, "INVALID_ARG_CHANNEL"),
        ("topic=there&channel=none", 404, "CHANNEL_NOT_FOUND"),
        ("topic=there&offset=x", 400, "INVALID_ARG_OFFSET"),
        ("topic=there&count=0", 400, "INVALID_ARG_COUNT"),
        ("topic=there&count=1001", 400, "INVALID_ARG_COUNT"),
        ("topic=there&max_body_bytes=-1", 400, "INVALID_ARG_MAX_BODY_BYTES"),
    ],
)
def test_what_is_refused(http: HttpConnection, query: str, status: int, code: str) -> None:
    fill(http, "there")

    assert refusal(http.get(f"/message/peek?{query}")) == (status, code)
