"""An nsqd that follows a clock the test moves: timeouts, delays, heartbeats, retention."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.housekeeping import keep_house_once
from nsqlake.nsqd.lookup.announcements import Announcements
from nsqlake.nsqd.lookup.lookup_peer import LookupTiming
from nsqlake.nsqd.tcp_protocol import TcpConnection
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.loop_turns import take_turns
from nsqlake.testing.watched_turn import WatchedTurn

if TYPE_CHECKING:
    from nsqlake.testing.nsqd import NsqdFixture

__all__ = ["NsqdTime"]

_MS = 1_000_000
_PING_NS = round(LookupTiming().ping_s * 1_000_000_000)
_RETRY_NS = 1_000_000_000  # what could not be done at its time
_BUSY_S = 0.001
_PATIENCE_S = 0.03  # with handlers in threads, whose loops are at rest


class NsqdTime:
    """`Follower` for a daemon.

    Heartbeats, and the pings of nsqlookupds, are sent by this clock too, so that none who counts by it misses
    them. Who does not answer is cut off by the real time only: a client that nobody here knows may need some.
    """

    def __init__(self, nsqd: "NsqdFixture", clock: ManualClock) -> None:
        self._nsqd, self._clock = nsqd, clock
        self._seen_inputs = -1
        self._forgiven = 0  # deliveries after which unanswered messages were waited for long enough
        self._acted_at_ns = -1
        self._due_ns: int | None = None
        # Interval, and when the next one is due.
        self._beats: dict[TcpConnection | Announcements, tuple[int, int]] = {}

    @property
    def wait_ns(self) -> int | None:
        return None if self._due_ns is None else max(0, self._due_ns - self._clock.elapsed_ns)

    def act(self) -> None:
        self._nsqd.call(self._act)

    def settle(self) -> bool:
        return self._nsqd.call(self._settle)

    def end_move(self) -> None:
        self._nsqd.call(lambda daemon: keep_house_once(daemon.broker, daemon.options))

    # On the loop of the daemon ------------------------------------------------------------------------

    def _act(self, daemon: Daemon) -> None:
        self._acted_at_ns = now_ns = self._clock.elapsed_ns
        _turn(daemon).ring()
        for peer, (interval_ns, due_ns) in self._beats.items():
            if due_ns <= now_ns:
                self._beats[peer] = (interval_ns, now_ns + interval_ns)
                peer.ping() if isinstance(peer, Announcements) else peer.send_heartbeat()

    async def _settle(self, daemon: Daemon) -> bool:
        await take_turns()
        turn = _turn(daemon)
        is_busy = daemon.broker.is_busy or any(connection.is_busy for connection in daemon.connections)
        if is_busy:
            await asyncio.sleep(_BUSY_S)
        await self._wait_answered(daemon)
        has_input = turn.input_count != self._seen_inputs
        self._seen_inputs = turn.input_count
        self._look_ahead(daemon)
        return is_busy or has_input or not turn.is_at_rest

    async def _wait_answered(self, daemon: Daemon) -> None:
        """Once after each delivery, for a moment: whoever has the messages then may keep them."""
        deliveries = sum(each.message_count for each in _subscriptions(daemon))
        if deliveries != self._forgiven:
            await self._nsqd.conditions.wait(lambda: not _has_messages_out(daemon), _PATIENCE_S)
            self._forgiven = deliveries

    def _look_ahead(self, daemon: Daemon) -> None:
        now_ns = self._clock.elapsed_ns
        self._note_beats(daemon, now_ns)
        dues = [due_ns for _, due_ns in self._beats.values()]
        alarm_ns = _turn(daemon).next_alarm_ns
        if alarm_ns is not None:
            due_ns = alarm_ns - self._clock.now_ns() + now_ns
            dues.append(now_ns + _RETRY_NS if due_ns <= now_ns == self._acted_at_ns else due_ns)
        self._due_ns = min(dues, default=None)

    def _note_beats(self, daemon: Daemon, now_ns: int) -> None:
        intervals: dict[TcpConnection | Announcements, int] = {
            connection: connection.session.settings.heartbeat_interval_ms * _MS
            for connection in daemon.connections
        }
        if daemon.announcements.connected:
            intervals[daemon.announcements] = _PING_NS
        known, self._beats = self._beats, {}
        for peer, interval_ns in intervals.items():
            before = known.get(peer)
            if before is not None and before[0] == interval_ns:
                self._beats[peer] = before
            elif interval_ns:
                self._beats[peer] = (interval_ns, now_ns + interval_ns)


def _subscriptions(daemon: Daemon) -> Iterator[Subscription]:
    for topic in daemon.broker.topics.values():
        for channel in topic.channels.values():
            yield from channel.core.subscriptions


def _has_messages_out(daemon: Daemon) -> bool:
    return any(subscription.in_flight for subscription in _subscriptions(daemon))


def _turn(daemon: Daemon) -> WatchedTurn:
    turn = daemon.broker.turn
    assert isinstance(turn, WatchedTurn)
    return turn
