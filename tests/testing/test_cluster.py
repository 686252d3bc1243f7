"""Brokers that consumers find, by one clock."""

import asyncio

import httpx
import pytest

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message
from nsqlake.testing import cluster as cluster_module
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.cluster import running_cluster
from nsqlake.testing.errors import NotReachedError, RealClockError


def test_every_nsqlookupd_knows_every_nsqd() -> None:
    with running_cluster(nsqds=3, lookupds=2) as cluster:
        for nsqd in cluster.nsqds:
            nsqd.create_channel("orders", "mail")
        cluster.wait_announced()

        for lookupd in cluster.lookupds:
            assert sorted(lookupd.producers("orders")) == sorted(cluster.nsqd_tcp_addresses)
            assert lookupd.channels("orders") == ["mail"]
        assert len({nsqd.options.node_id for nsqd in cluster.nsqds}) == 3


def test_nsqds_stay_on_the_lists_as_the_clock_moves() -> None:
    with running_cluster(clock=ManualClock()) as cluster:
        for nsqd in cluster.nsqds:
            nsqd.create_channel("orders", "mail")
        cluster.wait_announced()

        cluster.advance_blocking(400)  # an nsqd that was silent for 300 s is taken for lost

        assert sorted(cluster.lookupds[0].producers("orders")) == sorted(cluster.nsqd_tcp_addresses)


def test_a_tombstone_expires_as_the_clock_moves() -> None:
    with running_cluster(nsqds=1, clock=ManualClock()) as cluster:
        (nsqd,), (lookupd,) = cluster.nsqds, cluster.lookupds
        nsqd.create_channel("orders", "mail")
        cluster.wait_announced()
        query = f"topic=orders&node={nsqd.http_address}"
        httpx.post(f"http://{lookupd.http_address}/topic/tombstone?{query}").raise_for_status()

        before = lookupd.producers("orders")
        cluster.advance_blocking(46)

        assert before == []
        assert lookupd.producers("orders") == [nsqd.tcp_address]


def test_a_consumer_finds_a_new_topic_at_its_next_poll() -> None:
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        handled.append(message.body)

    async def scenario() -> list[bytes]:
        with running_cluster(clock=ManualClock()) as cluster:
            consumer = Consumer(
                "orders",
                "mail",
                handle,
                lookupd_http_addresses=cluster.lookupd_http_addresses,
                timers=cluster.timers,
                max_in_flight=4,
            )
            async with consumer:
                await cluster.settle()
                for nsqd in cluster.nsqds:
                    nsqd.publish("orders", nsqd.tcp_address.encode())
                cluster.wait_announced()
                await cluster.settle()
                assert handled == []
                await cluster.advance(100)  # every 60 s, and up to 18 s later for the first time
            return [nsqd.tcp_address.encode() for nsqd in cluster.nsqds]

    assert sorted(asyncio.run(scenario())) == sorted(handled)


def test_an_nsqd_that_is_not_announced_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "WAIT_LIMIT_S", 0.0)
    with pytest.raises(NotReachedError, match="nsqd "), running_cluster(lookupd_tcp_addresses=()):
        pass


def test_the_real_clock_cannot_be_moved() -> None:
    with running_cluster(nsqds=1) as cluster, pytest.raises(RealClockError):
        cluster.advance_blocking(1)
