"""`NsqdClient` against our own nsqd."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nsqlake.cluster.errors import StatusError
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.nsqd_client import NsqdClient
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.tcp_client import TcpClient


def run_with_nsqd(scenario: Callable[[NsqdFixture, NsqdClient], Awaitable[None]]) -> None:
    async def run(nsqd: NsqdFixture) -> None:
        async with HttpCaller() as caller:
            await scenario(nsqd, NsqdClient(nsqd.http_address, caller))

    with running_nsqd(broadcast_address="me") as nsqd:
        asyncio.run(run(nsqd))


def test_stats_of_everything_or_of_what_is_named() -> None:
    async def scenario(nsqd: NsqdFixture, client: NsqdClient) -> None:
        await client.change_topic("create", "t")
        await client.change_topic("create", "u")
        await client.change_channel("create", "t", "c")
        await client.change_channel("create", "t", "d")
        with TcpClient(nsqd.tcp_address) as publisher:
            publisher.pub("t", b"x")

        everything, one = await client.stats(), await client.stats("t", "c")

        assert {topic.topic_name for topic in everything.topics} == {"t", "u"}
        assert [channel.channel_name for channel in one.topics[0].channels] == ["c"]
        channel = one.channel("t", "c")
        assert channel is not None
        assert (channel.depth, channel.message_count) == (1, 1)
        assert one.channel("t", "none") is None
        assert one.channel("none", "c") is None

    run_with_nsqd(scenario)


def test_clients_are_told_only_when_wanted() -> None:
    async def scenario(nsqd: NsqdFixture, client: NsqdClient) -> None:
        with TcpClient(nsqd.tcp_address) as consumer:
            consumer.sub("t", "c")

            for include in (True, False):
                channel = (await client.stats("t", include_clients=include)).channel("t", "c")
                assert channel is not None
                assert (channel.client_count, len(channel.clients)) == (1, int(include))

    run_with_nsqd(scenario)


def test_node_tells_its_addresses() -> None:
    async def scenario(nsqd: NsqdFixture, client: NsqdClient) -> None:
        info = await client.info()

        assert info.tcp_address == f"me:{nsqd.tcp_port}"
        assert info.http_address == f"me:{nsqd.http_port}"
        assert info.start_time > 0

    run_with_nsqd(scenario)


def test_topics_and_channels_are_changed() -> None:
    async def scenario(_: NsqdFixture, client: NsqdClient) -> None:
        await client.change_topic("create", "t")
        await client.change_channel("create", "t", "c")
        await client.change_topic("pause", "t")
        await client.change_channel("pause", "t", "c")
        topic = (await client.stats("t")).topics[0]
        assert (topic.paused, topic.channels[0].paused) == (True, True)

        await client.change_topic("unpause", "t")
        await client.change_channel("empty", "t", "c")
        await client.change_channel("delete", "t", "c")
        topic = (await client.stats("t")).topics[0]
        assert (topic.paused, topic.channels) == (False, [])

        with pytest.raises(StatusError, match="CHANNEL_NOT_FOUND"):
            await client.change_channel("delete", "t", "c")

    run_with_nsqd(scenario)


def test_bare_host_is_asked_on_the_port_of_nsqd() -> None:
    assert str(NsqdClient("n1", HttpCaller()).address) == "n1:4151"
