"""An nsqlookupd inside the process that tests against it, with ports of its own.

with running_nsqlookupd() as lookupd, running_nsqd(lookupd_tcp_addresses=(lookupd.tcp_address,)) as nsqd:
    nsqd.publish("orders", b"one")
    consumer = Consumer("orders", "mail", handle, lookupd_http_addresses=lookupd.http_address)

Nothing of it happens by itself: with a `ManualClock` tombstones expire, and nsqds become inactive, when the
test moves it.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from nsqlake.nsqlookupd.daemon import Daemon
from nsqlake.nsqlookupd.options import NsqlookupdOptions, validate
from nsqlake.runtime.clock import Clock
from nsqlake.testing.daemon_thread import DaemonThread

__all__ = ["NsqlookupdFixture", "running_nsqlookupd"]


class NsqlookupdFixture(DaemonThread[Daemon]):
    """A daemon on a loop in a thread of its own; touch it through `call` only."""

    def __init__(self, options: NsqlookupdOptions, clock: Clock | None = None) -> None:
        super().__init__(Daemon(options, clock=clock), "nsqlookupd")
        self.options = options

    @property
    def tcp_port(self) -> int:
        return self.daemon.tcp_listener.port

    @property
    def tcp_address(self) -> str:
        """`host:port` for nsqd."""
        return self.daemon.tcp_listener.local_address

    @property
    def http_port(self) -> int:
        return self.daemon.http.http_port

    @property
    def https_port(self) -> int:
        return self.daemon.http.https_port

    @property
    def http_address(self) -> str:
        """`host:port` for consumers."""
        return self.daemon.http.http_address

    def topics(self) -> list[str]:
        return self.call(lambda daemon: list(daemon.db.topics()))

    def channels(self, topic: str) -> list[str]:
        return self.call(lambda daemon: daemon.db.channels(topic))

    def producers(self, topic: str) -> list[str]:
        """`host:port` of each nsqd that consumers of the topic are sent to."""
        nodes = self.call(lambda daemon: [peer.node for peer in daemon.find_producers(topic)])
        return [f"{node.broadcast_address}:{node.tcp_port}" for node in nodes]


@contextlib.contextmanager
def running_nsqlookupd(*, clock: Clock | None = None, **options: Any) -> Iterator[NsqlookupdFixture]:
    """An nsqlookupd with these options, on ports that are free unless told otherwise."""
    for name, address in (
        ("tcp_address", "127.0.0.1:0"),
        ("http_address", "127.0.0.1:0"),
        ("https_address", ""),
        ("broadcast_address", "127.0.0.1"),
    ):
        options.setdefault(name, address)
    lookupd = NsqlookupdFixture(validate(NsqlookupdOptions(**options)), clock)
    lookupd.start()
    try:
        yield lookupd
    finally:
        lookupd.stop()
