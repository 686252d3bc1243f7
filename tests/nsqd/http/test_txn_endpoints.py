"""`/txn/stage`, `/txn/commit`, `/txn/abort`, `/txn`, and `/log/index`."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from tests.fakes.http_client import Answer
from tests.fakes.http_connection import HttpConnection
from tests.fakes.tcp_client import TcpClient
from tests.integration.support import eventually
from tests.nsqd.http.support import asked_nsqd, bodies_of, fill, reason, refusal, said


@pytest.fixture
def asked() -> Iterator[tuple[NsqdFixture, HttpConnection]]:
    with asked_nsqd() as both:
        yield both


@pytest.fixture
def http(asked: tuple[NsqdFixture, HttpConnection]) -> HttpConnection:
    return asked[1]


def mpub(*bodies: bytes) -> bytes:
    sized = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    return len(bodies).to_bytes(4, "big") + sized


def staged(
    http: HttpConnection, *bodies: bytes, headers: dict[str, str] | None = None, **given: Any
) -> Answer:
    fields = {"txn": "q.1", "part": 0, "attempt": 0, "number": 0, "topic": "t"} | given
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    return http.post(f"/txn/stage?{query}", mpub(*bodies), headers)


def committed(
    http: HttpConnection,
    *parts: tuple[int, int, int, int],
    txn: str = "q.1",
    headers: dict[str, str] | None = None,
) -> Answer:
    names = ("part", "attempt", "records", "messages")
    body = {"parts": [dict(zip(names, part, strict=True)) for part in parts]}
    return http.post(f"/txn/commit?txn={txn}", json.dumps(body).encode(), headers)


def log_bodies(http: HttpConnection, topic: str = "t") -> list[bytes]:
    first = http.get_json(f"/log/offsets?topic={topic}")["first"]
    return bodies_of(http.get(f"/log/read?topic={topic}&offset={first}"))


def test_a_transaction_from_stage_to_consumer(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    nsqd, http = asked
    fill(http, "t")
    assert said(staged(http, b"one", b"two")) == {"already": False}
    assert said(staged(http, b"one", b"two")) == {"already": True}
    assert said(staged(http, b"three", number=1)) == {"already": False}
    assert said(staged(http, b"never", attempt=9)) == {"already": False}
    assert log_bodies(http) == []

    assert said(committed(http, (0, 0, 2, 3))) == {"already": False, "messages": 3, "lost": 0}
    assert said(committed(http, (0, 0, 2, 3))) == {"already": True, "messages": 0, "lost": 0}

    assert log_bodies(http) == [b"one", b"two", b"three"]
    with TcpClient(nsqd.tcp_address) as client:
        client.sub("t", "c", 10)
        assert [message.body for message in client.messages(3)] == [b"one", b"two", b"three"]


def test_the_state_of_a_transaction(http: HttpConnection) -> None:
    assert said(http.get("/txn?txn=q.1")) == {"txn": "q.1", "state": "unknown", "parts": []}
    staged(http, b"x", b"yy", part=3, attempt=2**62)

    (part,) = said(http.get("/txn?txn=q.1"))["parts"]
    assert part.pop("bytes") > 11
    assert part == {"part": 3, "attempt": 2**62, "records": 1, "messages": 2}
    committed(http, (3, 2**62, 1, 2))
    assert said(http.get("/txn?txn=q.1")) == {"txn": "q.1", "state": "done", "parts": []}


def test_an_abort(http: HttpConnection) -> None:
    staged(http, b"x")

    assert http.post("/txn/abort?txn=q.1").status == 200
    assert refusal(committed(http, (0, 0, 1, 1))) == (404, "TXN_NOT_FOUND")
    assert staged(http, b"y").status == committed(http, (0, 0, 1, 1)).status == 200
    assert refusal(http.post("/txn/abort?txn=q.1")) == (409, "TXN_COMMITTED")
    assert log_bodies(http) == [b"y"]


def test_a_topic_that_does_not_exist_is_made_by_the_commit(http: HttpConnection) -> None:
    staged(http, b"x", topic="new")
    assert http.get("/log/offsets?topic=new").status == 404

    committed(http, (0, 0, 1, 1))
    assert log_bodies(http, "new") == [b"x"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"txn": "q"}, (400, "INVALID_ARG_TXN")),
        ({"txn": "../q.1"}, (400, "INVALID_ARG_TXN")),
        ({"part": "-1"}, (400, "INVALID_ARG_PART")),
        ({"attempt": 2**63}, (400, "INVALID_ARG_ATTEMPT")),
        ({"number": "x"}, (400, "INVALID_ARG_NUMBER")),
        ({"number": 1}, (409, "RECORD_MISSING")),
        ({"defer_ms": 10**10}, (400, "INVALID_ARG_DEFER_MS")),
        ({"topic": "t%23ephemeral"}, (400, "INVALID_TOPIC")),
        ({"topic": "no%20name"}, (400, "INVALID_TOPIC")),
    ],
)
def test_what_cannot_be_staged(
    http: HttpConnection, given: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert refusal(staged(http, b"x", **given)) == expected


@pytest.mark.parametrize("name", ["txn", "part", "attempt", "number", "topic"])
def test_what_must_be_said_to_stage(http: HttpConnection, name: str) -> None:
    fields = {"txn": "q.1", "part": 0, "attempt": 0, "number": 0, "topic": "t"}
    del fields[name]
    query = "&".join(f"{key}={value}" for key, value in fields.items())

    assert refusal(http.post(f"/txn/stage?{query}", mpub(b"x"))) == (400, f"MISSING_ARG_{name.upper()}")


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\1\0\0\0\0", b"\0\0\0\1\0\0\0\2x"])
def test_a_body_that_is_no_mpub(http: HttpConnection, body: bytes) -> None:
    answer = http.post("/txn/stage?txn=q.1&part=0&attempt=0&number=0&topic=t", body)

    assert answer.status == 413
    assert said(http.get("/txn?txn=q.1"))["state"] == "unknown"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"parts": [1]}',
        b'{"parts": [], "x": 1}',
        b'{"parts": [{"part": 0}]}',
        b"[" * 9999,
    ],
)
def test_a_commit_that_cannot_be_read(http: HttpConnection, body: bytes) -> None:
    assert refusal(http.post("/txn/commit?txn=q.1", body)) == (400, "INVALID_BODY")


def test_what_differs_from_what_was_staged(http: HttpConnection) -> None:
    staged(http, b"x")

    assert refusal(staged(http, b"y")) == (409, "RECORD_DIFFERS")
    answer = committed(http, (0, 0, 1, 2))
    assert refusal(answer) == (409, "TXN_INCOMPLETE")
    assert reason(answer) == "part 0 attempt 0 has 1 records with 1 messages, not 1 with 2"


def test_limits_say_which_they_are() -> None:
    with asked_nsqd(max_txn_bytes=100, max_topics=1) as (_, http):
        assert staged(http, b"x" * 50).status == 200
        answer = staged(http, b"x" * 50, number=1)
        assert (refusal(answer), reason(answer)) == ((503, "TXN_FULL"), "--max-txn-bytes is 100")
        fill(http, "other")
        assert refusal(committed(http, (0, 0, 1, 1))) == (429, "TOO_MANY_TOPICS")
        assert said(http.get("/txn?txn=q.1"))["state"] == "open"


def test_a_draining_node_takes_nothing() -> None:
    with asked_nsqd() as (_, http):
        fill(http, "t", b"keeps it from exiting")
        staged(http, b"x")
        assert http.post("/drain").status == 200

        assert refusal(staged(http, b"x", number=1)) == (503, "DRAINING")
        assert refusal(committed(http, (0, 0, 1, 1))) == (503, "DRAINING")


def test_metrics_tell_of_transactions(http: HttpConnection) -> None:
    staged(http, b"x")
    committed(http, (0, 0, 1, 1))
    staged(http, b"x" * 100, txn="q.2")

    text = http.get("/metrics").body.decode()

    assert "\nnsqd_transactions_open 1\n" in text
    assert "\nnsqd_transactions_staged_bytes 139\n" in text
    assert "\nnsqd_transactions_committed_total 1\n" in text
    assert "\nnsqd_transactions_expired_total 0\n" in text
    assert "\nnsqd_transactions_stalled 0\n" in text


def test_the_loop_goes_on_during_a_large_commit(asked: tuple[NsqdFixture, HttpConnection]) -> None:
    nsqd, http = asked
    fill(http, "t")
    bodies = [b"%07d" % number * (1 + number % 20) for number in range(60_000)]
    for number in range(4):
        assert staged(http, *bodies, number=number).status == 200

    begun, ended = threading.Event(), threading.Event()
    waits: list[float] = []

    def ping() -> None:
        with HttpConnection(nsqd.http_address) as other:
            begun.set()
            while not ended.is_set():
                before = time.perf_counter()
                assert other.get("/ping").status == 200
                waits.append(time.perf_counter() - before)

    thread = threading.Thread(target=ping)
    thread.start()
    begun.wait()
    assert said(committed(http, (0, 0, 4, 240_000)))["messages"] == 240_000
    ended.set()
    thread.join()

    assert len(waits) > 10, "others had their turn"


# /log/index


def test_marks_of_a_log(http: HttpConnection) -> None:
    first = fill(http, "t", *[b"x" * 100] * 10)

    index = http.get_json(f"/log/index?topic=t&offset={first}&step_bytes=400")

    assert (index["first"], index["next"], index["start"], index["end"]) == (
        first,
        first + 10,
        first,
        first + 10,
    )
    assert index["uuid"] == http.get_json("/log/offsets?topic=t")["uuid"]
    assert index["marks"] == [[first + n, n * 156, n] for n in (3, 6, 8, 10)]
    part = http.get_json(f"/log/index?topic=t&offset={first + 2}&end={first + 4}")
    assert part["marks"] == [[first + 4, 2 * 156, 2]]


def test_marks_outside_of_a_log(http: HttpConnection) -> None:
    first = fill(http, "t", b"x")

    assert refusal(http.get("/log/index?topic=t&offset=1")) == (416, "OFFSET_OUT_OF_RANGE")
    assert refusal(http.get(f"/log/index?topic=t&offset={first + 2}")) == (416, "OFFSET_OUT_OF_RANGE")
    assert refusal(http.get("/log/index?topic=none&offset=1")) == (404, "TOPIC_NOT_FOUND")
    assert refusal(http.get(f"/log/index?topic=t&offset={first}&step_bytes=0")) == (
        400,
        "INVALID_ARG_STEP_BYTES",
    )
    assert http.get_json(f"/log/index?topic=t&offset={first}&end={first + 99}")["end"] == first + 1


def test_a_reader_that_waits_at_the_end_is_woken_by_a_commit(
    asked: tuple[NsqdFixture, HttpConnection],
) -> None:
    nsqd, http = asked
    first = fill(http, "t")
    staged(http, b"x")
    with HttpConnection(nsqd.http_address) as reader:
        reader.send(
            f"GET /log/read?topic=t&offset={first}&wait_ms=20000 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        )
        committed(http, (0, 0, 1, 1))

        assert bodies_of(reader.answer()) == [b"x"]
    eventually(lambda: said(http.get("/txn?txn=q.1"))["state"] == "done")
