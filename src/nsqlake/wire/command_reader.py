"""Bytes from a client become commands, runs of equal commands become one value.

`feed` takes whatever arrived; `next_item` is called until it returns None. A command line comes out as
a `Line`. For commands that carry a body the caller checks the line first and then asks again: the
answer is a `Body` or `Messages`, or a `ClientError` about the body. So errors come in NSQ's order
although nothing here knows the state of the connection.

Two shapes are recognised in bulk because the broker lives on them: repeats of the last PUB or MPUB
line, whose `Messages` come without another `Line`, and runs of FIN lines.
"""

import struct
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nsqlake.wire.errors import ClientError, StreamError

__all__ = ["FIN_LINE_BYTES", "Body", "CommandReader", "FinishRun", "Line", "Messages", "decode_finish_run"]

MAX_LINE_BYTES = 16384  # NSQ protocol, newline included
FIN_LINE_BYTES = 21  # "FIN ", 16 digits, newline
MIN_MPUB_RECORD = 5  # 4-byte size, one byte of body
_SMALL_INPUT = 4096
_BULK_REPEATS = 8
_MAX_CHUNKS = 256

_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")

_NOP_RUN = b"NOP\n" * 64
_JSON_BODIES = (b"IDENTIFY", b"AUTH")
_MESSAGE_BODIES = (b"PUB", b"DPUB")


class Line:
    """One command line, split at single spaces."""

    __slots__ = ("name", "params")

    def __init__(self, name: bytes, params: list[bytes]) -> None:
        self.name, self.params = name, params


class Body:
    """The body of IDENTIFY or AUTH."""

    __slots__ = ("data", "name")

    def __init__(self, name: bytes, data: bytes) -> None:
        self.name, self.data = name, data


class Messages:
    """Size-prefixed records for the topic of the latest `name` line.

    `record_size` is that of every record, or 0 and `starts` holds each one's position and the end.
    `commands` is how many commands were answered by them: an MPUB is one, a run of PUBs as many as messages.
    """

    __slots__ = ("commands", "count", "name", "record_size", "records", "starts")

    def __init__(
        self,
        name: bytes,
        records: bytes,
        count: int,
        record_size: int,
        starts: Sequence[int] | None = None,
        *,
        commands: int = 1,
    ) -> None:
        self.name, self.records, self.count = name, records, count
        self.record_size, self.starts, self.commands = record_size, starts, commands


class FinishRun:
    """Lines of the form `FIN <16 bytes>`, one after the other; the ids themselves are not looked at yet."""

    __slots__ = ("lines",)

    def __init__(self, lines: bytes) -> None:
        self.lines = lines


Item = Line | Body | Messages | FinishRun


class CommandReader:
    """The incremental reader of one connection. Input it keeps is bounded by the declared, checked size."""

    __slots__ = (
        "_awaited",
        "_buffer",
        "_chunks",
        "_held",
        "_max_body_size",
        "_max_msg_size",
        "_mpub_line",
        "_needed",
        "_position",
        "_pub_line",
    )

    def __init__(self, *, max_msg_size: int, max_body_size: int) -> None:
        self._max_msg_size, self._max_body_size = max_msg_size, max_body_size
        self._buffer = b""
        self._position = 0
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 0
        self._awaited: bytes | None = None
        self._pub_line: bytes | None = None
        self._mpub_line: bytes | None = None

    @property
    def pending_bytes(self) -> int:
        """Input that waits for the rest of its command."""
        return self._held if self._needed else len(self._buffer) - self._position

    @property
    def is_amid_command(self) -> bool:
        return self._awaited is not None or self.pending_bytes > 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is at hand or awaited."""
        return not self._needed and self._awaited is None and self._position >= len(self._buffer)

    def feed(self, data: bytes) -> None:
        if self._needed:
            self._chunks.append(data)
            self._held += len(data)
            if self._held < self._needed:
                if len(self._chunks) > _MAX_CHUNKS:
                    self._chunks = [b"".join(self._chunks)]
                return
            data = b"".join(self._chunks)
            self._chunks = []
            self._needed = 0
        elif self._position < len(self._buffer):
            data = self._buffer[self._position :] + data
        self._buffer, self._position = data, 0

    def take_whole(self, data: bytes) -> Item | None:
        """The FIN, or the PUB with the last one's line, that `data` is exactly, if nothing else is at hand.

        Instead of `feed` and `next_item` for what clients with one message at a time send. None: `feed` it.
        """
        if not self.is_empty:
            return None
        size = len(data)
        if size == FIN_LINE_BYTES:
            if data.startswith(b"FIN ") and data[20] == 0x0A:
                return FinishRun(data)
            return None
        line = self._pub_line
        if line is None or not data.startswith(line):
            return None
        begin = len(line)
        size -= begin + 4
        if not 0 < size <= self._max_msg_size or data[begin : begin + 4] != _INT32.pack(size):
            return None
        return Messages(b"PUB", data[begin:], 1, size + 4)

    def next_item(self) -> Item | None:
        """The next command, body or run, or None when more bytes are needed."""
        if self._needed:
            return None
        if self._awaited is not None:
            return self._next_body(self._awaited)
        buffer, position = self._buffer, self._position
        if position >= len(buffer):
            return None
        if buffer.startswith(_NOP_RUN, position):
            return self._skip_nops()
        if buffer.startswith(b"FIN ", position):
            run = self._next_finish_run()
            if run is not None:
                return run
        elif self._pub_line is not None and buffer.startswith(self._pub_line, position):
            repeated = self._next_repeated_pubs(self._pub_line)
            if repeated is not None:
                return repeated
        elif self._mpub_line is not None and buffer.startswith(self._mpub_line, position):
            self._position += len(self._mpub_line)
            self._awaited = b"MPUB"
            return self._next_mpub()
        return self._next_line()

    def _skip_nops(self) -> Line:
        """A flood of NOPs is one NOP."""
        while self._buffer.startswith(_NOP_RUN, self._position):
            self._position += len(_NOP_RUN)
        return Line(b"NOP", [])

    def end_of_input(self) -> ClientError | None:
        """What a client is told whose input ended, or stalled, where a body was expected."""
        name = self._awaited
        if name is None:
            return None
        data = b"".join(self._chunks) if self._needed else self._buffer[self._position :]
        if name == b"MPUB":
            return self._mpub_fault(data)
        code, what = ("E_BAD_MESSAGE", "message body") if name in _MESSAGE_BODIES else ("E_BAD_BODY", "body")
        rest = f"{what} size" if len(data) < _INT32.size else what
        return ClientError(code, f"{name.decode()} failed to read {rest}")

    def _await_bytes(self, needed: int) -> None:
        """Keep what is there until `needed` bytes have come."""
        rest = self._buffer[self._position :]
        self._chunks, self._held, self._needed = [rest], len(rest), needed
        self._buffer, self._position = b"", 0

    def _next_line(self) -> Line | None:
        buffer, position = self._buffer, self._position
        newline = buffer.find(b"\n", position, position + MAX_LINE_BYTES)
        if newline < 0:
            if len(buffer) - position >= MAX_LINE_BYTES:
                raise StreamError("command line too long")
            self._await_bytes(len(buffer) - position + 1)
            return None
        stop = newline - 1 if newline > position and buffer[newline - 1] == 0x0D else newline
        name, *params = buffer[position:stop].split(b" ")
        self._position = newline + 1
        if name == b"PUB":
            self._pub_line = buffer[position : newline + 1]
            self._awaited = name
        elif name == b"MPUB":
            self._mpub_line = buffer[position : newline + 1]
            self._awaited = name
        elif name in _JSON_BODIES or name == b"DPUB":
            self._awaited = name
        return Line(name, params)

    def _next_body(self, name: bytes) -> Item | None:
        if name == b"MPUB":
            return self._next_mpub()
        if name in _MESSAGE_BODIES:
            record = self._sized(name, "E_BAD_MESSAGE", "message ", self._max_msg_size)
            return None if record is None else Messages(name, record, 1, len(record))
        record = self._sized(name, "E_BAD_BODY", "", self._max_body_size)
        return None if record is None else Body(name, record[_INT32.size :])

    def _sized(self, name: bytes, code: str, what: str, limit: int) -> bytes | None:
        """The size-prefixed body at hand, None while it is incomplete."""
        buffer, position = self._buffer, self._position
        available = len(buffer) - position
        if available < _INT32.size:
            self._await_bytes(_INT32.size)
            return None
        (size,) = _INT32.unpack_from(buffer, position)
        if size <= 0:
            raise ClientError(code, f"{name.decode()} invalid {what}body size {size}")
        if size > limit:
            too_big = "message too big" if what else "body too big"
            raise ClientError(code, f"{name.decode()} {too_big} {size} > {limit}")
        if available < _INT32.size + size:
            self._await_bytes(_INT32.size + size)
            return None
        stop = position + _INT32.size + size
        self._position = stop
        self._awaited = None
        return buffer[position:stop]

    # Runs of PUB ------------------------------------------------------------------------------------

    def _next_repeated_pubs(self, line: bytes) -> Messages | None:
        """Every complete PUB at hand that repeats the last one's line; None if not even one is complete."""
        buffer, position, skip = self._buffer, self._position, len(line)
        end = len(buffer)
        records: list[bytes] = []
        lengths = 0
        while buffer.startswith(line, position):
            begin = position + skip
            if begin + 4 > end:
                break
            (size,) = _INT32.unpack_from(buffer, begin)
            stop = begin + 4 + size
            if stop > end or not 0 < size <= self._max_msg_size:
                break
            unit = skip + 4 + size
            if not records and end - position >= _BULK_REPEATS * unit:
                equal = self._equal_pubs(position, unit, skip)
                if equal is not None:
                    return equal
            records.append(buffer[begin:stop])
            lengths |= size ^ (len(records[0]) - 4)
            position = stop
        if not records:
            return None
        self._position = position
        count = len(records)
        if not lengths:
            joined = records[0] if count == 1 else b"".join(records)
            return Messages(b"PUB", joined, count, len(records[0]), commands=count)
        starts = [0]
        for record in records:
            starts.append(starts[-1] + len(record))
        return Messages(b"PUB", b"".join(records), count, 0, starts, commands=count)

    def _equal_pubs(self, position: int, unit: int, skip: int) -> Messages | None:
        """The run of PUBs of one size that begins here, cut out without a loop; None if it is short."""
        count = (len(self._buffer) - position) // unit
        table: npt.NDArray[Any] = np.frombuffer(self._buffer, np.uint8, count * unit, position)
        table = table.reshape(count, unit)
        heads = table[:, : skip + 4]
        different = (heads != heads[0]).any(axis=1)
        if different.any():
            count = int(different.argmax())
            if count < _BULK_REPEATS:
                return None
        records = table[:count, skip:].tobytes()
        self._position = position + count * unit
        return Messages(b"PUB", records, count, unit - skip, commands=count)

    # MPUB -------------------------------------------------------------------------------------------

    def _next_mpub(self) -> Messages | None:
        buffer, position = self._buffer, self._position
        available = len(buffer) - position
        if available < 8:
            if available >= 4:
                self._check_mpub_size(_INT32.unpack_from(buffer, position)[0])
            self._await_bytes(8 if available >= 4 else 4)
            return None
        size, count = struct.unpack_from(">ii", buffer, position)
        self._check_mpub_size(size)
        self._check_mpub_count(count)
        if available < 4 + size:
            if available <= _SMALL_INPUT:
                self._check_partial_mpub(buffer[position:])
            self._await_bytes(4 + size)
            return None
        stop = position + 4 + size
        messages = self._cut_mpub(position + 8, stop, count)
        if messages is None:
            raise self._mpub_fault(buffer[position:stop])
        self._position = stop
        self._awaited = None
        return messages

    def _check_mpub_size(self, size: int) -> None:
        if size <= 0:
            raise ClientError("E_BAD_BODY", f"MPUB invalid body size {size}")
        if size > self._max_body_size:
            raise ClientError("E_BAD_BODY", f"MPUB body too big {size} > {self._max_body_size}")

    def _check_mpub_count(self, count: int) -> None:
        if count <= 0 or count > (self._max_body_size - 4) // MIN_MPUB_RECORD:
            raise ClientError("E_BAD_BODY", f"MPUB invalid message count {count}")

    def _check_partial_mpub(self, data: bytes) -> None:
        """Report a wrong size at once although the rest of the body may never come."""
        fault = self._mpub_fault(data)
        if "failed to read" not in fault.description:
            raise fault

    def _cut_mpub(self, begin: int, stop: int, count: int) -> Messages | None:
        """The records between `begin` and `stop`, None if they are not exactly `count` sound ones."""
        buffer = self._buffer
        if stop - begin < MIN_MPUB_RECORD * count:
            return None
        (size,) = _UINT32.unpack_from(buffer, begin)
        unit = size + 4
        if unit * count == stop - begin and self._are_sizes_equal(begin, stop, unit, count):
            return (
                Messages(b"MPUB", buffer[begin:stop], count, unit) if 0 < size <= self._max_msg_size else None
            )
        records = buffer[begin:stop]
        starts = self._record_starts(records, count)
        return None if starts is None else Messages(b"MPUB", records, count, 0, starts)

    def _are_sizes_equal(self, begin: int, stop: int, unit: int, count: int) -> bool:
        buffer = self._buffer
        return all(
            buffer[begin + byte : stop : unit] == buffer[begin + byte : begin + byte + 1] * count
            for byte in range(4)
        )

    def _record_starts(self, records: bytes, count: int) -> "array[int] | None":
        """Positions of the records and the end of the last; the one loop per message of publishing.

        As an array, a tenth of a list of numbers: it stays with the block for as long as that is in memory.
        """
        unpack, limit = _UINT32.unpack_from, self._max_msg_size
        starts = [0] * (count + 1)
        at = 0
        try:
            for number in range(1, count + 1):
                (size,) = unpack(records, at)
                if not size or size > limit:
                    return None
                starts[number] = at = at + size + 4
        except struct.error:
            return None
        return array("I", starts) if at == len(records) else None

    def _mpub_fault(self, data: bytes) -> ClientError:
        """Walk an MPUB body that is incomplete or wrong and name the first fault, as NSQ's reader would."""
        if len(data) < 4:
            return ClientError("E_BAD_BODY", "MPUB failed to read body size")
        if len(data) < 8:
            return ClientError("E_BAD_BODY", "MPUB failed to read message count")
        declared, count = struct.unpack_from(">ii", data)
        body = data[8 : 4 + declared]
        at = 0
        for number in range(count):
            if len(body) - at < 4:
                return ClientError("E_BAD_MESSAGE", f"MPUB failed to read message({number}) body size")
            (size,) = _INT32.unpack_from(body, at)
            if size <= 0:
                return ClientError("E_BAD_MESSAGE", f"MPUB invalid message({number}) body size {size}")
            if size > self._max_msg_size:
                return ClientError("E_BAD_MESSAGE", f"MPUB message too big {size} > {self._max_msg_size}")
            at += 4 + size
            if at > len(body):
                return ClientError("E_BAD_MESSAGE", "MPUB failed to read message body")
        return ClientError("E_BAD_BODY", f"MPUB body size {declared} does not match its messages")

    # Runs of FIN ------------------------------------------------------------------------------------

    def _next_finish_run(self) -> FinishRun | None:
        """The FIN lines of regular shape at hand; None if the first is incomplete or of another shape."""
        buffer, position = self._buffer, self._position
        count = (len(buffer) - position) // FIN_LINE_BYTES
        if count == 0:
            return None
        if count > 1:
            count = self._regular_fins(position, count)
        elif buffer[position + FIN_LINE_BYTES - 1] != 0x0A:
            count = 0
        if count == 0:
            return None
        stop = position + count * FIN_LINE_BYTES
        self._position = stop
        return FinishRun(buffer if position == 0 and stop == len(buffer) else buffer[position:stop])

    def _regular_fins(self, position: int, count: int) -> int:
        buffer, stop = self._buffer, position + count * FIN_LINE_BYTES
        if all(
            buffer[position + at : stop : FIN_LINE_BYTES] == expected * count
            for at, expected in ((0, b"F"), (1, b"I"), (2, b"N"), (3, b" "), (20, b"\n"))
        ):
            return count
        table: npt.NDArray[Any] = np.frombuffer(buffer, np.uint8, stop - position, position)
        table = table.reshape(count, FIN_LINE_BYTES)
        regular = (table[:, :4] == np.frombuffer(b"FIN ", np.uint8)).all(axis=1) & (table[:, 20] == 0x0A)
        return count if regular.all() else int(regular.argmin())


_HEX_VALUE: npt.NDArray[np.uint8] = np.full(256, 255, np.uint8)
_HEX_VALUE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16, dtype=np.uint8)


def decode_finish_run(lines: bytes) -> npt.NDArray[np.uint64] | None:
    """The ids of a `FinishRun` as integers, or None if any is not 16 lower-case hex digits."""
    table: npt.NDArray[Any] = np.frombuffer(lines, np.uint8).reshape(-1, FIN_LINE_BYTES)
    digits = _HEX_VALUE[table[:, 4:20]]
    if (digits > 15).any():
        return None
    # Pairs of digits make bytes; eight big-endian bytes are one integer.
    pairs = (digits[:, 0::2] << 4) | digits[:, 1::2]
    return np.ascontiguousarray(pairs).view(">u8").reshape(-1).astype(np.uint64)
