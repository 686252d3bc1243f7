"""`/pub` and `/mpub`; the numbers are those of the specification's edge cases."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.option_choices import AckAfter
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_client import Answer
from tests.fakes.http_connection import HttpConnection
from tests.integration.conftest import Connect
from tests.integration.support import figures, find_topic, has_topic

SIZE = struct.Struct(">i")


def code(answer: Answer) -> tuple[int, bytes]:
    return answer.status, answer.body


def refused(status: int, message: str) -> tuple[int, bytes]:
    return status, b'{"message":"%b"}' % message.encode()


def of_topic(nsqd: NsqdFixture, topic: str, look: Callable[[LiveTopic], Any]) -> Any:
    return nsqd.call(lambda daemon: look(find_topic(daemon, topic)))


def counts(nsqd: NsqdFixture, topic: str) -> tuple[int, int]:
    """Messages and bytes that were published to the topic."""
    return of_topic(nsqd, topic, lambda live: (live.core.message_count, live.core.message_bytes))


def binary(*bodies: bytes, count: int | None = None) -> bytes:
    records = b"".join(SIZE.pack(len(body)) + body for body in bodies)
    return SIZE.pack(len(bodies) if count is None else count) + records


def received(connect: Connect, nsqd: NsqdFixture, topic: str, count: int) -> list[bytes]:
    consumer = connect(nsqd)
    consumer.sub(topic, "c", rdy=count)
    return [consumer.message().body for _ in range(count)]


# /pub -------------------------------------------------------------------------------------------------


def test_a_published_message_reaches_a_consumer(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    answer = http.post(f"/pub?topic={topic}", b"hello\n\0")

    assert answer.head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n")
    assert (answer.body, answer.headers["x-nsq-content-type"]) == (b"OK", "nsq; version=1.0")
    assert received(connect, nsqd, topic, 1) == [b"hello\n\0"]


def test_an_existing_topic_is_published_to_again_and_again_on_one_connection(
    nsqd: NsqdFixture, http: HttpConnection, topic: str
) -> None:
    answers = [http.post(f"/pub?topic={topic}", b"x" * number) for number in range(1, 6)]

    assert [answer.body for answer in answers] == [b"OK"] * 5
    assert counts(nsqd, topic) == (5, 15)


def test_many_publishers_are_gathered_and_all_are_answered(
    nsqd: NsqdFixture, http: HttpConnection, topic: str
) -> None:
    http.post(f"/topic/create?topic={topic}")
    others = [HttpConnection(nsqd.http_address) for _ in range(8)]
    request = f"POST /pub?topic={topic} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc".encode()

    for _ in range(5):
        for other in others:
            other.send(request)
        assert {other.answer().body for other in others} == {b"OK"}

    assert counts(nsqd, topic) == (40, 120)
    for other in others:
        other.close()


def test_pipelined_publishes_are_answered_in_order(
    nsqd: NsqdFixture, http: HttpConnection, topic: str
) -> None:
    target = f"/pub?topic={topic}"
    whole = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx".encode()
    empty = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()

    http.send(whole + empty + whole)

    assert [http.answer().status for _ in range(3)] == [200, 400, 200]
    assert counts(nsqd, topic) == (2, 2)


@pytest.mark.parametrize(
    ("query", "body", "message"),
    [
        ("topic=bad!", b"", "MSG_EMPTY"),  # 116
        ("topic=", b"x", "INVALID_TOPIC"),  # 117
        ("", b"x", "MISSING_ARG_TOPIC"),
        ("Topic=a", b"x", "MISSING_ARG_TOPIC"),
        ("topic=a;b=1", b"x", "INVALID_REQUEST"),  # 119
        ("topic=%zz", b"x", "INVALID_REQUEST"),
        ("topic=a%0A", b"x", "INVALID_TOPIC"),
        ("topic=..%2F..%2Fa", b"x", "INVALID_TOPIC"),
        ("topic=" + "a" * 65, b"x", "INVALID_TOPIC"),
    ],
)
def test_a_bad_publish_is_refused(http: HttpConnection, query: str, body: bytes, message: str) -> None:
    answer = http.post(f"/pub?{query}", body)

    assert code(answer) == refused(400, message)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


def test_a_raw_hash_is_part_of_the_name(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    """121."""
    answer = http.post(f"/pub?topic={topic}#ephemeral", b"x")

    assert answer.status == 200
    assert has_topic(nsqd, f"{topic}#ephemeral")


def test_a_chunked_message_that_grows_too_big_is_refused(http: HttpConnection, topic: str) -> None:
    """122."""
    head = f"POST /pub?topic={topic} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000)

    http.send(head + 12 * chunk + b"0\r\n\r\n")

    assert code(http.answer()) == refused(413, "MSG_TOO_BIG")


def test_a_message_that_is_too_big_is_refused_before_it_is_sent(http: HttpConnection, topic: str) -> None:
    """150."""
    http.send(
        f"POST /pub?topic={topic} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        "Content-Length: 1048577\r\n\r\n".encode()
    )

    answer = http.answer()

    assert code(answer) == refused(413, "MSG_TOO_BIG")
    assert answer.headers["connection"] == "close"


def test_the_largest_message_is_taken(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    answer = http.post(f"/pub?topic={topic}", b"x" * 1_048_576)

    assert answer.status == 200
    assert counts(nsqd, topic) == (1, 1_048_576)


# defer ------------------------------------------------------------------------------------------------


def test_a_deferred_message_waits(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    http.post(f"/topic/create?topic={topic}")
    http.post(f"/channel/create?topic={topic}&channel=c")

    answer = http.post(f"/pub?topic={topic}&defer=60000", b"later")

    assert (answer.status, answer.body) == (200, b"OK")
    assert figures(nsqd, topic, "c").deferred == 1


@pytest.mark.parametrize("defer", ["0", "+0", "-0"])
def test_no_time_to_wait_is_no_delay(nsqd: NsqdFixture, http: HttpConnection, topic: str, defer: str) -> None:
    http.post(f"/topic/create?topic={topic}")
    http.post(f"/channel/create?topic={topic}&channel=c")

    answer = http.post(f"/pub?topic={topic}&defer={defer.replace('+', '%2B')}", b"now")

    assert answer.status == 200
    assert figures(nsqd, topic, "c").depth == 1


@pytest.mark.parametrize("defer", ["abc", "", "-1", "3600001", "18446744073710", "9" * 30, "1_0", "\u0661"])
def test_a_bad_delay_is_refused_when_the_topic_is_made_already(
    nsqd: NsqdFixture, http: HttpConnection, topic: str, defer: str
) -> None:
    """118, 145."""
    answer = http.post(f"/pub?topic={topic}&defer=".encode().decode() + _escaped(defer), b"x")

    assert code(answer) == refused(400, "INVALID_DEFER")
    assert counts(nsqd, topic) == (0, 0)


def _escaped(value: str) -> str:
    return "".join(f"%{byte:02x}" for byte in value.encode())


# /mpub ------------------------------------------------------------------------------------------------


def test_lines_become_messages(nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str) -> None:
    answer = http.post(f"/mpub?topic={topic}&defer=60000", b"one\n\ntwo\nthree")

    assert (answer.status, answer.body) == (200, b"OK")
    assert received(connect, nsqd, topic, 3) == [b"one", b"two", b"three"]


def test_nothing_is_no_message(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    """123."""
    for body in (b"", b"\n\n\n"):
        assert http.post(f"/mpub?topic={topic}", body).body == b"OK"

    assert counts(nsqd, topic) == (0, 0)


def test_carriage_returns_are_data(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    """124."""
    answer = http.post(f"/mpub?topic={topic}", b"a\r\nb\r\n")

    assert answer.status == 200
    assert counts(nsqd, topic) == (2, 4)


@pytest.mark.parametrize("mode", ["", "true", "1", "TRUE", "yes"])
def test_any_other_mode_is_binary(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str, mode: str
) -> None:
    """125."""
    answer = http.post(f"/mpub?topic={topic}&binary={mode}", binary(b"a\n", b"bcd") + b"ignored")

    assert answer.status == 200
    assert received(connect, nsqd, topic, 2) == [b"a\n", b"bcd"]


@pytest.mark.parametrize("mode", ["false", "0"])
def test_lines_can_be_asked_for(nsqd: NsqdFixture, http: HttpConnection, topic: str, mode: str) -> None:
    http.post(f"/mpub?topic={topic}&binary={mode}", b"a\nb")

    assert counts(nsqd, topic) == (2, 2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "BAD_BODY"),
        (b"\0\0\0", "BAD_BODY"),
        (SIZE.pack(0), "BAD_BODY"),
        (SIZE.pack(-1), "BAD_BODY"),
        (SIZE.pack(2_000_000), "BAD_BODY"),
        (binary(b"a", b"b", count=3), "BAD_MESSAGE"),  # 126
        (binary(b"a", b""), "BAD_MESSAGE"),
        (SIZE.pack(1) + SIZE.pack(-5), "BAD_MESSAGE"),
        (SIZE.pack(1) + SIZE.pack(1_048_577) + b"x" * 1_048_577, "BAD_MESSAGE"),
        (SIZE.pack(1) + SIZE.pack(5) + b"1234", "BAD_MESSAGE"),
    ],
)
def test_a_bad_binary_body_publishes_nothing(
    nsqd: NsqdFixture, http: HttpConnection, topic: str, body: bytes, message: str
) -> None:
    answer = http.post(f"/mpub?topic={topic}&binary=true", body)

    assert code(answer) == refused(413, message)
    assert counts(nsqd, topic) == (0, 0)


def test_one_line_that_is_too_long_publishes_nothing(
    nsqd: NsqdFixture, http: HttpConnection, topic: str
) -> None:
    answer = http.post(f"/mpub?topic={topic}", b"a\n" + b"x" * 1_048_577)

    assert code(answer) == refused(413, "MSG_TOO_BIG")
    assert counts(nsqd, topic) == (0, 0)


def test_a_body_that_is_too_big_makes_no_topic(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    http.send(f"POST /mpub?topic={topic} HTTP/1.1\r\nHost: x\r\nContent-Length: 5242881\r\n\r\n".encode())

    assert code(http.answer()) == refused(413, "BODY_TOO_BIG")
    assert not has_topic(nsqd, topic)


@pytest.mark.parametrize(
    ("query", "message"),
    [("", "MISSING_ARG_TOPIC"), ("topic=b!", "INVALID_TOPIC"), ("topic=a;b", "INVALID_REQUEST")],
)
def test_names_are_checked_before_the_body(http: HttpConnection, query: str, message: str) -> None:
    assert code(http.post(f"/mpub?{query}", b"")) == refused(400, message)


# Circumstances ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/pub", "/put", "/mpub", "/mput"])
def test_old_names_work_too(nsqd: NsqdFixture, http: HttpConnection, topic: str, path: str) -> None:
    assert http.post(f"{path}?topic={topic}", b"x").body == b"OK"
    assert counts(nsqd, topic) == (1, 1)


@pytest.mark.parametrize(("path", "body"), [("/pub", b"x"), ("/mpub", b"x\ny"), ("/pub?defer=5", b"x")])
def test_with_ack_after_sync_the_message_is_synced_when_it_is_answered(path: str, body: bytes) -> None:
    with running_nsqd(ack_after=AckAfter.SYNC) as nsqd, HttpConnection(nsqd.http_address) as http:
        mark = "&" if "?" in path else "?"
        for _ in range(2):
            assert http.post(f"{path}{mark}topic=t", body).body == b"OK"

            log = of_topic(nsqd, "t", lambda live: live.log)
            assert log.synced == log.next


def test_one_topic_too_many_is_refused() -> None:
    with running_nsqd(max_topics=1) as nsqd, HttpConnection(nsqd.http_address) as http:
        http.post("/pub?topic=a", b"x")

        answer = http.post("/pub?topic=b", b"x")

        assert answer.status == 429
        assert b'{"message":"TOO_MANY_TOPICS","reason":"too many topics' in answer.body


@pytest.mark.parametrize("target", ["/pub?topic=old", "/mpub?topic=old", "/pub?topic=new", "/mpub?topic=new"])
def test_a_draining_daemon_says_so(target: str) -> None:
    with running_nsqd() as nsqd, HttpConnection(nsqd.http_address) as http:
        http.post("/pub?topic=old", b"x")
        http.post("/channel/create?topic=old&channel=c")  # holds up the end
        nsqd.call(lambda daemon: daemon.broker.start_drain())

        answer = http.post(target, b"x")

        assert code(answer) == (503, b'{"message":"DRAINING","reason":"draining"}')


def test_an_exiting_daemon_says_so(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    http.post(f"/pub?topic={topic}", b"x")

    def refuse(daemon: Daemon) -> str:
        before, daemon.broker.refusal = daemon.broker.refusal, "exiting"
        return before

    nsqd.call(refuse)

    answer = http.post(f"/pub?topic={topic}", b"x")

    assert code(answer) == (503, b'{"message":"EXITING","reason":"exiting"}')
    nsqd.call(lambda daemon: setattr(daemon.broker, "refusal", ""))


def test_a_full_disk_is_named_and_the_connection_stays(topic: str) -> None:
    with running_nsqd(min_free_bytes=1) as nsqd, HttpConnection(nsqd.http_address) as http:
        assert http.post(f"/pub?topic={topic}", b"x").status == 200
        of_topic(nsqd, topic, lambda live: setattr(live.log._writer, "_min_free_bytes", 2**62))
        of_topic(nsqd, topic, lambda live: setattr(live.log._writer, "_unchecked_bytes", 2**40))

        answers = [http.post(f"{path}?topic={topic}", b"x") for path in ("/pub", "/mpub")]

        assert [answer.status for answer in answers] == [503, 503]
        assert all(
            answer.body.startswith(b'{"message":"DISK_FULL","reason":"disk full: ') for answer in answers
        )
        assert counts(nsqd, topic) == (1, 1)
        assert http.get("/ping").body == b"OK"
