"""A node to announce, short times, and waiting on the loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from nsqlake.nsqd.lookup.lookup_peer import LookupPeer, LookupTiming
from nsqlake.wire.lookup_commands import NodeDescription
from tests.fakes.lookupd import FakeLookupd

T = TypeVar("T")

LIMIT_S = 10.0
MAX_REPLY_BYTES = 4096
NODE = NodeDescription(broadcast_address="me", hostname="host", http_port=41, tcp_port=40, version="1.3.0")

# Retries at once, but pings never: what is not the subject of a test must not disturb it.
QUICK = LookupTiming(ping_s=600, limit_s=5, first_retry_s=0.002, last_retry_s=0.004, shortest_retry_s=0.001)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0)


def run_with_lookupd(scenario: Callable[[FakeLookupd], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with FakeLookupd() as lookupd:
            await scenario(lookupd)

    run_on_loop(run())


def run_on_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """On the kind of loop that nsqd has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


@contextlib.asynccontextmanager
async def running_peer(
    address: str, *registrations: bytes, timing: LookupTiming = QUICK
) -> AsyncIterator[LookupPeer]:
    peer = LookupPeer(
        address, NODE, lambda: list(registrations), max_reply_bytes=MAX_REPLY_BYTES, timing=timing
    )
    task = asyncio.create_task(peer.run())
    try:
        yield peer
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()
