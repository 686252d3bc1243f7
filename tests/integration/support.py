"""What integration tests look at inside a running nsqd."""

import time
from collections.abc import Callable
from typing import NamedTuple

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.testing.nsqd import NsqdFixture

LIMIT_S = 10.0
MS = 1_000_000


class ChannelFigures(NamedTuple):
    depth: int = 0
    in_flight: int = 0
    deferred: int = 0
    requeued: int = 0
    timed_out: int = 0
    consumers: int = 0


def find_topic(daemon: Daemon, topic: str) -> LiveTopic:
    return daemon.broker.topics[topic]


def find_channel(daemon: Daemon, topic: str, channel: str) -> LiveChannel:
    return daemon.broker.topics[topic].channels[channel]


def figures(nsqd: NsqdFixture, topic: str, channel: str) -> ChannelFigures:
    def look(daemon: Daemon) -> ChannelFigures:
        core = find_channel(daemon, topic, channel).core
        return ChannelFigures(
            depth=core.depth,
            in_flight=core.ledger.out.count,
            deferred=len(core.ledger.deferred),
            requeued=core.requeue_count,
            timed_out=core.timeout_count,
            consumers=len(core.subscriptions),
        )

    return nsqd.call(look)


def has_topic(nsqd: NsqdFixture, topic: str) -> bool:
    return nsqd.call(lambda daemon: topic in daemon.broker.topics)


def has_channel(nsqd: NsqdFixture, topic: str, channel: str) -> bool:
    return nsqd.call(lambda daemon: channel in find_topic(daemon, topic).channels)


def pause(nsqd: NsqdFixture, topic: str, channel: str | None = None, *, paused: bool = True) -> None:
    def set_paused(daemon: Daemon):  # type: ignore[no-untyped-def]
        target = find_topic(daemon, topic) if channel is None else find_channel(daemon, topic, channel)
        return daemon.broker.set_paused(target, paused)

    nsqd.call(set_paused)


def eventually(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Ask again until it holds; every question is a round trip to the daemon's loop, so this is no spin."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not become true in time"


def set_free_bytes_needed(nsqd: NsqdFixture, topic: str, nbytes: int) -> None:
    """With more than the disk has, nothing can be appended to the topic."""

    def change(daemon: Daemon) -> None:
        log = find_topic(daemon, topic).log
        assert log is not None
        log._writer._min_free_bytes, log._writer._check_at = nbytes, 0

    nsqd.call(change)
