"""What one attempt of one part has staged: a file of records, each an MPUB for one topic.

All integers are big-endian.

    field    bytes  meaning
    magic    4      b"NQT1"
    crc32c   4      of everything after this field
    length   4      bytes after the header: topic and body
    number   4      0, 1, 2, ... within the file
    count    4      messages in the body
    defer    8      milliseconds after the commit for which nobody gets them
    name     2      bytes of the topic's name
    topic
    body            as in /mpub?binary=true: a 4-byte count, then size and bytes of each message
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import google_crc32c

__all__ = ["StagedRecord", "decode_body", "encode_record", "scan_records"]

_MAGIC = b"NQT1"
_HEADER = struct.Struct(">4sIIIIQH")
_CHECKED_FROM = 8
_REST = struct.Struct(">IIIQH")
_PREFIX = struct.Struct(">4sI")


class StagedRecord(NamedTuple):
    """Where a record lies in its file, and what it is."""

    number: int
    topic: str
    message_count: int
    defer_ms: int
    position: int
    nbytes: int


def encode_record(number: int, topic: str, count: int, defer_ms: int, body: bytes) -> tuple[bytes, bytes]:
    """Head and body, to be written in turn."""
    name = topic.encode("ascii")
    rest = _REST.pack(len(name) + len(body), number, count, defer_ms, len(name)) + name
    crc = google_crc32c.extend(google_crc32c.value(rest), body)
    return _PREFIX.pack(_MAGIC, crc) + rest, body


def scan_records(read: Callable[[int, int], bytes], size: int) -> tuple[list[StagedRecord], int]:
    """The whole records at the start of a file, and where they end: what follows was never acknowledged.

    `read` takes length and position.
    """
    records: list[StagedRecord] = []
    position = 0
    while size - position >= _HEADER.size:
        head = read(_HEADER.size, position)
        if len(head) < _HEADER.size:
            break
        magic, crc, length, number, count, defer_ms, name_bytes = _HEADER.unpack(head)
        nbytes = _HEADER.size + length
        if magic != _MAGIC or number != len(records) or position + nbytes > size or name_bytes > length:
            break
        data = read(nbytes, position)
        if len(data) != nbytes or google_crc32c.value(data[_CHECKED_FROM:]) != crc:
            break
        topic = data[_HEADER.size : _HEADER.size + name_bytes].decode("ascii", "replace")
        records.append(StagedRecord(number, topic, count, defer_ms, position, nbytes))
        position += nbytes
    return records, position


def decode_body(data: bytes) -> bytes | None:
    """The body of the record that `data` is, None when its checksum is wrong."""
    if len(data) < _HEADER.size:
        return None
    _, crc, _, _, _, _, name_bytes = _HEADER.unpack_from(data)
    if google_crc32c.value(data[_CHECKED_FROM:]) != crc:
        return None
    return data[_HEADER.size + name_bytes :]
