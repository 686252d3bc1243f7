"""Frames from the server to the client.

| bytes | field                                     |
|-------|-------------------------------------------|
| 4     | size: bytes after this field (type, data) |
| 4     | type: 0 response, 1 error, 2 message      |
| ...   | data                                      |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

FRAME_HEADER: Final = struct.Struct(">ii")
FRAME_TYPE_BYTES: Final = 4  # the part of the header that the size counts


class FrameType(IntEnum):
    RESPONSE = 0
    ERROR = 1
    MESSAGE = 2


def encode_frame(frame_type: FrameType, payload: bytes) -> bytes:
    return FRAME_HEADER.pack(FRAME_TYPE_BYTES + len(payload), frame_type) + payload


OK: Final = b"OK"
HEARTBEAT: Final = b"_heartbeat_"
CLOSE_WAIT: Final = b"CLOSE_WAIT"

OK_FRAME: Final = encode_frame(FrameType.RESPONSE, OK)
HEARTBEAT_FRAME: Final = encode_frame(FrameType.RESPONSE, HEARTBEAT)
CLOSE_WAIT_FRAME: Final = encode_frame(FrameType.RESPONSE, CLOSE_WAIT)
