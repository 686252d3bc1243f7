"""What a client sends with IDENTIFY, and what it learns from the answers to IDENTIFY and AUTH."""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec

from nsqlake.client.config import OFF, ClientConfig
from nsqlake.client.errors import ConnectError
from nsqlake.client.server_description import ServerDescription
from nsqlake.wire.errors import printable
from nsqlake.wire.frames import OK


class _IdentifyAnswer(msgspec.Struct):
    max_rdy_count: int = 0
    version: str = ""
    max_msg_timeout: int = 0
    msg_timeout: int = 0
    tls_v1: bool = False
    deflate: bool = False
    deflate_level: int = 0
    snappy: bool = False
    sample_rate: int = 0
    auth_required: bool = False
    output_buffer_size: int = 0
    output_buffer_timeout: int = 0
    topology_region: str = ""
    topology_zone: str = ""


class _AuthAnswer(msgspec.Struct):
    identity: str = ""
    identity_url: str = ""
    permission_count: int = 0


_identify_answer: Final = msgspec.json.Decoder(_IdentifyAnswer)
_auth_answer: Final = msgspec.json.Decoder(_AuthAnswer)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MAX_TEXT: Final = 256


def identify_fields(config: ClientConfig) -> dict[str, object]:
    """The body of IDENTIFY, in milliseconds."""
    fields: dict[str, object] = {
        "client_id": config.client_id,
        "hostname": config.hostname,
        "user_agent": config.user_agent,
        "feature_negotiation": True,
        "heartbeat_interval": _milliseconds(config.heartbeat_interval),
        "output_buffer_size": config.output_buffer_size,
        "output_buffer_timeout": _milliseconds(config.output_buffer_timeout),
        "tls_v1": config.tls_v1,
        "snappy": config.snappy,
        "deflate": config.deflate,
        "deflate_level": config.deflate_level,
        "sample_rate": config.sample_rate,
        "msg_timeout": _milliseconds(config.msg_timeout),
    }
    if config.topology_region:
        fields["topology_region"] = config.topology_region
    if config.topology_zone:
        fields["topology_zone"] = config.topology_zone
    return fields


def decode_identify_answer(address: str, payload: bytes) -> ServerDescription:
    """A bare OK comes from an nsqd that negotiates nothing; a number that says nothing is the default."""
    if payload == OK:
        return ServerDescription()
    try:
        answer = _identify_answer.decode(payload)
    except _UNREADABLE as error:
        raise ConnectError(address, f"the answer to IDENTIFY cannot be read: {error}") from None
    default = ServerDescription()
    return ServerDescription(
        version=_text(answer.version),
        max_rdy_count=answer.max_rdy_count if answer.max_rdy_count > 0 else default.max_rdy_count,
        msg_timeout_s=_seconds(answer.msg_timeout, default.msg_timeout_s),
        max_msg_timeout_s=_seconds(answer.max_msg_timeout, default.max_msg_timeout_s),
        tls=answer.tls_v1,
        snappy=answer.snappy,
        deflate=answer.deflate,
        deflate_level=answer.deflate_level if 1 <= answer.deflate_level <= 9 else default.deflate_level,
        sample_rate=answer.sample_rate,
        output_buffer_size=answer.output_buffer_size,
        output_buffer_timeout_s=answer.output_buffer_timeout / 1000,
        auth_required=answer.auth_required,
        topology_region=_text(answer.topology_region),
        topology_zone=_text(answer.topology_zone),
    )


def decode_auth_answer(address: str, payload: bytes, server: ServerDescription) -> ServerDescription:
    try:
        answer = _auth_answer.decode(payload)
    except _UNREADABLE as error:
        raise ConnectError(address, f"the answer to AUTH cannot be read: {error}") from None
    return dataclasses.replace(
        server,
        identity=_text(answer.identity),
        identity_url=_text(answer.identity_url),
        permission_count=answer.permission_count,
    )


def _milliseconds(duration_s: float) -> int:
    return OFF if duration_s < 0 else round(duration_s * 1000)


def _seconds(duration_ms: int, default_s: float) -> float:
    return duration_ms / 1000 if duration_ms > 0 else default_s


def _text(raw: str) -> str:
    """It will stand in log lines."""
    return printable(raw.encode("utf-8", "replace"), _MAX_TEXT)
