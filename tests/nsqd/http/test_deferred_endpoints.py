"""`/channel/deferred` and `/channel/deferred/cancel`."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.fakes.http_connection import HttpConnection
from tests.nsqd.http.support import LATE_MS, asked_nsqd, fill, refusal, said

_numbers = count()


@pytest.fixture(scope="module")
def http() -> Iterator[HttpConnection]:
    with asked_nsqd() as (_, http):
        yield http


@pytest.fixture
def topic(http: HttpConnection) -> str:
    """With four messages: three deferred, the last one due first."""
    name = f"t{next(_numbers)}"
    fill(http, name, b"now", channels=("c", "d"))
    for number in (3, 2, 1):
        http.post(f"/pub?topic={name}&defer={LATE_MS - 100_000 + 10_000 * number}", b"x" * number)
    return name


def deferred(http: HttpConnection, topic: str, channel: str = "c") -> list[int]:
    """Their sizes."""
    answer = said(http.get(f"/channel/deferred?topic={topic}&channel={channel}"))
    return [each["size"] for each in answer["messages"]]


def test_what_waits_is_listed_by_its_time(http: HttpConnection, topic: str) -> None:
    answer = said(http.get(f"/channel/deferred?topic={topic}&channel=c"))

    assert [each["size"] for each in answer["messages"]] == [1, 2, 3]
    dues = [each["due"] for each in answer["messages"]]
    assert dues == sorted(dues)
    assert answer["messages"][0].keys() == {"id", "offset", "due", "attempts", "size"}
    assert answer["after"] is None


def test_a_list_goes_on_behind_its_last_message(http: HttpConnection, topic: str) -> None:
    pages, after = [], ""

    while after is not None:
        mark = f"&after={after}" if after else ""
        page = said(http.get(f"/channel/deferred?topic={topic}&channel=c&limit=2{mark}"))
        pages.append([each["size"] for each in page["messages"]])
        after = page["after"]

    assert pages == [[1, 2], [3]]


def test_one_is_cancelled_in_one_channel(http: HttpConnection, topic: str) -> None:
    listed = said(http.get(f"/channel/deferred?topic={topic}&channel=c"))["messages"]
    target = f"/channel/deferred/cancel?topic={topic}&channel=c&id={listed[1]['id']}"

    assert said(http.post(target)) == {"cancelled": 1}

    assert (deferred(http, topic), deferred(http, topic, "d")) == ([1, 3], [1, 2, 3])
    assert refusal(http.post(target)) == (404, "MESSAGE_NOT_FOUND")


def test_all_are_cancelled(http: HttpConnection, topic: str) -> None:
    target = f"/channel/deferred/cancel?topic={topic}&channel=c&all=true"

    assert said(http.post(target)) == {"cancelled": 3}

    assert deferred(http, topic) == []
    assert said(http.post(target)) == {"cancelled": 0}
    peeked = said(http.get(f"/message/peek?topic={topic}&channel=c"))["messages"]
    assert [each["state"] for each in peeked] == ["fresh", "finished", "finished", "finished"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("", "MISSING_ARG_ID"),
        ("&all=false", "MISSING_ARG_ID"),
        ("&all=yes", "INVALID_ARG_ALL"),
        ("&id=", "INVALID_ARG_ID"),
        ("&id=0123456789ABCDEF", "INVALID_ARG_ID"),
        ("&id=0123456789abcdef0", "INVALID_ARG_ID"),
        ("&id=0123456789abcdef&all=1", "INVALID_ARG_ALL"),
    ],
)
def test_whoever_means_all_has_to_say_so(http: HttpConnection, topic: str, arguments: str, code: str) -> None:
    answer = http.post(f"/channel/deferred/cancel?topic={topic}&channel=c{arguments}")

    assert refusal(answer) == (400, code)
    assert deferred(http, topic) == [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "MISSING_ARG_TOPIC"),
        ("topic=nowhere&channel=c", 404, "TOPIC_NOT_FOUND"),
        ("topic=there&channel=none", 404, "CHANNEL_NOT_FOUND"),
        ("topic=there&channel=c&limit=0", 400, "INVALID_ARG_LIMIT"),
        ("topic=there&channel=c&limit=1001", 400, "INVALID_ARG_LIMIT"),
        ("topic=there&channel=c&after=5", 400, "INVALID_ARG_AFTER"),
    ],
)
def test_what_the_list_refuses(http: HttpConnection, query: str, status: int, code: str) -> None:
    fill(http, "there")

    assert refusal(http.get(f"/channel/deferred?{query}")) == (status, code)
