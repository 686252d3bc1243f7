"""What `/info` says of the node; durations in ns, -1 for the port of a unix socket."""

import msgspec

from nsqlake import NSQ_VERSION
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.addresses import host_name

__all__ = ["Info", "describe_node"]

_SECOND_NS = 1_000_000_000


class Info(msgspec.Struct, kw_only=True):
    version: str
    broadcast_address: str
    hostname: str
    http_port: int
    tcp_port: int
    start_time: int
    max_heartbeat_interval: int
    max_output_buffer_size: int
    max_output_buffer_timeout: int
    max_deflate_level: int
    topology_zone: str
    topology_region: str


def describe_node(options: NsqdOptions, *, tcp_port: int, http_port: int, start_ns: int) -> Info:
    """The ports are those that are really listened on."""
    return Info(
        version=NSQ_VERSION,
        broadcast_address=options.broadcast_address,
        hostname=host_name(),
        http_port=http_port,
        tcp_port=tcp_port,
        start_time=start_ns // _SECOND_NS,
        max_heartbeat_interval=options.max_heartbeat_interval_ns,
        max_output_buffer_size=options.max_output_buffer_size,
        max_output_buffer_timeout=options.max_output_buffer_timeout_ns,
        max_deflate_level=options.max_deflate_level,
        topology_zone=options.topology_zone,
        topology_region=options.topology_region,
    )
