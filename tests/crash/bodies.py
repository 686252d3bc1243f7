"""Message bodies that tell who sent them, and whether a byte of them has changed.

    | producer 4 | sequence 4 | group 4 | group size 4 | due_ns 8 | padding | crc32 of all before 4 |

A group is the messages of one MPUB, 0 for none. `due_ns` is the time before which it must not come, or 0.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

_HEAD = struct.Struct(">IIIIQ")
_CRC = struct.Struct(">I")
MIN_BODY_BYTES = _HEAD.size + _CRC.size

Key = tuple[int, int]  # producer, sequence


class Content(NamedTuple):
    producer: int
    sequence: int
    group: int = 0
    group_size: int = 0
    due_ns: int = 0

    @property
    def key(self) -> Key:
        return self.producer, self.sequence

    def encode(self, nbytes: int = MIN_BODY_BYTES) -> bytes:
        head = _HEAD.pack(*self)
        body = head + bytes([self.sequence % 251]) * (nbytes - MIN_BODY_BYTES)
        return body + _CRC.pack(zlib.crc32(body))


def decode(body: bytes) -> Content | None:
    """None when the body is not one of ours, or no longer."""
    if len(body) < MIN_BODY_BYTES or _CRC.unpack_from(body, len(body) - 4)[0] != zlib.crc32(body[:-4]):
        return None
    return Content(*_HEAD.unpack_from(body))
