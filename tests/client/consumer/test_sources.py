"""A consumer that finds its nsqds through nsqlookupds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.errors import ConnectError, InvalidArgumentError
from tests.client.consumer.stage import by_body, run, settle, staged
from tests.fakes.http_server import FakeHttpServer, answer
from tests.fakes.loop_turns import wait_until
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import ScriptedNsqd


def listing(*nsqds: ScriptedNsqd) -> bytes:
    producers = [
        {
            "broadcast_address": "127.0.0.1",
            "hostname": "elsewhere",
            "remote_address": "10.0.0.1:1",
            "tcp_port": nsqd.port,
            "http_port": 1,
            "version": "1.3.0",
        }
        for nsqd in nsqds
    ]
    return answer({"channels": [], "producers": producers})


class Found:
    """A consumer, its nsqlookupd and two nsqds."""

    def __init__(self, lookupd: FakeHttpServer, nsqds: list[ScriptedNsqd], **options: object) -> None:
        self.lookupd, self.nsqds, self.timers = lookupd, nsqds, MovedTimers()
        self.consumer = Consumer(
            "orders",
            "archive",
            by_body,
            lookupd_http_addresses=lookupd.address,
            timers=self.timers,
            max_in_flight=10,
            read_timeout=300,
            **options,  # type: ignore[arg-type]
        )

    async def connected(self, count: int) -> None:
        await wait_until(lambda: self.consumer.stats().connections == count)

    async def rounds(self, count: int) -> None:
        await wait_until(lambda: self.consumer.stats().lookupd_rounds >= count)
        await self.lookupd.wait_requests(count)
        await settle()


@asynccontextmanager
async def found(**options: object) -> AsyncIterator[Found]:
    async with FakeHttpServer() as lookupd, ScriptedNsqd() as one, ScriptedNsqd() as two:
        scene = Found(lookupd, [one, two], **options)
        yield scene
        await scene.consumer.stop()


def test_all_listed_nsqds_are_used_and_later_ones_join() -> None:
    async def scenario() -> None:
        async with found() as scene:
            scene.lookupd.answers["/lookup"] = listing(scene.nsqds[0])
            await scene.consumer.start(wait=True)
            await scene.connected(1)
            scene.lookupd.answers["/lookup"] = listing(*scene.nsqds)
            scene.timers.advance(80)

            await scene.connected(2)
            assert scene.lookupd.requests[0].params == {"topic": "orders"}

    run(scenario())


def test_nsqd_that_is_no_longer_listed_stays_connected_but_is_not_tried_again() -> None:
    async def scenario() -> None:
        async with found() as scene:
            scene.lookupd.answers["/lookup"] = listing(scene.nsqds[0])
            await scene.consumer.start()
            await scene.connected(1)
            scene.lookupd.answers["/lookup"] = listing()
            scene.timers.advance(80)
            await scene.rounds(2)
            assert scene.consumer.stats().connections == 1

            (await scene.nsqds[0].connection()).abort()
            await scene.connected(0)
            scene.timers.advance(90)
            await scene.rounds(3)
            assert len(scene.nsqds[0].connections) == 1

    run(scenario())


def test_failing_nsqlookupd_changes_nothing() -> None:
    async def scenario() -> None:
        async with found() as scene:
            scene.lookupd.answers["/lookup"] = listing(scene.nsqds[0])
            await scene.consumer.start()
            await scene.connected(1)
            scene.lookupd.answers["/lookup"] = answer({"message": "INTERNAL_ERROR"}, 500)
            scene.timers.advance(80)
            await scene.rounds(2)
            await wait_until(lambda: scene.consumer.stats().failed_lookupd_queries == 1)

            assert scene.consumer.stats().connections == 1

    run(scenario())


def test_lost_nsqd_is_asked_for_at_once_and_used_again() -> None:
    async def scenario() -> None:
        async with found() as scene:
            scene.lookupd.answers["/lookup"] = listing(scene.nsqds[0])
            await scene.consumer.start()
            await scene.connected(1)
            (await scene.nsqds[0].connection()).abort()
            await scene.connected(0)

            scene.timers.advance(5.1)

            await scene.nsqds[0].ready_connection(1)

    run(scenario())


def test_hook_chooses_among_the_found() -> None:
    async def scenario() -> None:
        async with found(hooks=ConsumerHooks(on_discovery=lambda addresses: sorted(addresses)[:1])) as scene:
            scene.lookupd.answers["/lookup"] = listing(*scene.nsqds)
            await scene.consumer.start()
            await scene.rounds(1)
            await scene.connected(1)

            assert sum(len(nsqd.connections) for nsqd in scene.nsqds) == 1

    run(scenario())


def test_address_that_makes_no_sense_is_left_out() -> None:
    async def scenario() -> None:
        hooks = ConsumerHooks(on_discovery=lambda addresses: ["no address:x", *addresses])
        async with found(hooks=hooks) as scene:
            scene.lookupd.answers["/lookup"] = listing(scene.nsqds[0])
            await scene.consumer.start()

            await scene.connected(1)

    run(scenario())


def test_start_that_waits_fails_when_no_nsqlookupd_answers() -> None:
    async def scenario() -> None:
        async with FakeHttpServer() as gone:
            pass
        timers = MovedTimers()
        consumer = Consumer("orders", "archive", by_body, lookupd_http_addresses=gone.address, timers=timers)
        starting = consumer.start(wait=True)

        async def move() -> None:
            await wait_until(lambda: consumer.stats().failed_lookupd_rounds == 1)
            timers.advance(61)

        with pytest.raises(ConnectError):
            await asyncio.gather(starting, move())

    run(scenario())


def test_nsqlookupds_come_and_go_while_the_consumer_runs() -> None:
    async def scenario() -> None:
        async with FakeHttpServer() as lookupd, ScriptedNsqd() as nsqd, staged() as stage:
            lookupd.answers["/lookup"] = listing(nsqd)
            with pytest.raises(InvalidArgumentError):
                stage.consumer.remove_lookupd(lookupd.address)
            stage.consumer.add_lookupd(lookupd.address)
            await wait_until(lambda: stage.consumer.stats().connections == 2)

            stage.consumer.add_lookupd("127.0.0.1:1")
            stage.consumer.remove_lookupd("127.0.0.1:1")
            with pytest.raises(InvalidArgumentError):
                stage.consumer.remove_lookupd(lookupd.address)

    run(scenario())
