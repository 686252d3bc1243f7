"""What the endpoints work with."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.http.endpoints import Endpoint
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.stats.node_stats import NodeStats
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.tasks import TaskSupervisor

if TYPE_CHECKING:
    from nsqlake.nsqd.auth import AuthServers
    from nsqlake.nsqd.http.identities import Identities
    from nsqlake.nsqd.lookup.announcements import Announcements

__all__ = ["Services"]


@dataclass(slots=True, kw_only=True)
class Services:
    """The daemon as its HTTP API sees it. `options` are those of now: `PUT /config` replaces them.

    A port is that of the listener, -1 for a unix socket, 0 where nothing listens.
    """

    options: NsqdOptions
    broker: Broker
    stats: NodeStats
    announcements: "Announcements"
    clock: Clock
    tasks: TaskSupervisor
    auth: "AuthServers | None"
    tcp_port: int
    http_port: int
    https_port: int
    identities: "Identities | None" = None  # None when nobody has to say who they are
    endpoints: list[Endpoint] = field(default_factory=list)  # all of them, once the API is made

    @property
    def turn(self) -> Turn:
        return self.broker.turn
