"""Message frames, made one at a time or for a whole run of messages in one go.

A frame on the wire, all integers big-endian:

    | size 4 | type 4 = 2 | timestamp_ns 8 | attempts 2 | id 16 hex digits | body |

The records of a run lie in one buffer as `size 4 | body`. Ids of a run are consecutive and share
their first 13 digits: a run never crosses a page of 4,096 ids, so the last three digits come
from a table and everything before them is the same bytes for every frame with one timestamp.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "FRAME_OVERHEAD",
    "ID_PAGE",
    "MESSAGE_HEAD",
    "encode_equal_run",
    "encode_message",
    "encode_mixed_run",
    "id_digits",
]

ID_PAGE = 4096
RECORD_SIZE_BYTES = 4
FRAME_OVERHEAD = 34  # size, type, timestamp, attempts, id
_SIZE_AFTER_ITSELF = 30
_MESSAGE_TYPE = 2
_SMALL_RUN = 12  # below it numpy's fixed cost is more than a loop

MESSAGE_HEAD = struct.Struct(">IIQH")  # size, type, timestamp_ns, attempts
_MIDDLE = struct.Struct(">IQH")
_SIZE = struct.Struct(">I")
_TAILS = [b"%03x" % number for number in range(ID_PAGE)]
_TAIL_ARRAY = np.array(_TAILS, dtype="S3").view("V3")
_SIZES = [_SIZE.pack(size) for size in range(8192)]

Timestamps = int | npt.NDArray[Any]


def id_digits(message_id: int) -> bytes:
    return b"%016x" % message_id


def encode_message(body: bytes, *, timestamp_ns: int, attempts: int, message_id: int) -> bytes:
    head = MESSAGE_HEAD.pack(len(body) + _SIZE_AFTER_ITSELF, _MESSAGE_TYPE, timestamp_ns, attempts & 0xFFFF)
    return b"%b%016x%b" % (head, message_id, body)


def encode_equal_run(
    data: bytes, first: int, stride: int, body_bytes: int, count: int, timestamps: Timestamps, first_id: int
) -> bytes | memoryview:
    """Frames of `count` records of one size, the first at `first`, `stride` apart; attempts is 1."""
    if count == 1 and isinstance(timestamps, int):
        body = data[first + RECORD_SIZE_BYTES : first + RECORD_SIZE_BYTES + body_bytes]
        return encode_message(body, timestamp_ns=timestamps, attempts=1, message_id=first_id)
    if count <= _SMALL_RUN:
        begin = first + RECORD_SIZE_BYTES
        stop = begin + stride * count
        bodies = [data[at : at + body_bytes] for at in range(begin, stop, stride)]
        return _join_frames(bodies, timestamps, first_id)
    frames: npt.NDArray[Any] = np.empty(count, _frame_layout(body_bytes))
    if isinstance(timestamps, int):
        head = MESSAGE_HEAD.pack(body_bytes + _SIZE_AFTER_ITSELF, _MESSAGE_TYPE, timestamps, 1)
        frames["head"] = np.void(head)
    else:
        frames["head"] = np.void(MESSAGE_HEAD.pack(body_bytes + _SIZE_AFTER_ITSELF, _MESSAGE_TYPE, 0, 1))
        frames["timestamp"] = timestamps
    frames["id"] = np.void(id_digits(first_id)[:13])
    tail = first_id % ID_PAGE
    frames["tail"] = _TAIL_ARRAY[tail : tail + count]
    # The last record may end with the buffer, so the view covers `stride` bytes only up to its body.
    records: npt.NDArray[Any] = np.ndarray(
        (count,), _body_layout(body_bytes), data, first + RECORD_SIZE_BYTES, (stride,)
    )
    frames["body"] = records
    return frames.view(np.uint8).data


def encode_mixed_run(
    data: bytes, starts: Sequence[int], timestamps: Timestamps, first_id: int
) -> bytes | memoryview:
    """Frames of the records that begin at `starts[:-1]` and end at `starts[1:]`; attempts is 1."""
    bodies = [data[begin + RECORD_SIZE_BYTES : end] for begin, end in pairwise(starts)]
    return _join_frames(bodies, timestamps, first_id)


def _join_frames(bodies: list[bytes], timestamps: Timestamps, first_id: int) -> bytes:
    count = len(bodies)
    digits = id_digits(first_id)[:13]
    if isinstance(timestamps, int):
        middles = [_MIDDLE.pack(_MESSAGE_TYPE, timestamps, 1) + digits] * count
    else:
        middles = [_MIDDLE.pack(_MESSAGE_TYPE, stamp, 1) + digits for stamp in timestamps.tolist()]
    parts: list[bytes] = [b""] * (4 * count)
    parts[0::4] = [_size_field(len(body) + _SIZE_AFTER_ITSELF) for body in bodies]
    parts[1::4] = middles
    tail = first_id % ID_PAGE
    parts[2::4] = _TAILS[tail : tail + count]
    parts[3::4] = bodies
    return b"".join(parts)


def _size_field(size: int) -> bytes:
    return _SIZES[size] if size < 8192 else _SIZE.pack(size)


@lru_cache(maxsize=256)
def _frame_layout(body_bytes: int) -> np.dtype[Any]:
    return np.dtype(
        {
            "names": ["head", "timestamp", "id", "tail", "body"],
            "formats": ["V18", ">u8", "V13", "V3", f"V{body_bytes}"],
            "offsets": [0, 8, 18, 31, 34],
            "itemsize": FRAME_OVERHEAD + body_bytes,
        }
    )


@lru_cache(maxsize=256)
def _body_layout(body_bytes: int) -> np.dtype[Any]:
    return np.dtype(f"V{body_bytes}")
