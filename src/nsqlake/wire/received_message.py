"""The data of a message frame, as a client sees it.

| bytes | field                                            |
|-------|--------------------------------------------------|
| 8     | timestamp: nanoseconds since 1970, at publishing |
| 2     | attempts: 1 at first, wraps after 65535          |
| 16    | id: opaque, in practice hexadecimal digits       |
| ...   | body                                             |
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from nsqlake.wire.errors import StreamError

MESSAGE_HEADER: Final = struct.Struct(">qH16s")


class Message(msgspec.Struct, frozen=True, gc=False):
    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes


def decode_message(payload: bytes) -> Message:
    if len(payload) < MESSAGE_HEADER.size:
        raise StreamError(
            f"message of {len(payload)} bytes is shorter than its header of {MESSAGE_HEADER.size}"
        )
    timestamp_ns, attempts, message_id = MESSAGE_HEADER.unpack_from(payload)
    return Message(timestamp_ns, attempts, message_id, payload[MESSAGE_HEADER.size :])
