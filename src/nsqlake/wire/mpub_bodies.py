"""The bodies of HTTP's `/mpub`: lines of text, or a count and sized messages. Records come out in bulk."""

import struct
from collections.abc import Sequence
from itertools import accumulate, chain

from nsqlake.wire.command_reader import MIN_MPUB_RECORD, Messages
from nsqlake.wire.errors import ClientError

__all__ = ["MessageTooBigError", "decode_binary", "decode_lines"]

_INT32 = struct.Struct(">i")
_SIZE_BYTES = 4


class MessageTooBigError(ClientError):
    """A line is longer than a message may be."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("E_BAD_MESSAGE", f"MPUB message too big {size} > {limit}")
        self.size, self.limit = size, limit


def decode_lines(body: bytes, *, max_msg_size: int) -> Messages | None:
    """One message per line that is not empty, None if all are; a carriage return is part of its line."""
    equal = _equal_lines(body, max_msg_size)
    if equal is not None:
        return equal
    bodies = list(filter(None, body.split(b"\n")))
    if not bodies:
        return None
    sizes = list(map(len, bodies))
    longest = max(sizes)
    if longest > max_msg_size:
        raise MessageTooBigError(longest, max_msg_size)
    if longest == min(sizes):
        size = _INT32.pack(longest)
        return Messages(b"MPUB", size + size.join(bodies), len(bodies), _SIZE_BYTES + longest)
    records = b"".join(chain.from_iterable(zip(map(_INT32.pack, sizes), bodies, strict=True)))
    starts = list(accumulate(map(_SIZE_BYTES.__add__, sizes), initial=0))
    return Messages(b"MPUB", records, len(bodies), 0, starts)


def _equal_lines(body: bytes, max_msg_size: int) -> Messages | None:
    """The records if all lines have one size: seen, and made, in half the time that cutting them takes."""
    size = body.find(b"\n")
    if not 0 < size <= max_msg_size:
        return None
    lines = body[:-1] if body.endswith(b"\n") else body
    count, rest = divmod(len(lines) + 1, size + 1)
    if rest or lines[size :: size + 1] != b"\n" * (count - 1):
        return None
    prefix = _INT32.pack(size)
    records = prefix + lines.replace(b"\n", prefix)
    if len(records) != count * (_SIZE_BYTES + size):
        return None  # a line break within what would be a line
    return Messages(b"MPUB", records, count, _SIZE_BYTES + size)


def decode_binary(body: bytes, *, max_msg_size: int, max_body_size: int) -> Messages:
    """A 4-byte count and that many sized messages; what follows them is ignored, as NSQ does."""
    if len(body) < _INT32.size:
        raise ClientError("E_BAD_BODY", "MPUB failed to read message count")
    (count,) = _INT32.unpack_from(body)
    if not 0 < count <= (max_body_size - _INT32.size) // MIN_MPUB_RECORD:
        raise ClientError("E_BAD_BODY", f"MPUB invalid message count {count}")
    equal = _equal_records(body, count, max_msg_size)
    if equal is not None:
        return equal
    starts = _record_starts(body, count, max_msg_size)
    return Messages(b"MPUB", body[_INT32.size : _INT32.size + starts[-1]], count, 0, starts)


def _equal_records(body: bytes, count: int, max_msg_size: int) -> Messages | None:
    """The records if all have one size, which is seen without looking at each."""
    begin = _INT32.size
    if len(body) < begin + _SIZE_BYTES:
        return None
    (size,) = _INT32.unpack_from(body, begin)
    unit = _SIZE_BYTES + size
    stop = begin + unit * count
    if not 0 < size <= max_msg_size or stop > len(body):
        return None
    for at in range(begin, begin + _SIZE_BYTES):
        if body[at:stop:unit] != body[at : at + 1] * count:
            return None
    return Messages(b"MPUB", body[begin:stop], count, unit)


def _record_starts(body: bytes, count: int, max_msg_size: int) -> Sequence[int]:
    """Where each record begins and the last ends, counted from the first."""
    begin, end = _INT32.size, len(body)
    starts = [0]
    at = begin
    for number in range(count):
        if end - at < _SIZE_BYTES:
            raise ClientError("E_BAD_MESSAGE", f"MPUB failed to read message({number}) body size")
        (size,) = _INT32.unpack_from(body, at)
        if size <= 0:
            raise ClientError("E_BAD_MESSAGE", f"MPUB invalid message({number}) body size {size}")
        if size > max_msg_size:
            raise ClientError("E_BAD_MESSAGE", f"MPUB message too big {size} > {max_msg_size}")
        at += _SIZE_BYTES + size
        if at > end:
            raise ClientError("E_BAD_MESSAGE", "MPUB failed to read message body")
        starts.append(at - begin)
    return starts
