"""Long work on the event loop in slices, so that delivery goes on."""

import asyncio
from collections.abc import Iterable
from time import perf_counter_ns

__all__ = ["SLICE_NS", "run_in_slices"]

SLICE_NS = 2_000_000


async def run_in_slices(steps: Iterable[object]) -> None:
    """Go through `steps`, whose work is done as they are made; others on the loop wait one slice at most."""
    until_ns = perf_counter_ns() + SLICE_NS
    for _ in steps:
        if perf_counter_ns() >= until_ns:
            await asyncio.sleep(0)
            until_ns = perf_counter_ns() + SLICE_NS
