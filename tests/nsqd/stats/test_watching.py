"""How long messages take, as a running nsqd measures it."""

import time

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.stats.histogram import Histogram
from nsqlake.nsqd.stats.values import Latency
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.http_connection import HttpConnection
from tests.integration.support import eventually
from tests.nsqd.stats.conftest import Connect
from tests.nsqd.stats.support import channel_of, taken, topic_of


def latency(nsqd: NsqdFixture) -> Latency:
    found = channel_of(nsqd, "t", "c").e2e_processing_latency
    assert topic_of(nsqd, "t").e2e_processing_latency == found
    return found


def timing(nsqd: NsqdFixture, name: str) -> int:
    def count(daemon: Daemon) -> int:
        histogram: Histogram = getattr(daemon.broker.timings, name)
        return histogram.count

    return nsqd.call(count)


@pytest.mark.parametrize("order", [1, -1])
def test_finished_messages_are_in_the_percentiles(connect: Connect, order: int) -> None:
    with running_nsqd(e2e_processing_latency_percentiles=(1.0,)) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 100)
        begun_ns = time.time_ns()
        connect(nsqd).mpub("t", [b"x"] * 50)
        client.fin(*client.messages(50)[::order])
        eventually(lambda: channel_of(nsqd, "t", "c").in_flight_count == 0)
        passed_ns = time.time_ns() - begun_ns

        found = latency(nsqd)

    assert found.count == 50
    assert found.percentiles is not None
    assert 0 < found.percentiles[0].value <= passed_ns * 1.01


def test_messages_finished_one_by_one_are_in_the_percentiles(connect: Connect) -> None:
    with running_nsqd(e2e_processing_latency_percentiles=(0.5,)) as nsqd:
        client = connect(nsqd)
        connect(nsqd).mpub("t", [b"x"] * 20)
        client.sub("t", "c", 1)
        for _ in range(20):
            client.fin(client.message())

        eventually(lambda: latency(nsqd).count == 20)


def test_messages_given_back_are_not_in_the_percentiles(connect: Connect) -> None:
    with running_nsqd(e2e_processing_latency_percentiles=(0.5,)) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 1)
        connect(nsqd).pub("t", b"x")
        client.req(client.message())
        client.fin(client.message())

        eventually(lambda: latency(nsqd).count == 1)


def test_runs_are_timed_from_publish_to_delivery_and_from_there_to_finish(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 100)
        connect(nsqd).mpub("t", [b"x"] * 50)
        client.fin(*client.messages(50))

        eventually(lambda: timing(nsqd, "finish") >= 50)
        assert timing(nsqd, "delivery") == 50
        assert timing(nsqd, "write") == 1
        assert timing(nsqd, "finish") == 50


def test_of_single_messages_some_are_timed_for_all(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client, producer = connect(nsqd), connect(nsqd)
        client.sub("t", "c", 1)
        for _ in range(64):
            producer.send(commands.pub("t", b"x"))
            producer.expect_ok()
            client.fin(client.message())
        client.expect_nothing_so_far()

        assert 48 <= timing(nsqd, "delivery") <= 64 + 32
        assert 48 <= timing(nsqd, "write") <= 64 + 32
        assert 32 <= timing(nsqd, "finish") <= 64 + 32


def test_a_consumer_of_a_backlog_one_by_one_is_timed_too(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        connect(nsqd).mpub("t", [b"x"] * 64)
        client.sub("t", "c", 1)
        for _ in range(64):
            client.fin(client.message())
        client.expect_nothing_so_far()

        assert 48 <= timing(nsqd, "delivery") <= 64 + 16
        assert 32 <= timing(nsqd, "finish") <= 64 + 32


def test_a_client_says_since_when_it_is_there(nsqd: NsqdFixture, connect: Connect) -> None:
    connect(nsqd).pub("t", b"x")

    (found,) = taken(nsqd).producers or []

    assert abs(found.connect_ts - time.time()) < 30


def test_publishes_over_http_are_timed_like_those_over_tcp() -> None:
    with running_nsqd() as nsqd, HttpConnection(nsqd.http_address) as http:
        for _ in range(64):
            assert http.post("/pub?topic=t", b"x").status == 200
        singles = timing(nsqd, "write")

        assert http.post("/mpub?topic=t", b"a\nb\n").status == 200

        assert 48 <= singles <= 64 + 16
        assert timing(nsqd, "write") == singles + 1
