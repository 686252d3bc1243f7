"""`/log/offsets` and `/log/read`."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, count

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from tests.fakes.http_client import request_bytes
from tests.fakes.http_connection import HttpConnection
from tests.nsqd.http.support import asked_nsqd, bodies_of, fill, reason, refusal, said

_numbers = count()


@pytest.fixture(scope="module")
def asked() -> Iterator[tuple[NsqdFixture, HttpConnection]]:
    with asked_nsqd(max_bytes_per_file=4096) as both:
        yield both


@pytest.fixture
def http(asked: tuple[NsqdFixture, HttpConnection]) -> HttpConnection:
    return asked[1]


@pytest.fixture
def nsqd(asked: tuple[NsqdFixture, HttpConnection]) -> NsqdFixture:
    return asked[0]


@pytest.fixture
def topic() -> str:
    return f"t{next(_numbers)}"


def test_offsets_say_where_a_log_begins_and_ends(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b", channels=())

    offsets = said(http.get(f"/log/offsets?topic={topic}"))

    assert (offsets["topic"], offsets["first"], offsets["next"]) == (topic, first, first + 2)
    assert offsets["fanout"] == first
    assert (len(offsets["uuid"]), offsets["epoch"]) == (32, 1)
    assert "at" not in offsets


def test_offsets_of_a_time_in_every_spelling(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a", b"b")
    stamp = said(http.get(f"/message/peek?topic={topic}"))["messages"][1]["timestamp"]

    spellings = (str(stamp), f"@{stamp // 10**9}.{stamp % 10**9:09d}", "2020-01-01T00:00:00Z", str(2**63 - 1))

    found = [said(http.get(f"/log/offsets?topic={topic}&timestamp={each}"))["at"] for each in spellings]
    assert found == [first + 1, first + 1, first, first + 2]


def test_offsets_show_what_the_policies_keep() -> None:
    day_ns = 86_400 * 10**9
    with asked_nsqd(retention_time_ns=day_ns, retention_policies=("big*:bytes=1KiB",)) as (_, http):
        fill(http, "t")
        fill(http, "big-t")

        kept = [said(http.get(f"/log/offsets?topic={topic}")) for topic in ("t", "big-t")]

    assert [(each["retention_time"], each["retention_bytes"]) for each in kept] == [(day_ns, 0), (0, 1024)]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "MISSING_ARG_TOPIC"),
        ("topic=%21", 400, "INVALID_TOPIC"),
        ("topic=nowhere", 404, "TOPIC_NOT_FOUND"),
        ("topic=there&timestamp=", 400, "INVALID_ARG_TIMESTAMP"),
        ("topic=there&timestamp=earliest", 400, "INVALID_ARG_TIMESTAMP"),
        ("topic=there&timestamp=-1", 400, "INVALID_ARG_TIMESTAMP"),
        ("topic=there&timestamp=yesterday", 400, "INVALID_ARG_TIMESTAMP"),
    ],
)
def test_what_offsets_refuses(http: HttpConnection, query: str, status: int, code: str) -> None:
    fill(http, "there")

    assert refusal(http.get(f"/log/offsets?{query}")) == (status, code)


def test_the_whole_log_as_it_was_written(http: HttpConnection, topic: str) -> None:
    bodies = [b"%d" % number * 100 for number in range(50)]
    first = fill(http, topic, *bodies)
    offsets = said(http.get(f"/log/offsets?topic={topic}"))

    answer = http.get(f"/log/read?topic={topic}&offset={first}")

    assert bodies_of(answer) == bodies
    headers = answer.headers
    assert (headers["x-nsq-first-offset"], headers["x-nsq-next-offset"]) == (str(first), str(first + 50))
    assert (headers["x-nsq-log-uuid"], headers["x-nsq-log-epoch"]) == (offsets["uuid"], "1")
    assert (headers["x-nsq-log-first"], headers["x-nsq-log-next"]) == (str(first), str(first + 50))


def test_reading_on_piece_by_piece(http: HttpConnection, topic: str) -> None:
    bodies = [b"%d" % number * 100 for number in range(50)]
    offset, pieces = fill(http, topic, *bodies), list[list[bytes]]()

    while not pieces or pieces[-1]:
        answer = http.get(f"/log/read?topic={topic}&offset={offset}&max_bytes=1000")
        assert int(answer.headers["content-length"]) <= 1000
        pieces.append(bodies_of(answer))
        offset = int(answer.headers["x-nsq-next-offset"])

    assert list(chain.from_iterable(pieces)) == bodies
    assert len(pieces) > 10


def test_a_block_is_never_cut(http: HttpConnection, topic: str) -> None:
    fill(http, topic)
    first = said(http.get(f"/log/offsets?topic={topic}"))["next"]
    http.post(f"/mpub?topic={topic}", b"one\ntwo\nthree")

    answer = http.get(f"/log/read?topic={topic}&offset={first + 1}&max_bytes=1")

    assert bodies_of(answer) == [b"one", b"two", b"three"]
    assert answer.headers["x-nsq-first-offset"] == str(first)
    assert answer.headers["x-nsq-next-offset"] == str(first + 3)


def test_a_log_in_memory_reads_the_same(http: HttpConnection) -> None:
    first = fill(http, "m#ephemeral", b"a", b"b")

    answer = http.get(f"/log/read?topic=m#ephemeral&offset={first}")

    assert bodies_of(answer) == [b"a", b"b"]
    assert answer.headers["x-nsq-next-offset"] == str(first + 2)


def test_more_than_one_write_can_hold(http: HttpConnection, topic: str) -> None:
    body = bytes(range(256)) * 3906
    first = fill(http, topic, *[body] * 6)

    answer = http.get(f"/log/read?topic={topic}&offset={first}&max_bytes={2**28}")

    assert bodies_of(answer) == [body] * 6
    assert http.get("/ping").body == b"OK"


def test_no_descriptor_stays_open(http: HttpConnection, nsqd: NsqdFixture, topic: str) -> None:
    first = fill(http, topic, *[b"x" * 3000] * 4)
    with HttpConnection(nsqd.http_address) as leaver:
        leaver.send(request_bytes("GET", f"/log/read?topic={topic}&offset={first}"))
        http.get(f"/log/read?topic={topic}&offset={first}")
    http.get("/ping")

    segments = nsqd.call(lambda daemon: [s.readers for s in daemon.broker.topics[topic].log._segments.all])

    assert len(segments) > 2
    assert set(segments) == {0}


def test_at_the_end_there_is_nothing_yet(http: HttpConnection, topic: str) -> None:
    end = fill(http, topic, b"a") + 1

    answer = http.get(f"/log/read?topic={topic}&offset={end}")

    assert bodies_of(answer) == []
    assert answer.headers["x-nsq-next-offset"] == str(end)


def test_an_offset_outside_of_the_log_is_refused_with_its_bounds(http: HttpConnection, topic: str) -> None:
    first = fill(http, topic, b"a")

    before = http.get(f"/log/read?topic={topic}&offset={first - 1}")
    behind = http.get(f"/log/read?topic={topic}&offset={first + 2}")

    assert refusal(before) == refusal(behind) == (416, "OFFSET_OUT_OF_RANGE")
    assert f"offset {first - 1} is no longer kept" in reason(before)
    assert "--retention-time" in reason(before)
    assert f"beyond the end of the log, which is {first + 1}" in reason(behind)
    bounds = {"x-nsq-log-first": str(first), "x-nsq-log-next": str(first + 1)}
    assert before.headers.items() >= bounds.items() <= behind.headers.items()


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "MISSING_ARG_TOPIC"),
        ("topic=%21", 400, "INVALID_TOPIC"),
        ("topic=nowhere&offset=1", 404, "TOPIC_NOT_FOUND"),
        ("topic=there", 400, "MISSING_ARG_OFFSET"),
        ("topic=there&offset=", 400, "INVALID_ARG_OFFSET"),
        ("topic=there&offset=earliest", 400, "INVALID_ARG_OFFSET"),
        ("topic=there&offset=-1", 400, "INVALID_ARG_OFFSET"),
        (f"topic=there&offset={2**54}", 400, "INVALID_ARG_OFFSET"),
        ("topic=there&offset=1&max_bytes=0", 400, "INVALID_ARG_MAX_BYTES"),
        (f"topic=there&offset=1&max_bytes={2**28 + 1}", 400, "INVALID_ARG_MAX_BYTES"),
        ("topic=there&offset=1&wait_ms=30001", 400, "INVALID_ARG_WAIT_MS"),
        ("topic=there&offset=1&wait_ms=1.5", 400, "INVALID_ARG_WAIT_MS"),
        ("topic=there&offset=%zz", 400, "INVALID_REQUEST"),
    ],
)
def test_what_reading_refuses(http: HttpConnection, query: str, status: int, code: str) -> None:
    fill(http, "there")

    assert refusal(http.get(f"/log/read?{query}")) == (status, code)


def test_whoever_waits_gets_what_comes(http: HttpConnection, nsqd: NsqdFixture, topic: str) -> None:
    end = fill(http, topic)
    with HttpConnection(nsqd.http_address) as reader:
        reader.send(request_bytes("GET", f"/log/read?topic={topic}&offset={end}&wait_ms=30000"))
        http.get("/ping")
        http.post(f"/pub?topic={topic}", b"news")

        answer = reader.answer()

    assert bodies_of(answer) == [b"news"]
    assert answer.headers["x-nsq-next-offset"] == str(end + 1)


def test_whoever_waits_in_vain_gets_nothing(http: HttpConnection, topic: str) -> None:
    end = fill(http, topic)

    answer = http.get(f"/log/read?topic={topic}&offset={end}&wait_ms=20")

    assert bodies_of(answer) == []
    assert answer.headers["x-nsq-next-offset"] == str(end)


def test_a_topic_that_goes_while_its_reader_waits(
    http: HttpConnection, nsqd: NsqdFixture, topic: str
) -> None:
    end = fill(http, topic)
    with HttpConnection(nsqd.http_address) as reader:
        reader.send(request_bytes("GET", f"/log/read?topic={topic}&offset={end}&wait_ms=30000"))
        http.get("/ping")
        http.post(f"/topic/delete?topic={topic}")

        assert refusal(reader.answer()) == (404, "TOPIC_NOT_FOUND")


def test_a_daemon_that_stops_answers_whoever_waits() -> None:
    with ExitStack() as stack:
        with asked_nsqd() as (nsqd, http):
            end = fill(http, "t")
            reader = stack.enter_context(HttpConnection(nsqd.http_address))
            reader.send(request_bytes("GET", f"/log/read?topic=t&offset={end}&wait_ms=30000"))
            reader.socket.shutdown(socket.SHUT_WR)  # so that nobody waits for us to close
            http.get("/ping")

        assert bodies_of(reader.answer()) == []
