"""Topics and channels over HTTP; the numbers are those of the specification's edge cases."""

import logging

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_client import Answer
from tests.fakes.http_connection import HttpConnection
from tests.integration.conftest import Connect
from tests.integration.support import figures, find_channel, find_topic, has_channel, has_topic


def refused(status: int, message: str) -> tuple[int, bytes]:
    return status, b'{"message":"%b"}' % message.encode()


def code(answer: Answer) -> tuple[int, bytes]:
    return answer.status, answer.body


@pytest.fixture
def channel(http: HttpConnection, topic: str) -> str:
    """The query of a channel that exists."""
    query = f"topic={topic}&channel=c"
    assert http.post(f"/topic/create?topic={topic}").status == 200
    assert http.post(f"/channel/create?{query}").status == 200
    return query


# Topics -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/topic/create", "/create_topic"])
def test_a_topic_is_made_once(nsqd: NsqdFixture, http: HttpConnection, topic: str, path: str) -> None:
    answers = [http.post(f"{path}?topic={topic}") for _ in range(2)]

    assert [code(answer) for answer in answers] == [(200, b"")] * 2
    assert "content-type" not in answers[0].headers
    assert answers[0].headers["content-length"] == "0"
    assert has_topic(nsqd, topic)


@pytest.mark.parametrize("path", ["/topic/delete", "/delete_topic"])
def test_a_deleted_topic_is_gone(nsqd: NsqdFixture, http: HttpConnection, topic: str, path: str) -> None:
    http.post(f"/pub?topic={topic}", b"x")

    assert code(http.post(f"{path}?topic={topic}")) == (200, b"")

    assert not has_topic(nsqd, topic)
    assert code(http.post(f"{path}?topic={topic}")) == refused(404, "TOPIC_NOT_FOUND")


@pytest.mark.parametrize("path", ["/topic/empty", "/empty_topic"])
def test_emptying_a_topic_drops_what_no_channel_has(
    nsqd: NsqdFixture, http: HttpConnection, topic: str, path: str
) -> None:
    http.post(f"/mpub?topic={topic}", b"a\nb")

    assert http.post(f"{path}?topic={topic}").status == 200

    assert nsqd.call(lambda daemon: find_topic(daemon, topic).core.depth) == 0


@pytest.mark.parametrize("words", [("topic/pause", "topic/unpause"), ("pause_topic", "unpause_topic")])
def test_a_topic_is_paused_and_unpaused(
    nsqd: NsqdFixture, http: HttpConnection, topic: str, words: tuple[str, str]
) -> None:
    http.post(f"/topic/create?topic={topic}")

    states = []
    for word in words:
        assert http.post(f"/{word}?topic={topic}").status == 200
        states.append(nsqd.call(lambda daemon: find_topic(daemon, topic).core.is_paused))

    assert states == [True, False]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/topic/create", refused(400, "MISSING_ARG_TOPIC")),
        ("/topic/create?topic=a%0A", refused(400, "INVALID_TOPIC")),  # 120
        ("/topic/delete", refused(400, "MISSING_ARG_TOPIC")),
        ("/topic/delete?topic=b!", refused(404, "TOPIC_NOT_FOUND")),  # 128
        ("/topic/empty", refused(400, "MISSING_ARG_TOPIC")),
        ("/topic/empty?topic=b!", refused(400, "INVALID_TOPIC")),
        ("/topic/empty?topic=nope", refused(404, "TOPIC_NOT_FOUND")),
        ("/topic/pause", refused(400, "MISSING_ARG_TOPIC")),
        ("/topic/pause?topic=b!", refused(404, "TOPIC_NOT_FOUND")),
        ("/topic/unpause?topic=b!", refused(404, "TOPIC_NOT_FOUND")),
        ("/topic/unpause?topic=a;b", refused(400, "INVALID_REQUEST")),
    ],
)
def test_topics_that_are_missing_or_misnamed(
    http: HttpConnection, target: str, expected: tuple[int, bytes]
) -> None:
    assert code(http.post(target)) == expected


def test_form_bodies_are_ignored(http: HttpConnection) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    assert code(http.post("/topic/create", b"topic=a", headers)) == refused(400, "MISSING_ARG_TOPIC")


def test_too_many_topics_are_refused() -> None:
    with running_nsqd(max_topics=1) as nsqd, HttpConnection(nsqd.http_address) as http:
        assert [http.post(f"/topic/create?topic={name}").status for name in "abb"] == [200, 429, 429]


# Channels ---------------------------------------------------------------------------------------------


def test_a_channel_is_made_once(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    http.post(f"/topic/create?topic={topic}")

    answers = [http.post(f"/create_channel?topic={topic}&channel=c") for _ in range(2)]

    assert [code(answer) for answer in answers] == [(200, b"")] * 2
    assert has_channel(nsqd, topic, "c")


@pytest.mark.parametrize("path", ["/channel/delete", "/delete_channel"])
def test_a_deleted_channel_is_gone_and_its_consumer_too(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str, channel: str, path: str
) -> None:
    consumer = connect(nsqd)
    consumer.sub(topic, "c")

    assert http.post(f"{path}?{channel}").status == 200

    assert not has_channel(nsqd, topic, "c")
    consumer.expect_end()
    assert code(http.post(f"{path}?{channel}")) == refused(404, "CHANNEL_NOT_FOUND")


@pytest.mark.parametrize("path", ["/channel/empty", "/empty_channel"])
def test_an_emptied_channel_has_no_messages(
    nsqd: NsqdFixture, http: HttpConnection, topic: str, channel: str, path: str
) -> None:
    http.post(f"/mpub?topic={topic}", b"a\nb")

    assert http.post(f"{path}?{channel}").status == 200

    assert figures(nsqd, topic, "c").depth == 0


@pytest.mark.parametrize(
    "words", [("channel/pause", "channel/unpause"), ("pause_channel", "unpause_channel")]
)
def test_a_channel_is_paused_and_unpaused(
    nsqd: NsqdFixture, http: HttpConnection, topic: str, channel: str, words: tuple[str, str]
) -> None:
    states = []
    for word in words:
        assert http.post(f"/{word}?{channel}").status == 200
        states.append(nsqd.call(lambda daemon: find_channel(daemon, topic, "c").core.is_paused))

    assert states == [True, False]


@pytest.mark.parametrize("verb", ["create", "delete", "empty", "pause", "unpause"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", refused(400, "MISSING_ARG_TOPIC")),
        ("topic=b!&channel=c!", refused(400, "INVALID_ARG_TOPIC")),
        ("topic=nope", refused(400, "MISSING_ARG_CHANNEL")),
        ("topic=nope&channel=c!", refused(400, "INVALID_ARG_CHANNEL")),
        ("topic=nope&channel=c", refused(404, "TOPIC_NOT_FOUND")),  # 127
    ],
)
def test_channels_whose_names_are_wrong(
    nsqd: NsqdFixture, http: HttpConnection, verb: str, query: str, expected: tuple[int, bytes]
) -> None:
    assert code(http.post(f"/channel/{verb}?{query}")) == expected
    assert not has_topic(nsqd, "nope")


@pytest.mark.parametrize("verb", ["delete", "empty", "pause", "unpause"])
def test_channels_that_are_not_there(http: HttpConnection, topic: str, verb: str) -> None:
    http.post(f"/topic/create?topic={topic}")

    assert code(http.post(f"/channel/{verb}?topic={topic}&channel=c")) == refused(404, "CHANNEL_NOT_FOUND")


def test_what_was_done_outlives_a_restart(tmp_path: object, topic: str) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd, HttpConnection(nsqd.http_address) as http:
        for target in ("/topic/create?topic=t", "/channel/create?topic=t&channel=c", "/topic/pause?topic=t"):
            http.post(target)

    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        assert has_channel(nsqd, "t", "c")
        assert nsqd.call(lambda daemon: find_topic(daemon, "t").core.is_paused)


# Routing and record -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/pub", "OPTIONS, POST"),  # 129
        ("HEAD", "/ping", "GET, OPTIONS"),  # 149
        ("POST", "/stats", "GET, OPTIONS"),
        ("GET", "/topic/delete", "OPTIONS, POST"),
        ("DELETE", "/config/log_level", "GET, OPTIONS, PUT"),
        ("GET", "/delete_topic", "OPTIONS, POST"),
    ],
)
def test_other_methods_are_refused(http: HttpConnection, method: str, path: str, allow: str) -> None:
    answer = http.ask(method, path)

    assert (answer.status, answer.headers["allow"]) == (405, allow)
    assert answer.body == (b"" if method == "HEAD" else b'{"message":"METHOD_NOT_ALLOWED"}')


def test_options_tells_the_methods(http: HttpConnection) -> None:
    answer = http.ask("OPTIONS", "/pub")

    assert (answer.status, answer.body, answer.headers["allow"]) == (200, b"", "OPTIONS, POST")


@pytest.mark.parametrize(
    ("method", "target", "status", "location"),
    [
        ("POST", "/Pub?topic=a", 307, "/pub?topic=a"),  # 130
        ("GET", "/stats/?format=json", 301, "/stats?format=json"),
        ("POST", "//topic//create?topic=a", 307, "/topic/create?topic=a"),
        ("GET", "/debug/pprof", 301, "/debug/pprof/"),
    ],
)
def test_a_sloppy_path_is_redirected(
    http: HttpConnection, method: str, target: str, status: int, location: str
) -> None:
    answer = http.ask(method, target)

    assert (answer.status, answer.headers["location"]) == (status, location)


@pytest.mark.parametrize("path", ["/", "/nope", "/topic", "/config", "/config/", "/debug/pprof/mutex"])
def test_unknown_paths(http: HttpConnection, path: str) -> None:
    assert code(http.get(path)) == refused(404, "NOT_FOUND")


def test_what_administrators_do_is_recorded(
    http: HttpConnection, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "nsqlake"):
        http.post(f"/topic/create?topic={topic}")
        http.post(f"/topic/delete?topic=x%0A-%3E%20200{topic}")
        http.post("/topic/empty?topic=a;b")

    client = http.local_address
    lines = [line for line in caplog.messages if line.startswith("ADMIN")]
    assert lines == [
        f"ADMIN(-@{client}): POST /topic/create topic={topic} -> 200",
        f'ADMIN(-@{client}): POST /topic/delete topic="x\\n-> 200{topic}" -> 404',
        f"ADMIN(-@{client}): POST /topic/empty -> 400",
    ]
