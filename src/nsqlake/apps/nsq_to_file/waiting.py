"""Waiting for one of several things."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def wait_any(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Until the first has ended, whose error is raised; the others are cancelled."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
