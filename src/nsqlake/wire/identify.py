"""IDENTIFY: what a server allows a client, and the settings and the answer that follow."""

from typing import Final

import msgspec

from nsqlake.wire.errors import ClientError
from nsqlake.wire.frames import OK
from nsqlake.wire.identify_request import IdentifyRequest, decode_identify

__all__ = ["ClientSettings", "IdentifyRequest", "ServerLimits", "decode_identify", "negotiate"]

DEFAULT_DEFLATE_LEVEL: Final = 6  # NSQ, as the minima and the rate below
MIN_HEARTBEAT_INTERVAL_MS: Final = 1000
MIN_OUTPUT_BUFFER_SIZE: Final = 64
MIN_MSG_TIMEOUT_MS: Final = 1000
MAX_SAMPLE_RATE: Final = 99

UNBUFFERED_SIZE: Final = 1


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the server allows and announces; the defaults are nsqd's."""

    version: str
    max_rdy_count: int = 2500
    max_heartbeat_interval_ms: int = 60_000
    max_msg_timeout_ms: int = 900_000
    max_output_buffer_size: int = 65_536
    min_output_buffer_timeout_ms: int = 25
    max_output_buffer_timeout_ms: int = 30_000
    tls: bool = False
    snappy: bool = True
    deflate: bool = True
    max_deflate_level: int = 6
    auth_required: bool = False
    topology_region: str = ""
    topology_zone: str = ""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one connection; before IDENTIFY the server's defaults."""

    client_id: str = ""
    hostname: str = ""
    user_agent: str = ""
    heartbeat_interval_ms: int = 30_000  # 0: no heartbeats and no deadlines
    output_buffer_size: int = 16_384  # UNBUFFERED_SIZE: every message is written at once
    output_buffer_timeout_ms: int = 250  # 0: never flushed by time
    sample_rate: int = 0
    msg_timeout_ms: int = 60_000
    tls: bool = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = DEFAULT_DEFLATE_LEVEL
    topology_region: str = ""
    topology_zone: str = ""
    feature_negotiation: bool = False

    @property
    def is_unbuffered(self) -> bool:
        return self.output_buffer_size == UNBUFFERED_SIZE


def negotiate(
    request: IdentifyRequest, limits: ServerLimits, current: ClientSettings
) -> tuple[ClientSettings, bytes]:
    """The settings that hold from now on, and the data of the response frame.

    The response grants what this request newly gets; an upgrade made by an earlier IDENTIFY stays in the
    settings and is not granted twice.
    """
    settings = _apply(request, limits, current)
    if not request.feature_negotiation:
        return settings, OK
    tls = limits.tls and request.tls_v1 and not current.tls
    snappy = limits.snappy and request.snappy and not current.snappy
    deflate = limits.deflate and request.deflate and not current.deflate
    settings = msgspec.structs.replace(
        settings,
        tls=tls or current.tls,
        snappy=snappy or current.snappy,
        deflate=deflate or current.deflate,
        deflate_level=_deflate_level(request, limits, current, granted=deflate),
    )
    if settings.snappy and settings.deflate:
        raise ClientError("E_IDENTIFY_FAILED", "cannot enable both deflate and snappy compression")
    return settings, _encode_response(settings, limits, tls=tls, snappy=snappy, deflate=deflate)


def _apply(request: IdentifyRequest, limits: ServerLimits, current: ClientSettings) -> ClientSettings:
    heartbeat_interval_ms = _choose(
        "heartbeat interval",
        request.heartbeat_interval_ms,
        current.heartbeat_interval_ms,
        within=(MIN_HEARTBEAT_INTERVAL_MS, limits.max_heartbeat_interval_ms),
        off=0,
    )
    output_buffer_timeout_ms = _choose(
        "output buffer timeout",
        request.output_buffer_timeout_ms,
        current.output_buffer_timeout_ms,
        within=(limits.min_output_buffer_timeout_ms, limits.max_output_buffer_timeout_ms),
        off=0,
    )
    output_buffer_size = _choose(
        "output buffer size",
        request.output_buffer_size,
        current.output_buffer_size,
        within=(MIN_OUTPUT_BUFFER_SIZE, limits.max_output_buffer_size),
        off=UNBUFFERED_SIZE,
    )
    sample_rate = _choose("sample rate", request.sample_rate, 0, within=(0, MAX_SAMPLE_RATE))
    msg_timeout_ms = _choose(
        "msg timeout",
        request.msg_timeout_ms,
        current.msg_timeout_ms,
        within=(MIN_MSG_TIMEOUT_MS, limits.max_msg_timeout_ms),
    )
    return msgspec.structs.replace(
        current,
        client_id=request.client_id,
        hostname=request.hostname,
        user_agent=request.user_agent,
        heartbeat_interval_ms=heartbeat_interval_ms,
        output_buffer_size=output_buffer_size,
        output_buffer_timeout_ms=0 if request.output_buffer_size == -1 else output_buffer_timeout_ms,
        sample_rate=sample_rate,
        msg_timeout_ms=msg_timeout_ms,
        topology_region=request.topology_region,
        topology_zone=request.topology_zone,
        feature_negotiation=request.feature_negotiation,
    )


def _choose(
    noun: str, requested: int, current: int, *, within: tuple[int, int], off: int | None = None
) -> int:
    """0 keeps what is current, -1 switches off where that is possible."""
    if requested == 0:
        return current
    if requested == -1 and off is not None:
        return off
    if not within[0] <= requested <= within[1]:
        raise ClientError("E_BAD_BODY", f"IDENTIFY {noun} ({requested}) is invalid")
    return requested


def _deflate_level(
    request: IdentifyRequest, limits: ServerLimits, current: ClientSettings, *, granted: bool
) -> int:
    if current.deflate:
        return current.deflate_level
    wanted = request.deflate_level if granted and request.deflate_level > 0 else DEFAULT_DEFLATE_LEVEL
    return min(wanted, limits.max_deflate_level)


def _encode_response(
    settings: ClientSettings, limits: ServerLimits, *, tls: bool, snappy: bool, deflate: bool
) -> bytes:
    # The order of the keys is NSQ's.
    return msgspec.json.encode(
        {
            "max_rdy_count": limits.max_rdy_count,
            "version": limits.version,
            "max_msg_timeout": limits.max_msg_timeout_ms,
            "msg_timeout": settings.msg_timeout_ms,
            "tls_v1": tls,
            "deflate": deflate,
            "deflate_level": settings.deflate_level,
            "max_deflate_level": limits.max_deflate_level,
            "snappy": snappy,
            "sample_rate": settings.sample_rate,
            "auth_required": limits.auth_required,
            "output_buffer_size": settings.output_buffer_size,
            "output_buffer_timeout": settings.output_buffer_timeout_ms,
            "topology_region": limits.topology_region,
            "topology_zone": limits.topology_zone,
        }
    )
