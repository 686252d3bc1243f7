"""An nsqd inside the process that tests against it, with a port and a data path of its own.

with running_nsqd(clock=ManualClock()) as nsqd:
    consumer = Consumer("orders", "mail", handle, nsqd_tcp_addresses=nsqd.tcp_address, timers=nsqd.timers)
    ...
    nsqd.publish("orders", b"one", b"two")
    await nsqd.wait_channel("orders", "mail", finished=1, deferred=1)
    await nsqd.advance(90)
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Unpack, cast

from nsqlake.nsqd.core.peeking import ChannelMessage, PeekedMessage
from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.timers import LoopTimers, Timers
from nsqlake.testing import broker_view, time_lapse
from nsqlake.testing.broker_view import ChannelCounts, WantedCounts
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.conditions import Conditions
from nsqlake.testing.daemon_thread import DaemonThread
from nsqlake.testing.errors import NotReachedError, RealClockError
from nsqlake.testing.nsqd_time import NsqdTime
from nsqlake.testing.timers import ManualTimers
from nsqlake.testing.watched_turn import WatchedTurn

__all__ = ["BlockingWaits", "NsqdFixture", "running_nsqd"]

WAIT_LIMIT_S = 10.0

_NOTHING_LEFT: WantedCounts = {"depth": 0, "in_flight": 0, "deferred": 0}


class NsqdFixture(DaemonThread[Daemon]):
    """A daemon on a loop in a thread of its own; touch it through `call` only.

    What waits for clients is a coroutine, so that they can run meanwhile; `blocking` has the same for tests
    that are none.
    """

    def __init__(self, options: NsqdOptions, clock: Clock | None = None) -> None:
        super().__init__(Daemon(options, clock=clock, turn_class=WatchedTurn), "nsqd")
        self.options = options
        self.clock = clock if isinstance(clock, ManualClock) else None
        self.timers: Timers = ManualTimers(self.clock) if self.clock is not None else LoopTimers()
        self.blocking = BlockingWaits(self)
        self._time = NsqdTime(self, self.clock) if self.clock is not None else None
        self.conditions = Conditions()

    @property
    def tcp_port(self) -> int:
        return self.daemon.tcp_listener.port

    @property
    def tcp_address(self) -> str:
        """`host:port`, or the path of the unix socket."""
        return self.daemon.tcp_listener.local_address

    @property
    def http_port(self) -> int:
        return self.daemon.http.http_port

    @property
    def https_port(self) -> int:
        return self.daemon.http.https_port

    @property
    def http_address(self) -> str:
        """`host:port`, or the path of the unix socket."""
        return self.daemon.http.http_address

    def start(self) -> None:
        super().start()
        self.call(self._watch)
        if self.clock is not None and self._time is not None:
            self.clock.followers.append(self._time)

    def _watch(self, daemon: Daemon) -> None:
        cast(WatchedTurn, daemon.broker.turn).on_change = self.conditions.look

    def stop(self) -> None:
        """Stop as SIGTERM does; nothing happens the second time."""
        if self.clock is not None and self._time in self.clock.followers:
            self.clock.followers.remove(self._time)
        super().stop()

    # Messages -----------------------------------------------------------------------------------------

    def publish(self, topic: str, *bodies: bytes, delay_s: float = 0) -> None:
        """Store each body as a message, to be delivered at once or after the delay."""
        delay_ns = round(delay_s * 1_000_000_000)
        self.call(lambda daemon: broker_view.publish(daemon, topic, bodies, delay_ns))

    def create_channel(self, topic: str, channel: str) -> None:
        """So that the channel gets what is published from now on, before any consumer has asked for it."""
        self.call(lambda daemon: broker_view.create_channel(daemon, topic, channel))

    def messages(self, topic: str) -> list[PeekedMessage]:
        """All that the topic has stored, finished or not; nothing without the topic."""
        return self.call(lambda daemon: broker_view.stored_messages(daemon, topic))

    def bodies(self, topic: str) -> list[bytes]:
        return [message.body for message in self.messages(topic)]

    def unfinished(self, topic: str, channel: str) -> list[ChannelMessage]:
        """What the channel holds: to be delivered, in flight, requeued or deferred."""
        return self.call(lambda daemon: broker_view.unfinished_messages(daemon, topic, channel))

    def channel(self, topic: str, channel: str) -> ChannelCounts | None:
        """How many messages the channel has in which state; None while there is no such channel."""
        return self.call(lambda daemon: broker_view.count_channel(daemon, topic, channel))

    # Waiting ------------------------------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Move the clock and let all happen that is due until then, in the order of its time."""
        await time_lapse.advance(self.manual_clock, seconds)

    async def settle(self) -> None:
        """Let broker and clients do all they can do while the clock stands still."""
        await time_lapse.advance(self.manual_clock, 0)

    async def wait_channel(
        self, topic: str, channel: str, *, limit_s: float = WAIT_LIMIT_S, **wanted: Unpack[WantedCounts]
    ) -> ChannelCounts:
        """Wait, in real time, until the channel's counts are as wanted, totals at least so.

        Raises NotReachedError, which says what the counts are instead.
        """
        return await asyncio.wrap_future(self.submit_wait(topic, channel, wanted, limit_s))

    async def wait_empty(self, topic: str, channel: str, *, limit_s: float = WAIT_LIMIT_S) -> ChannelCounts:
        """Wait until the channel has nothing left: ready, in flight or deferred."""
        return await asyncio.wrap_future(self.submit_wait(topic, channel, _NOTHING_LEFT, limit_s))

    @property
    def manual_clock(self) -> ManualClock:
        """The clock that this nsqd was given; RealClockError without one."""
        if self.clock is None:
            raise RealClockError
        return self.clock

    def submit_wait(
        self, topic: str, channel: str, wanted: WantedCounts, limit_s: float
    ) -> "Future[ChannelCounts]":
        def counts() -> ChannelCounts | None:
            return broker_view.count_channel(self.daemon, topic, channel)

        def is_reached() -> bool:
            found = counts()
            return found is not None and found.meet(wanted)

        async def wait(_: Daemon) -> ChannelCounts:
            if await self.conditions.wait(is_reached, limit_s) and (found := counts()) is not None:
                return found
            described = ", ".join(f"{name}={count}" for name, count in wanted.items())
            raise NotReachedError(
                f"{topic}/{channel} with {described}", found=counts() or "no such channel", limit_s=limit_s
            )

        return self.submit(wait)


class BlockingWaits:
    """What of `NsqdFixture` waits for clients, for tests that are not coroutines."""

    def __init__(self, nsqd: NsqdFixture) -> None:
        self._nsqd = nsqd

    def advance(self, seconds: float) -> None:
        time_lapse.advance_blocking(self._nsqd.manual_clock, seconds)

    def settle(self) -> None:
        time_lapse.advance_blocking(self._nsqd.manual_clock, 0)

    def wait_channel(
        self, topic: str, channel: str, *, limit_s: float = WAIT_LIMIT_S, **wanted: Unpack[WantedCounts]
    ) -> ChannelCounts:
        return self._nsqd.submit_wait(topic, channel, wanted, limit_s).result()

    def wait_empty(self, topic: str, channel: str, *, limit_s: float = WAIT_LIMIT_S) -> ChannelCounts:
        return self._nsqd.submit_wait(topic, channel, _NOTHING_LEFT, limit_s).result()


@contextlib.contextmanager
def running_nsqd(*, clock: Clock | None = None, **options: Any) -> Iterator[NsqdFixture]:
    """An nsqd with these options; without `data_path` what it stores goes when it stops.

    With a `ManualClock` its time stands still until the test calls `advance`.
    """
    with contextlib.ExitStack() as stack:
        if "data_path" not in options:
            options["data_path"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="nsqd-"))
        options.setdefault("tcp_address", "127.0.0.1:0")
        options.setdefault("http_address", "127.0.0.1:0")
        options.setdefault("https_address", "")
        nsqd = NsqdFixture(validate(NsqdOptions(**options)), clock)
        nsqd.start()
        stack.callback(nsqd.stop)
        yield nsqd
