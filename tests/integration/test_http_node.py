"""`/ping`, `/info`, `/stats`, `/metrics`, `/config`, `/debug`; the numbers are those of the edge cases."""

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_client import Answer
from tests.fakes.http_connection import HttpConnection
from tests.integration.conftest import Connect
from tests.integration.support import eventually, find_topic


def code(answer: Answer) -> tuple[int, bytes]:
    return answer.status, answer.body


def refused(status: int, message: str) -> tuple[int, bytes]:
    return status, b'{"message":"%b"}' % message.encode()


@pytest.fixture
def _log_level() -> Iterator[None]:
    before = logging.getLogger("nsqlake").level, logging.getLogger().level
    yield
    logging.getLogger("nsqlake").setLevel(before[0])
    logging.getLogger().setLevel(before[1])


# /ping and /info --------------------------------------------------------------------------------------


def test_ping_says_ok_without_the_header_of_nsq(http: HttpConnection) -> None:
    answer = http.get("/ping")

    assert code(answer) == (200, b"OK")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "x-nsq-content-type" not in answer.headers


def test_ping_says_what_is_wrong(nsqd: NsqdFixture, http: HttpConnection, topic: str) -> None:
    http.post(f"/pub?topic={topic}", b"x")

    def fail(reason: str | None) -> None:
        nsqd.call(lambda daemon: setattr(find_topic(daemon, topic).log._writer, "failed", reason))

    fail("sync failed: input/output error")
    answers = http.get("/ping"), http.post(f"/pub?topic={topic}", b"x"), http.get_json("/stats?format=json")
    fail(None)

    text = f"NOK - TOPIC({topic}): sync failed: input/output error"
    assert code(answers[0]) == (500, text.encode())
    assert answers[1].status == 503
    assert json.loads(answers[1].body)["message"] == "SYNC_FAILED"
    assert answers[2]["health"] == text


def test_ping_names_a_topic_that_could_not_be_opened_but_no_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("well", "broken"):
        with running_nsqd(data_path=str(tmp_path)) as nsqd, HttpConnection(nsqd.http_address) as http:
            http.post(f"/pub?topic={name}", b"x")
    log = tmp_path / "topics" / "broken.topic" / "log"
    log.rename(tmp_path / "aside")
    log.write_bytes(b"")

    with running_nsqd(data_path=str(tmp_path)) as nsqd, HttpConnection(nsqd.http_address) as http:
        ping = http.get("/ping")
        answers = {name: http.post(f"/pub?topic={name}", b"x").status for name in ("well", "broken")}

    assert code(ping) == (500, b"NOK - TOPIC(broken): cannot be opened: not a directory")
    assert answers == {"well": 200, "broken": 503}
    assert str(log) in caplog.text
    caplog.clear()


def test_info_tells_the_real_ports(nsqd: NsqdFixture, http: HttpConnection) -> None:
    info = http.get_json("/info")

    assert (info["tcp_port"], info["http_port"]) == (nsqd.tcp_port, nsqd.http_port)
    assert info["max_heartbeat_interval"] == 60_000_000_000
    assert list(info)[:3] == ["version", "broadcast_address", "hostname"]


# /stats -----------------------------------------------------------------------------------------------


def test_stats_of_an_unknown_topic_are_null(http: HttpConnection) -> None:
    """131."""
    stats = http.get_json("/stats?format=json&topic=nope")

    assert (stats["topics"], stats["producers"]) == (None, None)


def test_stats_of_an_unknown_channel_are_empty(http: HttpConnection, topic: str) -> None:
    """132."""
    http.post(f"/topic/create?topic={topic}")

    assert http.get_json(f"/stats?format=json&topic={topic}&channel=nope")["topics"] == []


@pytest.mark.parametrize(("value", "expected"), [("False", True), ("false", False), ("0", False), ("", True)])
def test_clients_are_shown_unless_that_is_switched_off(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str, value: str, expected: bool
) -> None:
    """133."""
    connect(nsqd).sub(topic, "c")

    stats = http.get_json(f"/stats?format=json&topic={topic}&include_clients={value}")

    assert (stats["topics"][0]["channels"][0]["clients"] is not None) is expected


def test_only_publishers_over_tcp_are_producers(
    nsqd: NsqdFixture, http: HttpConnection, connect: Connect, topic: str
) -> None:
    """146."""
    names = [f"{topic}-{number}" for number in range(3)]
    producer = connect(nsqd)
    for name in names:
        producer.pub(name, b"x")
    http.post(f"/pub?topic={names[2]}", b"x")

    shown = http.get_json(f"/stats?format=json&topic={names[2]}")["producers"]
    unfiltered = http.get_json("/stats?format=json")["producers"]

    counts = [producer["pub_counts"] for producer in shown if "pub_counts" in producer]
    assert counts == [[{"topic": names[2], "count": 1}]]
    assert all(len(producer["pub_counts"]) == 1 for producer in unfiltered)


def test_stats_as_text(http: HttpConnection, topic: str) -> None:
    http.post(f"/pub?topic={topic}", b"x")

    answer = http.get("/stats?format=JSON&include_mem=false")

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.body.startswith(b"nsqd v")
    assert f"   [{topic:<15}] depth: 1     be-depth: 0     msgs: 1        e2e%: ".encode() in answer.body
    assert b"Memory:" not in answer.body


def test_stats_with_a_bad_query(http: HttpConnection) -> None:
    assert code(http.get("/stats?a;b")) == refused(400, "INVALID_REQUEST")


def test_metrics_count_http_connections(http: HttpConnection) -> None:
    answer = http.get("/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'nsqd_connections{kind="http",tls="no"} 1\n' in answer.body
    assert re.search(rb'nsqd_connections_accepted_total\{listener="http"\} [1-9]', answer.body)
    assert b'nsqd_connections_accepted_total{listener="tcp"} ' in answer.body
    assert b"nsqd_loop_lag_seconds_bucket" in answer.body


# /config ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("msg_timeout", b"60000000000"),
        ("log_level", b"2"),
        ("tls_required", b"0"),
        ("tls_min_version", b"771"),
        ("nsqlookupd_tcp_addresses", b"[]"),
        ("log_prefix", b"[nsqd] "),
        ("deflate", b"true"),
        ("http_auth", b"on"),
    ],
)
def test_options_are_shown_by_their_keys(http: HttpConnection, key: str, value: bytes) -> None:
    assert code(http.get(f"/config/{key}")) == (200, value)


@pytest.mark.parametrize("key", ["bogus", "version", "config", "verbose", "worker_id", "node-id", "node_id"])
def test_other_names_are_no_options(http: HttpConnection, key: str) -> None:
    assert code(http.get(f"/config/{key}")) == refused(400, "INVALID_OPTION")


def test_what_follows_from_the_listeners_is_shown(nsqd: NsqdFixture, http: HttpConnection) -> None:
    prefix = http.get("/config/statsd_prefix").body.decode()

    assert http.get("/config/broadcast_tcp_port").body == str(nsqd.tcp_port).encode()
    assert http.get("/config/broadcast_http_port").body == str(nsqd.http_port).encode()
    assert prefix.startswith("nsq.")
    assert prefix.endswith(f"_{nsqd.http_port}.")


def test_passwords_in_the_addresses_of_auth_servers_are_not_shown() -> None:
    addresses = ("https://user:secret@auth.example:8000/auth?key=secret", "user:secret@host:1")
    with running_nsqd(auth_http_addresses=addresses) as nsqd, HttpConnection(nsqd.http_address) as http:
        shown = http.get("/config/auth_http_addresses").body

    assert json.loads(shown) == ["https://auth.example:8000/auth", "host:1"]


@pytest.mark.parametrize(
    ("key", "body", "expected"),
    [
        ("bogus", b"", refused(413, "INVALID_VALUE")),  # 134
        ("bogus", b"x", refused(400, "INVALID_OPTION")),
        ("msg_timeout", b"1s", refused(400, "INVALID_OPTION")),
        ("log_level", b"", refused(413, "INVALID_VALUE")),
        ("log_level", b"warning", refused(400, "INVALID_VALUE")),  # 135
        ("log_level", b'"warn"', refused(400, "INVALID_VALUE")),
        ("log_level", b"warn\n", refused(400, "INVALID_VALUE")),
        ("log_level", b"\xff", refused(400, "INVALID_VALUE")),
        ("nsqlookupd_tcp_addresses", b"127.0.0.1:1", refused(400, "INVALID_VALUE")),
        ("nsqlookupd_tcp_addresses", b"[1]", refused(400, "INVALID_VALUE")),
        ("nsqlookupd_tcp_addresses", b'"a:1"', refused(400, "INVALID_VALUE")),
    ],
)
def test_bad_changes_are_refused(
    http: HttpConnection, key: str, body: bytes, expected: tuple[int, bytes]
) -> None:
    assert code(http.ask("PUT", f"/config/{key}", body)) == expected


def test_a_value_that_is_too_large_is_refused(http: HttpConnection) -> None:
    http.send(b"PUT /config/log_level HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n")

    assert code(http.answer()) == refused(413, "INVALID_VALUE")


@pytest.mark.usefixtures("_log_level")
def test_the_log_level_is_changed_at_once() -> None:
    """135."""
    with running_nsqd() as nsqd, HttpConnection(nsqd.http_address) as http:
        assert code(http.ask("PUT", "/config/log_level", b"WARN")) == (200, b"3")
        assert logging.getLogger("nsqlake").level == logging.WARNING
        assert http.get("/config/log_level").body == b"3"


def test_lookupds_are_changed_at_once() -> None:
    with running_nsqd() as nsqd, HttpConnection(nsqd.http_address) as http:
        answer = http.ask("PUT", "/config/nsqlookupd_tcp_addresses", b'["127.0.0.1:1", "127.0.0.1:1"]')

        assert code(answer) == (200, b'["127.0.0.1:1","127.0.0.1:1"]')
        assert nsqd.call(lambda daemon: daemon.announcements.addresses) == ("127.0.0.1:1",) * 2
        assert code(http.ask("PUT", "/config/nsqlookupd_tcp_addresses", b"null")) == (200, b"[]")


# /debug -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", b"goroutine"),
        ("cmdline", sys.argv[0].encode()),
        ("goroutine", b"task housekeeping\n"),
        ("goroutine?debug=1", b"thread nsqd\n"),
        ("threadcreate", b"nsqd daemon=True\n"),
        ("block", b""),
        ("heap?seconds=0", b"traced now="),
        ("profile?seconds=1", b"nsqd;"),
    ],
)
def test_the_process_can_be_looked_into(http: HttpConnection, name: str, text: bytes) -> None:
    answer = http.get(f"/debug/pprof/{name}")

    assert answer.status == 200
    assert text in answer.body
    assert "x-nsq-content-type" not in answer.headers


@pytest.mark.parametrize("seconds", ["0", "61", "x", ""])
def test_a_profile_of_another_length_is_refused(http: HttpConnection, seconds: str) -> None:
    answer = http.get(f"/debug/pprof/profile?seconds={seconds}")

    assert (answer.status, json.loads(answer.body)["message"]) == (400, "INVALID_ARG_SECONDS")


def test_memory_can_be_collected(http: HttpConnection) -> None:
    """136: NSQ answers 500 after doing it."""
    assert code(http.post("/debug/freememory")) == (200, b"")


def test_the_block_rate_is_checked_and_ignored(http: HttpConnection) -> None:
    assert code(http.ask("PUT", "/debug/setblockrate?rate=1")) == (200, b"")
    assert code(http.ask("PUT", "/debug/setblockrate?rate=x")) == (
        400,
        b'invalid block rate : strconv.Atoi: parsing "x": invalid syntax',
    )


# Listeners --------------------------------------------------------------------------------------------


def test_unix_sockets(tmp_path: Path) -> None:
    """144."""
    tcp, http_path = tmp_path / "tcp.sock", tmp_path / "http.sock"
    with (
        running_nsqd(tcp_address=str(tcp), http_address=str(http_path)) as nsqd,
        HttpConnection(nsqd.http_address) as http,
    ):
        info = http.get_json("/info")
        assert http.get("/debug/pprof/cmdline").status == 200

    assert (info["tcp_port"], info["http_port"]) == (-1, -1)
    assert not tcp.exists()
    assert not http_path.exists()


def test_http_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nsqlake"), running_nsqd(http_address="") as nsqd:
        assert (nsqd.http_port, nsqd.http_address) == (0, "")

    assert not [line for line in caplog.messages if line.startswith("HTTP")]


def test_the_listener_is_announced_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nsqlake"), running_nsqd() as nsqd:
        assert f"HTTP: listening on 127.0.0.1:{nsqd.http_port}" in caplog.messages


def test_a_request_at_hand_is_answered_while_the_daemon_stops() -> None:
    with running_nsqd() as nsqd, HttpConnection(nsqd.http_address) as idle:
        busy = HttpConnection(nsqd.http_address)
        idle.get("/ping")
        busy.send(b"GET /debug/pprof/profile?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: b"_sample" in idle.get("/debug/pprof/goroutine").body)

        stopping = Thread(target=nsqd.call, args=(lambda daemon: daemon.http.close(5.0),))
        stopping.start()

        assert idle.is_closed()
        answer = busy.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        stopping.join()
        busy.close()
