"""Letting event loops of other threads go through what is ready in them."""

import asyncio
from threading import Event
from time import monotonic

from nsqlake.testing.errors import NotSettledError

__all__ = ["TURNS", "give_turns", "take_turns"]

TURNS = 10  # a message passes from the socket to its handler and back in about five
_LIMIT_S = 10.0
_LOOK_S = 0.05  # a loop that ends never answers


async def take_turns(count: int = TURNS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def give_turns(loop: asyncio.AbstractEventLoop) -> None:
    """Wait until the loop has gone through what is ready; not for a loop that does not run."""
    if not loop.is_running():
        return
    done = Event()

    # Not a task: a loop that ends meanwhile would complain about it.
    def turn(left: int) -> None:
        if left:
            loop.call_soon(turn, left - 1)
        else:
            done.set()

    try:
        loop.call_soon_threadsafe(turn, TURNS)
    except RuntimeError:  # closed by its own thread since we looked
        return
    limit = monotonic() + _LIMIT_S
    while not done.wait(_LOOK_S) and loop.is_running():
        if monotonic() > limit:
            raise NotSettledError("an event loop is blocked by what runs in it")
