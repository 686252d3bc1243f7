import asyncio
import json
from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest

from nsqlake.apps.nsq_to_file.topic_discovery import discover_topics
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.timers import ManualTimers
from tests.fakes.lookupd import http_answer

LIMIT_S = 10.0


class TopicServer:
    """An nsqlookupd that knows topics, or fails."""

    def __init__(self, topics: list[str]) -> None:
        self.topics = topics
        self.status = 200
        self.requests = 0

    async def start(self, stack: AsyncExitStack) -> str:
        server = await stack.enter_async_context(await asyncio.start_server(self._serve, "127.0.0.1", 0))
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /topics HTTP/1.1\r\n")
        self.requests += 1
        writer.write(http_answer(json.dumps({"topics": self.topics}).encode(), status=self.status))
        writer.close()


class Given:
    """A discovery that asks `servers`; every round is looked at before time goes on."""

    def __init__(self, servers: list[TopicServer]) -> None:
        self.servers = servers
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.found: list[list[str]] = []

    def add(self, topics: Iterable[str]) -> None:
        self.found.append(list(topics))

    async def rounds(self, count: int) -> None:
        async with AsyncExitStack() as stack:
            addresses = [await server.start(stack) for server in self.servers]
            caller = await stack.enter_async_context(HttpCaller())
            lookupds = [LookupdClient(address, caller) for address in addresses]
            work = discover_topics(lookupds, self.add, interval_s=60.0, timers=self.timers)
            task = asyncio.create_task(work)
            for number in range(count):
                await self._until_waiting(number)
            task.cancel()

    async def _until_waiting(self, number: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.timers.wait_ns is None:
                await asyncio.sleep(0)
        assert all(server.requests == number + 1 for server in self.servers)
        self.clock.advance_ns(60_000_000_000)
        self.timers.act()
        while self.timers.wait_ns is not None:
            await asyncio.sleep(0)


def test_the_first_round_is_at_once_and_all_are_asked_every_time() -> None:
    given = Given([TopicServer(["a", "b"]), TopicServer(["b", "c"])])

    asyncio.run(given.rounds(2))

    assert [sorted(found) for found in given.found] == [["a", "b", "c"], ["a", "b", "c"]]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_round_in_which_any_fails_counts_for_nothing(
    failing: int, caplog: pytest.LogCaptureFixture
) -> None:
    given = Given([TopicServer(["a"]), TopicServer(["b"])])
    for server in given.servers[-failing:]:
        server.status = 500

    asyncio.run(given.rounds(1))

    assert given.found == []
    assert "could not retrieve topic list" in caplog.text
