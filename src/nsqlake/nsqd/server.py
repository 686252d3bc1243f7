"""What every connection of the daemon shares."""

from typing import TYPE_CHECKING

from nsqlake import NSQ_VERSION
from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder
from nsqlake.wire.identify import ServerLimits

if TYPE_CHECKING:
    from nsqlake.nsqd.auth import AuthServers

__all__ = ["Server"]

_MS = 1_000_000


class Server:
    """The broker, the clock and the options, in one place."""

    def __init__(
        self,
        options: NsqdOptions,
        broker: Broker,
        clock: Clock,
        tasks: TaskSupervisor,
        *,
        tls: TlsContextHolder | None,
        auth: "AuthServers | None",
    ) -> None:
        self.options, self.broker, self.clock, self.tasks = options, broker, clock, tasks
        self.tls, self.auth = tls, auth
        self.turn: Turn = broker.turn
        self.is_tls_demanded = bool(options.tls_required)
        self.limits = ServerLimits(
            version=NSQ_VERSION,
            max_rdy_count=options.max_rdy_count,
            max_heartbeat_interval_ms=options.max_heartbeat_interval_ns // _MS,
            max_msg_timeout_ms=options.max_msg_timeout_ns // _MS,
            max_output_buffer_size=options.max_output_buffer_size,
            min_output_buffer_timeout_ms=options.min_output_buffer_timeout_ns // _MS,
            max_output_buffer_timeout_ms=options.max_output_buffer_timeout_ns // _MS,
            tls=tls is not None,
            snappy=options.snappy,
            deflate=options.deflate,
            max_deflate_level=options.max_deflate_level,
            auth_required=auth is not None,
            topology_region=options.topology_region,
            topology_zone=options.topology_zone,
        )
