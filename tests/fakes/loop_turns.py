"""Waiting for the loop by turns and conditions instead of by time."""

import asyncio
from collections.abc import Callable

LIMIT_S = 10.0


async def next_turn() -> None:
    """Let everything that is ready run once."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned


async def wait_until(condition: Callable[[], bool]) -> None:
    """Turn the loop until `condition` holds; TimeoutError after ten seconds."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await next_turn()
