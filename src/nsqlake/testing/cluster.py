"""Several nsqds and nsqlookupds inside the process that tests against them, all by one clock."""

import contextlib
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

from nsqlake.nsqlookupd.daemon import Daemon
from nsqlake.runtime.timers import LoopTimers, Timers
from nsqlake.testing import time_lapse
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.errors import NotReachedError, RealClockError
from nsqlake.testing.loop_turns import take_turns
from nsqlake.testing.nsqd import WAIT_LIMIT_S, NsqdFixture, running_nsqd
from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from nsqlake.testing.timers import ManualTimers

__all__ = ["ClusterFixture", "running_cluster"]

_LOOK_S = 0.002


class ClusterFixture:
    """`nsqds` and `lookupds` are as `running_nsqd` and `running_nsqlookupd` give them."""

    def __init__(self, clock: ManualClock | None) -> None:
        self.clock = clock
        self.nsqds: list[NsqdFixture] = []
        self.lookupds: list[NsqlookupdFixture] = []
        self.timers: Timers = ManualTimers(clock) if clock is not None else LoopTimers()

    @property
    def nsqd_tcp_addresses(self) -> list[str]:
        return [nsqd.tcp_address for nsqd in self.nsqds]

    @property
    def lookupd_http_addresses(self) -> list[str]:
        return [lookupd.http_address for lookupd in self.lookupds]

    async def advance(self, seconds: float) -> None:
        """Move the clock of all and let happen what is due until then, in the order of its time."""
        await time_lapse.advance(self._manual_clock, seconds)

    async def settle(self) -> None:
        """Let everybody do all he can do while the clock stands still."""
        await time_lapse.advance(self._manual_clock, 0)

    def advance_blocking(self, seconds: float) -> None:
        """`advance` for tests that are not coroutines."""
        time_lapse.advance_blocking(self._manual_clock, seconds)

    @property
    def _manual_clock(self) -> ManualClock:
        if self.clock is None:
            raise RealClockError
        return self.clock

    def wait_announced(self) -> None:
        """Until every nsqlookupd knows every nsqd with all its topics and channels; NotReachedError."""
        limit = monotonic() + WAIT_LIMIT_S
        while (missing := self._missing()) and monotonic() < limit:
            sleep(_LOOK_S)
        if missing:
            raise NotReachedError("all announced", found=f"none of {missing}", limit_s=WAIT_LIMIT_S)

    def _missing(self) -> list[str]:
        """What an nsqlookupd does not know yet."""
        missing = [
            f"nsqd {nsqd.tcp_address} at {lookupd.tcp_address}"
            for nsqd in self.nsqds
            for lookupd in self.lookupds
            if lookupd.tcp_address not in nsqd.call(lambda daemon: daemon.announcements.connected)
        ]
        for nsqd in self.nsqds:
            topics = nsqd.call(
                lambda daemon: {name: list(t.channels) for name, t in daemon.broker.topics.items()}
            )
            for lookupd in self.lookupds:
                for topic, channels in topics.items():
                    if nsqd.tcp_address not in lookupd.producers(topic):
                        missing.append(f"topic {topic} at {lookupd.tcp_address}")
                    missing += [
                        f"channel {topic}/{each}" for each in set(channels) - set(lookupd.channels(topic))
                    ]
        return missing


class _LookupdTime:
    """`Follower` for an nsqlookupd: it does nothing by itself, but whoever asks it is waited for."""

    wait_ns = None

    def __init__(self, lookupd: NsqlookupdFixture) -> None:
        self._lookupd = lookupd
        self._seen = -1

    def act(self) -> None:
        """Nothing is ever due."""

    def settle(self) -> bool:
        before, self._seen = self._seen, self._lookupd.call(_count_inputs)
        return self._seen != before

    def end_move(self) -> None:
        """Nothing is left to do."""


async def _count_inputs(daemon: Daemon) -> int:
    await take_turns()
    accepted = sum(daemon.http.accepted_counts().values()) + daemon.tcp_listener.accepted_count
    return accepted + daemon.peers.command_count + sum(daemon.api.request_counts.values())


@contextlib.contextmanager
def running_cluster(
    *, nsqds: int = 2, lookupds: int = 1, clock: ManualClock | None = None, **nsqd_options: Any
) -> Iterator[ClusterFixture]:
    """So many of each, all nsqds with these options and announced to every nsqlookupd."""
    cluster = ClusterFixture(clock)
    with contextlib.ExitStack() as stack:
        for _ in range(lookupds):
            lookupd = stack.enter_context(running_nsqlookupd(clock=clock))
            cluster.lookupds.append(lookupd)
            if clock is not None:
                follower = _LookupdTime(lookupd)
                clock.followers.append(follower)
                stack.callback(clock.followers.remove, follower)
        nsqd_options.setdefault("broadcast_address", "127.0.0.1")
        addresses = tuple(lookupd.tcp_address for lookupd in cluster.lookupds)
        for number in range(nsqds):
            options = {"node_id": number, "lookupd_tcp_addresses": addresses, **nsqd_options}
            cluster.nsqds.append(stack.enter_context(running_nsqd(clock=clock, **options)))
        cluster.wait_announced()
        yield cluster
