"""Waiting for a daemon to be as a test wants it: looked at whenever something changed, never by the clock."""

import asyncio
from collections.abc import Callable

__all__ = ["Conditions"]


class Conditions:
    """Who waits for what; all of it on one loop."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def look(self) -> None:
        """Something may have changed."""
        for future, condition in list(self._waiting.items()):
            if not future.done() and condition():
                future.set_result(None)

    async def wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Whether it came to be in time."""
        if condition():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            await asyncio.wait([future], timeout=limit_s)
        finally:
            del self._waiting[future]
        return condition()
