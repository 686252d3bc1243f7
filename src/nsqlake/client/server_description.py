"""What an nsqd says about itself in the handshake."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServerDescription:
    """The answers to IDENTIFY and AUTH; the defaults hold for an nsqd that answers a bare OK."""

    version: str = ""
    max_rdy_count: int = 2500
    msg_timeout_s: float = 60.0
    max_msg_timeout_s: float = 900.0
    tls: bool = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = 6
    sample_rate: int = 0
    output_buffer_size: int = 16_384
    output_buffer_timeout_s: float = 0.25
    auth_required: bool = False
    topology_region: str = ""
    topology_zone: str = ""
    identity: str = ""
    identity_url: str = ""
    permission_count: int = 0
