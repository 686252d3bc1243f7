"""The answer of `/info`."""

import msgspec

from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.stats.info import describe_node
from nsqlake.runtime.addresses import host_name


def test_info_has_nsqs_keys_in_their_order_with_durations_in_nanoseconds() -> None:
    options = NsqdOptions(broadcast_address="127.0.0.1", topology_zone="z", topology_region="r")

    info = describe_node(options, tcp_port=4150, http_port=-1, start_ns=1_794_768_418_999_999_999)

    assert msgspec.json.encode(info).decode() == (
        '{"version":"1.3.0","broadcast_address":"127.0.0.1","hostname":"' + host_name() + '",'
        '"http_port":-1,"tcp_port":4150,"start_time":1794768418,"max_heartbeat_interval":60000000000,'
        '"max_output_buffer_size":65536,"max_output_buffer_timeout":30000000000,"max_deflate_level":6,'
        '"topology_zone":"z","topology_region":"r"}'
    )
