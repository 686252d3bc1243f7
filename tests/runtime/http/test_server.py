"""`HttpServer`: time by sweeps, and what it costs when nobody is there."""

import asyncio

import pytest

from nsqlake.runtime.http import HttpServer, Router
from nsqlake.runtime.tasks import TaskSupervisor
from tests.fakes.loop_turns import wait_until
from tests.runtime.http.support import Running, scenario_on


class Watcher:
    """A connection that notes what the server does with it."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def check(self, now_s: float) -> None:
        self.seen.append(now_s)

    def finish(self) -> None:
        self.seen.append("finish")

    def drop(self) -> None:
        self.seen.append("drop")


def test_every_sweep_shows_the_time_to_every_connection():
    async def scenario() -> None:
        server, watchers = HttpServer(Router([]), tasks=TaskSupervisor()), [Watcher(), Watcher()]
        for watcher in watchers:
            server.add(watcher)
        server.sweep(1.5)
        server.sweep(2.0)
        assert [watcher.seen for watcher in watchers] == [[1.5, 3.5]] * 2
        for watcher in watchers:
            server.discard(watcher)

    asyncio.run(scenario())


def test_the_timer_runs_only_while_there_are_connections():
    async def scenario(running: Running) -> None:
        assert running.server._timer is None
        client = await running.connect()
        assert (await client.ask("GET", "/ping")).status == 200
        assert running.server._timer is not None
        await client.close()
        await wait_until(lambda: running.server._timer is None)

    scenario_on("uvloop", scenario)


def test_a_stall_of_the_loop_makes_nobody_late():
    async def scenario() -> None:
        server, watcher = HttpServer(Router([]), tasks=TaskSupervisor()), Watcher()
        server.add(watcher)
        server._swept_at -= 100.0
        server._sweep_on_time()
        assert watcher.seen == [2.0]
        server.discard(watcher)

    asyncio.run(scenario())


def test_closing_asks_first_and_drops_then():
    async def scenario() -> None:
        server, watcher = HttpServer(Router([]), tasks=TaskSupervisor()), Watcher()
        server.add(watcher)
        await server.close(0.01)
        assert watcher.seen == ["finish", "drop"]
        server.discard(watcher)

    asyncio.run(scenario())


@pytest.mark.parametrize("limit_s", [0.0, 1.0])
def test_closing_without_connections_is_done_at_once(limit_s):
    async def scenario() -> None:
        await HttpServer(Router([]), tasks=TaskSupervisor()).close(limit_s)

    asyncio.run(scenario())
