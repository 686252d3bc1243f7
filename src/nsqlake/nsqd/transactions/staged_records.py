"""What one attempt of one part has staged: a file of records, each an MPUB for one topic.

All integers are big-endian.

    field        bytes            meaning
    magic        4                b"NQT1"
    crc32c       4                of everything after this field
    length       4                bytes after the header
    number       4                0, 1, 2, ... within the file
    count        4                messages
    record size  4                bytes of every message with its size, if all are equal, else 0
    defer        8                milliseconds after the commit for which nobody gets them
    name         2                bytes of the topic's name
    topic
    starts       4 x (count + 1)  where each message begins and the last one ends; absent if all are equal
    records                       size (4) and bytes of each message: as they will lie in the topic's log
"""

import struct
import sys
from array import array
from collections.abc import Callable
from typing import NamedTuple

import google_crc32c
import numpy as np

from nsqlake.wire.command_reader import Messages

__all__ = ["HEADER", "MAGIC", "StagedRecord", "decode_record", "encode_record", "is_whole", "scan_records"]

MAGIC = b"NQT1"
HEADER = struct.Struct(">4sIIIIIQH")
_PREFIX = struct.Struct(">4sI")
_REST = struct.Struct(">IIIIQH")
_START_BYTES = 4


class StagedRecord(NamedTuple):
    """Where a record lies in its file, and what it is."""

    number: int
    topic: str
    message_count: int
    defer_ms: int
    position: int
    nbytes: int
    crc: int  # of all but the place: equal for what was sent twice


def encode_record(
    number: int, topic: str, messages: Messages, defer_ms: int, position: int = 0
) -> tuple[StagedRecord, list[bytes]]:
    """The record as it will lie at `position`, and its bytes, to be written in turn."""
    name = topic.encode("ascii")
    starts = b"" if messages.record_size else _encode_starts(messages)
    length = len(name) + len(starts) + len(messages.records)
    rest = _REST.pack(length, number, messages.count, messages.record_size, defer_ms, len(name))
    head = rest + name + starts
    crc = google_crc32c.extend(google_crc32c.value(head), messages.records)
    nbytes = HEADER.size + length
    record = StagedRecord(number, topic, messages.count, defer_ms, position, nbytes, crc)
    return record, [_PREFIX.pack(MAGIC, crc) + head, messages.records]


def _encode_starts(messages: Messages) -> bytes:
    assert messages.starts is not None
    places = array("I", messages.starts)
    if sys.byteorder == "little":
        places.byteswap()
    return places.tobytes()


def scan_records(read: Callable[[int, int], bytes], size: int) -> tuple[list[StagedRecord], int]:
    """The whole records at the start of a file, and where they end. `read` takes length and position."""
    records: list[StagedRecord] = []
    position = 0
    while size - position >= HEADER.size:
        head = read(HEADER.size, position)
        if len(head) < HEADER.size:
            break
        magic, crc, length, number, count, _, defer_ms, name_bytes = HEADER.unpack(head)
        nbytes = HEADER.size + length
        if magic != MAGIC or number != len(records) or position + nbytes > size or name_bytes > length:
            break
        data = read(nbytes, position)
        topic = data[HEADER.size : HEADER.size + name_bytes].decode("ascii", "replace")
        record = StagedRecord(number, topic, count, defer_ms, position, nbytes, crc)
        if not is_whole(data, record):
            break
        records.append(record)
        position += nbytes
    return records, position


def decode_record(data: bytes, record: StagedRecord) -> Messages | None:
    """The messages of a record, None when these are not its bytes any more."""
    if not is_whole(data, record):
        return None
    _, _, _, _, count, record_size, _, name_bytes = HEADER.unpack_from(data)
    at, starts = HEADER.size + name_bytes, None
    if not record_size:
        starts = np.frombuffer(data, ">u4", count + 1, at).tolist()
        at += _START_BYTES * (count + 1)
    return Messages(b"MPUB", data[at:], count, record_size, starts)


def is_whole(data: bytes, record: StagedRecord) -> bool:
    """Whether these are the bytes of the record."""
    return len(data) == record.nbytes and bool(google_crc32c.value(data[_PREFIX.size :]) == record.crc)
