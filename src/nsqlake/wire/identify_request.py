"""The body of an nsqd client's IDENTIFY, decoded."""

from typing import Final

import msgspec

from nsqlake.wire.errors import ClientError
from nsqlake.wire.json_object import REFUSALS, Fields, as_bool, as_int32, as_int64, as_text, decode_object

__all__ = ["IdentifyRequest", "decode_identify"]


class IdentifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an IDENTIFY body; 0, false and "" stand for absent ones."""

    client_id: str = ""
    hostname: str = ""
    user_agent: str = ""
    feature_negotiation: bool = False
    heartbeat_interval_ms: int = 0
    output_buffer_size: int = 0
    output_buffer_timeout_ms: int = 0
    sample_rate: int = 0
    msg_timeout_ms: int = 0
    tls_v1: bool = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = 0
    topology_region: str = ""
    topology_zone: str = ""


def decode_identify(body: bytes) -> IdentifyRequest:
    """The request in `body`; raises ClientError for anything Go's decoder would refuse."""
    try:
        return IdentifyRequest(**decode_object(body, _FIELDS))  # type: ignore[arg-type]
    except REFUSALS:
        raise ClientError("E_BAD_BODY", "IDENTIFY failed to decode JSON body") from None


_FIELDS: Final[Fields] = {
    "client_id": ("client_id", as_text),
    "hostname": ("hostname", as_text),
    "user_agent": ("user_agent", as_text),
    "feature_negotiation": ("feature_negotiation", as_bool),
    "heartbeat_interval": ("heartbeat_interval_ms", as_int64),
    "output_buffer_size": ("output_buffer_size", as_int64),
    "output_buffer_timeout": ("output_buffer_timeout_ms", as_int64),
    "sample_rate": ("sample_rate", as_int32),
    "msg_timeout": ("msg_timeout_ms", as_int64),
    "tls_v1": ("tls_v1", as_bool),
    "snappy": ("snappy", as_bool),
    "deflate": ("deflate", as_bool),
    "deflate_level": ("deflate_level", as_int64),
    "topology_region": ("topology_region", as_text),
    "topology_zone": ("topology_zone", as_text),
}
