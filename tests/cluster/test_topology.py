"""Finding nsqds, with fake nsqlookupds and our own nsqds."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from nsqlake.cluster.errors import NobodyAnsweredError
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.cluster.nsqd_client import NsqdClient
from nsqlake.cluster.topology import find_nsqds, find_producers, find_topics
from nsqlake.testing.nsqd import running_nsqd
from tests.fakes.http_server import FakeHttpServer, answer

Clients = list[LookupdClient]


def run_with_lookupds(scenario: Callable[[list[FakeHttpServer], Clients], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FakeHttpServer() as one, FakeHttpServer() as two, HttpCaller() as caller:
            servers = [one, two]
            await scenario(servers, [LookupdClient(server.address, caller) for server in servers])

    asyncio.run(run())


def listing(*hosts: str) -> bytes:
    producers = [{"broadcast_address": host, "tcp_port": 4150} for host in hosts]
    return answer({"channels": [], "producers": producers})


def test_topics_of_all_lookupds_are_united() -> None:
    async def scenario(servers: list[FakeHttpServer], clients: Clients) -> None:
        servers[0].answers["/topics"] = answer({"topics": ["b"]})
        servers[1].answers["/topics"] = answer({"topics": ["b", "a"]})

        assert (await find_topics(clients)).found == ["a", "b"]

    run_with_lookupds(scenario)


def test_producers_of_all_lookupds_are_united() -> None:
    async def scenario(servers: list[FakeHttpServer], clients: Clients) -> None:
        servers[0].answers["/lookup"] = listing("a", "b")
        servers[1].answers["/lookup"] = listing("b", "c")

        found = await find_producers(clients, "t")

        assert [producer.host for producer in found.found] == ["a", "b", "c"]
        assert found.errors == []

    run_with_lookupds(scenario)


def test_lookupd_that_does_not_know_the_topic_counts_as_an_error() -> None:
    async def scenario(servers: list[FakeHttpServer], clients: Clients) -> None:
        servers[1].answers["/lookup"] = listing("a")

        found = await find_producers(clients, "t")

        assert [producer.host for producer in found.found] == ["a"]
        assert [error.address for error in found.errors] == [servers[0].address]

    run_with_lookupds(scenario)


def test_without_any_answer_there_is_an_error() -> None:
    async def scenario(_: list[FakeHttpServer], clients: Clients) -> None:
        with pytest.raises(NobodyAnsweredError, match="failed to query any nsqlookupd"):
            await find_producers(clients, "t")

    run_with_lookupds(scenario)


def test_nsqds_are_found_that_have_the_topic_each_once() -> None:
    async def scenario(addresses: list[str]) -> list[str]:
        async with HttpCaller() as caller:
            nsqds = [NsqdClient(address, caller) for address in addresses]
            await nsqds[0].change_topic("create", "t")
            return [str(nsqd.address) for nsqd in (await find_nsqds(nsqds, "t")).found]

    with ExitStack() as stack:
        nsqd, other = (stack.enter_context(running_nsqd(broadcast_address="elsewhere")) for _ in range(2))
        addresses = [nsqd.http_address, other.http_address, f"localhost:{nsqd.http_port}"]

        assert asyncio.run(scenario(addresses)) == [nsqd.http_address]


def test_topic_that_no_nsqd_has_is_found_nowhere() -> None:
    async def scenario(address: str) -> None:
        async with HttpCaller() as caller:
            assert (await find_nsqds([NsqdClient(address, caller)], "t")).found == []

    with running_nsqd() as nsqd:
        asyncio.run(scenario(nsqd.http_address))
