"""The poll against our own nsqds and fake nsqlookupds."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from nsqlake.apps.nsq_stat.errors import ChannelNotFoundError, PollError
from nsqlake.apps.nsq_stat.polling import ChannelPoll
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.cluster.nsqd_answers import ChannelStats
from nsqlake.cluster.nsqd_client import NsqdClient
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_server import FakeHttpServer, answer
from tests.fakes.tcp_client import TcpClient

NOBODY = "127.0.0.1:1"


async def poll_nsqds(*addresses: str, topic: str = "t", channel: str = "c") -> ChannelStats:
    async with HttpCaller() as caller:
        nsqds = [NsqdClient(address, caller) for address in addresses]
        return await ChannelPoll(topic, channel, caller, nsqds=nsqds).read()


async def poll_lookupds(*answers: bytes) -> ChannelStats:
    async with HttpCaller() as caller, FakeHttpServer() as one, FakeHttpServer() as two:
        lookupds = []
        for server, reply in zip((one, two), answers, strict=False):
            server.answers["/lookup"] = reply
            lookupds.append(LookupdClient(server.address, caller))
        return await ChannelPoll("t", "c", caller, lookupds=lookupds).read()


def listing(*http_ports: int) -> bytes:
    producers = [
        {"broadcast_address": "127.0.0.1", "tcp_port": port, "http_port": port} for port in http_ports
    ]
    return answer({"channels": ["c"], "producers": producers})


@pytest.fixture(scope="module")
def nsqds() -> Iterator[list[NsqdFixture]]:
    with ExitStack() as stack:
        nodes = [stack.enter_context(running_nsqd()) for _ in range(2)]
        for number, node in enumerate(nodes, 1):
            fill(node, number)
        yield nodes


def fill(nsqd: NsqdFixture, message_count: int) -> None:
    """A channel `c` with this many messages."""
    with TcpClient(nsqd.tcp_address) as consumer, TcpClient(nsqd.tcp_address) as publisher:
        consumer.sub("t", "c")
        publisher.pub("t", *[b"x"] * message_count)


def test_figures_of_all_nsqds_are_added_up(nsqds: list[NsqdFixture]) -> None:
    stats = asyncio.run(poll_nsqds(*(nsqd.http_address for nsqd in nsqds)))

    assert (stats.message_count, stats.depth) == (3, 3)


def test_nsqd_without_the_topic_does_not_matter(nsqds: list[NsqdFixture]) -> None:
    with running_nsqd() as other:
        stats = asyncio.run(poll_nsqds(nsqds[0].http_address, other.http_address))

    assert stats.message_count == 1


def test_nsqds_are_found_through_lookupds(nsqds: list[NsqdFixture]) -> None:
    one, two = (nsqd.http_port for nsqd in nsqds)

    stats = asyncio.run(poll_lookupds(listing(one, two), listing(two)))

    assert stats.message_count == 3


def test_nsqd_that_refuses_spoils_the_sum(nsqds: list[NsqdFixture]) -> None:
    with pytest.raises(PollError) as caught:
        asyncio.run(poll_nsqds(nsqds[0].http_address, NOBODY))

    assert str(caught.value) == (
        f'ERROR: failed to get topic producers - Get "http://{NOBODY}/stats?format=json&topic=t'
        f'&include_clients=false": dial tcp {NOBODY}: connect: connection refused'
    )


def test_nsqds_that_all_refuse_are_told_so() -> None:
    with pytest.raises(PollError, match="failed to get topic producers - failed to query any nsqd: Get"):
        asyncio.run(poll_nsqds(NOBODY))


def test_listed_nsqd_that_refuses_spoils_the_sum(nsqds: list[NsqdFixture]) -> None:
    with pytest.raises(PollError, match="ERROR: failed to get nsqd stats - Get"):
        asyncio.run(poll_lookupds(listing(nsqds[0].http_port, 1)))


def test_lookupd_that_does_not_know_the_topic_spoils_the_sum(nsqds: list[NsqdFixture]) -> None:
    unknown = answer(b'{"message":"TOPIC_NOT_FOUND"}', 404)

    with pytest.raises(PollError) as caught:
        asyncio.run(poll_lookupds(listing(nsqds[0].http_port), unknown))

    reason = 'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"'
    assert str(caught.value) == f"ERROR: failed to get topic producers - {reason}"


def test_topic_that_nobody_has(nsqds: list[NsqdFixture]) -> None:
    with pytest.raises(PollError) as caught:
        asyncio.run(poll_nsqds(nsqds[0].http_address, topic="none"))

    assert str(caught.value) == "ERROR: failed to get nsqd stats - failed to query any nsqd: "


def test_channel_that_nobody_has(nsqds: list[NsqdFixture]) -> None:
    with pytest.raises(ChannelNotFoundError) as caught:
        asyncio.run(poll_nsqds(nsqds[0].http_address, channel="none"))

    assert str(caught.value) == "ERROR: failed to find channel(none) in stats metadata for topic(t)"
