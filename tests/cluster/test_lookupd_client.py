import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nsqlake.cluster.errors import AddressError, StatusError
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from tests.fakes.http_server import FakeHttpServer, answer

PRODUCER = {"broadcast_address": "h", "tcp_port": 4150, "http_port": 4151}


def run_with_client(scenario: Callable[[FakeHttpServer, LookupdClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FakeHttpServer() as server, HttpCaller() as caller:
            await scenario(server, LookupdClient(server.address, caller))

    asyncio.run(run())


def test_questions_and_their_answers() -> None:
    async def scenario(server: FakeHttpServer, client: LookupdClient) -> None:
        server.answers = {
            "/lookup": answer({"channels": ["c"], "producers": [PRODUCER]}),
            "/topics": answer({"topics": ["t"]}),
            "/channels": answer({"channels": ["c"]}),
            "/nodes": answer({"producers": [PRODUCER | {"topics": ["t"], "tombstones": [False]}]}),
            "/info": answer({"version": "1.3.0"}),
        }

        assert (await client.lookup("t")).producers[0].tcp_address == "h:4150"
        assert await client.topics() == ["t"]
        assert await client.channels("t") == ["c"]
        assert (await client.nodes())[0].topics == ["t"]
        assert (await client.info()).version == "1.3.0"
        assert [request.params for request in server.requests] == [{"topic": "t"}, {}, {"topic": "t"}, {}, {}]

    run_with_client(scenario)


def test_actions_are_posted() -> None:
    async def scenario(server: FakeHttpServer, client: LookupdClient) -> None:
        paths = ("/topic/create", "/topic/delete", "/topic/tombstone", "/channel/create", "/channel/delete")
        server.answers = dict.fromkeys(paths, answer())

        await client.create_topic("t")
        await client.delete_topic("t")
        await client.tombstone_topic("t", node="h:4151")
        await client.create_channel("t", "c")
        await client.delete_channel("t", "c")

        assert [request.path for request in server.requests] == list(paths)
        assert {request.method for request in server.requests} == {"POST"}
        assert server.requests[2].params == {"topic": "t", "node": "h:4151"}
        assert server.requests[3].params == {"topic": "t", "channel": "c"}

    run_with_client(scenario)


def test_unknown_topic_is_a_404() -> None:
    async def scenario(_: FakeHttpServer, client: LookupdClient) -> None:
        with pytest.raises(StatusError) as caught:
            await client.lookup("t")
        assert caught.value.status == 404

    run_with_client(scenario)


def test_bare_host_is_asked_on_the_port_of_nsqlookupd() -> None:
    assert str(LookupdClient("lookup1", HttpCaller()).address) == "lookup1:4161"


def test_wrong_address_is_refused_at_once() -> None:
    with pytest.raises(AddressError):
        LookupdClient("lookup1:x", HttpCaller())
