"""What the API adds to NSQ's, which tests/integration/test_lookupd_edge_cases.py has."""

from collections.abc import Iterator

import pytest

from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from tests.fakes.http_connection import HttpConnection
from tests.fakes.lookup_client import LookupClient


@pytest.fixture
def lookupd() -> Iterator[NsqlookupdFixture]:
    with running_nsqlookupd(max_registrations=3) as lookupd:
        yield lookupd


@pytest.fixture
def http(lookupd: NsqlookupdFixture) -> Iterator[HttpConnection]:
    with HttpConnection(lookupd.http_address) as http:
        yield http


def test_one_name_too_many_is_refused(lookupd: NsqlookupdFixture, http: HttpConnection) -> None:
    assert http.post("/channel/create?topic=a&channel=c").status == 200
    assert http.post("/topic/create?topic=b").status == 200

    answer = http.post("/topic/create?topic=d")

    reason = b"limit of 3 registrations in all reached"
    assert (answer.status, answer.body) == (
        429,
        b'{"message":"TOO_MANY_REGISTRATIONS","reason":"%b"}' % reason,
    )
    assert http.post("/topic/create?topic=b").status == 200
    assert lookupd.topics() == ["a", "b"]


def test_every_change_is_recorded_with_its_outcome(
    http: HttpConnection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nsqlake")
    http.post("/channel/create?topic=a&channel=c")
    http.post("/topic/tombstone?topic=a&node=h:1")
    http.post("/topic/delete?topic=*")
    http.get("/topics")

    who = f"ADMIN(-@{http.local_address}): POST"
    assert [line for line in caplog.messages if line.startswith("ADMIN")] == [
        f"{who} /channel/create topic=a channel=c -> 200",
        f"{who} /topic/tombstone topic=a node=h:1 -> 200",
        f'{who} /topic/delete topic="*" -> 400',
    ]


def test_the_figures(lookupd: NsqlookupdFixture, http: HttpConnection) -> None:
    with LookupClient(lookupd.tcp_address) as client, LookupClient(lookupd.tcp_address) as bad:
        client.identify()
        client.expect_ok(b"REGISTER t c\n", b"PING\n")
        bad.ask(b"BAD\n")
        http.post("/topic/tombstone?topic=t&node=h1:4151")

        answer = http.get("/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    for line in (
        "nsqlookupd_topics 1.0",
        "nsqlookupd_channels 1.0",
        "nsqlookupd_peers 1.0",
        "nsqlookupd_peers_active 1.0",
        "nsqlookupd_peer_registrations 2.0",
        "nsqlookupd_registrations_limit 3.0",
        "nsqlookupd_tombstones 1.0",
        "nsqlookupd_commands_total 4.0",
        'nsqlookupd_protocol_errors_total{code="E_INVALID"} 1.0',
        'nsqlookupd_http_requests_total{path="/topic/tombstone"} 1.0',
        'nsqlookupd_connections_accepted_total{listener="tcp"} 2.0',
        'nsqlookupd_connections{listener="http"} 1.0',
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
