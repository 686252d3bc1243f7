"""Waiting for the publishes of a moment, while others go on."""

from __future__ import annotations

import asyncio

from nsqlake.client.producer.publication import Publication


class Flushes:
    """Every wait holds what was outstanding when it began; `check` after anything was settled."""

    def __init__(self) -> None:
        self._waits: list[tuple[list[Publication], asyncio.Future[None]]] = []

    async def wait(self, publications: list[Publication]) -> None:
        if not publications:
            return
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The oldest are settled first, and popping from the end is cheap.
        self._waits.append((publications[::-1], settled))
        await settled

    def check(self) -> None:
        if self._waits:
            self._waits = [wait for wait in self._waits if not self._is_over(*wait)]

    @staticmethod
    def _is_over(left: list[Publication], settled: asyncio.Future[None]) -> bool:
        while left and left[-1].is_done:
            left.pop()
        if not left and not settled.done():
            settled.set_result(None)
        return settled.done()
