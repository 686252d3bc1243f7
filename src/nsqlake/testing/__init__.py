"""Brokers inside the test process, by a clock that the test moves: docs/testing.md has examples."""

from nsqlake.testing.broker_view import ChannelCounts
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.cluster import ClusterFixture, running_cluster
from nsqlake.testing.errors import NotReachedError, NotSettledError, RealClockError
from nsqlake.testing.messages import RecordedMessage, make_message
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from nsqlake.testing.timers import ManualTimers

__all__ = [
    "ChannelCounts",
    "ClusterFixture",
    "ManualClock",
    "ManualTimers",
    "NotReachedError",
    "NotSettledError",
    "NsqdFixture",
    "NsqlookupdFixture",
    "RealClockError",
    "RecordedMessage",
    "make_message",
    "running_cluster",
    "running_nsqd",
    "running_nsqlookupd",
]
