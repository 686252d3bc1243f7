"""Moving a clock and letting everything happen on the way, each thing at its time.

Between two moments at which something is due, clients and brokers get as many turns of their loops as they
need to do what follows from it: a message that times out after 60 s and is requeued for 90 is due after 150,
however far the clock is moved in one go. Of a client nothing is known but its loop and what it sends. So what
it does without its loop and without a broker (a thread, a request to somebody else) is not waited for.
"""

import asyncio
from collections.abc import Collection
from functools import partial
from time import monotonic

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.errors import NotSettledError
from nsqlake.testing.loop_turns import give_turns

__all__ = ["advance", "advance_blocking"]

Loops = Collection[asyncio.AbstractEventLoop]

_QUIET_ROUNDS = 2
_SETTLE_LIMIT_S = 30.0
_MOST_AT_ONE_MOMENT = 1_000
_SECOND_NS = 1_000_000_000


async def advance(clock: ManualClock, seconds: float) -> None:
    """`advance_blocking` for a test that is a coroutine: its own loop gets turns too."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, partial(advance_blocking, clock, seconds, {loop}))


def advance_blocking(clock: ManualClock, seconds: float, loops: Loops = ()) -> None:
    """Let time pass; when this returns, all has happened that was due, in the order of its time.

    By no time at all: clients and brokers do all they can do while the clock stands still.
    """
    if seconds < 0:
        raise ValueError(f"time does not go back: {seconds}")
    with clock.moving:
        _settle(clock, loops)
        _move(clock, round(seconds * _SECOND_NS), loops)
        for follower in list(clock.followers):
            follower.end_move()
        _settle(clock, loops)


def _move(clock: ManualClock, left_ns: int, loops: Loops) -> None:
    at_this_moment = 0
    while (wait_ns := _next_wait_ns(clock)) is not None and wait_ns <= left_ns:
        at_this_moment = 0 if wait_ns else at_this_moment + 1
        if at_this_moment > _MOST_AT_ONE_MOMENT:
            raise NotSettledError("timers without delay are set again and again")
        clock.advance_ns(wait_ns)
        left_ns -= wait_ns
        for follower in list(clock.followers):
            if follower.wait_ns == 0:
                follower.act()
        _settle(clock, loops)
    clock.advance_ns(left_ns)


def _next_wait_ns(clock: ManualClock) -> int | None:
    waits = [follower.wait_ns for follower in list(clock.followers)]
    return min((wait_ns for wait_ns in waits if wait_ns is not None), default=None)


def _settle(clock: ManualClock, loops: Loops) -> None:
    limit = monotonic() + _SETTLE_LIMIT_S
    quiet = 0
    while quiet < _QUIET_ROUNDS:
        for loop in loops:
            give_turns(loop)
        busy = [follower for follower in list(clock.followers) if follower.settle()]
        quiet = 0 if busy else quiet + 1
        if monotonic() > limit:
            raise NotSettledError(f"messages kept going to and fro for {_SETTLE_LIMIT_S:g} s")
