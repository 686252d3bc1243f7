"""Cuts received bytes into frames in bulk, fast enough that the broker stays the limit.

Three ways, each picking up where the one before stopped:

* stride: when every whole frame has the size of the first, their starts are an arithmetic series;
* scan: otherwise the type field of a message is searched everywhere at once, and the candidates must
  form an unbroken chain, each beginning where the size of the one before says;
* walk: what is left, one frame after the other: heartbeats and responses, and bodies that fooled the scan.

A message frame: size 4, type 4 (= 2), timestamp 8, attempts 2, id 16, body.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.load.commands import INT32
from bench.load.errors import LoadError

HEADER_BYTES = 8
ID_POSITION = HEADER_BYTES + 10
ID_BYTES = 16
BODY_POSITION = ID_POSITION + ID_BYTES
MIN_MESSAGE_BYTES = BODY_POSITION + 1
HEARTBEAT = b"_heartbeat_"

RESPONSE, ERROR, MESSAGE = 0, 1, 2
# As little-endian machines see the four type bytes 00 00 00 02.
MESSAGE_TYPE_FIELD = int.from_bytes(INT32.pack(MESSAGE), "little")
# Below this the fixed cost of numpy calls is more than a loop's.
WORTH_SCANNING_BYTES = 4096

Starts = npt.NDArray[np.int64]


@dataclass(slots=True)
class Cut:
    """Where messages start, how many bytes were whole frames, and what else was among them."""

    starts: Starts
    consumed: int
    responses: list[bytes] = field(default_factory=list)
    heartbeats: int = 0


class FrameCutter:
    """Views one receive buffer; `cut` looks at its first `filled` bytes."""

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._bytes = np.frombuffer(buffer, dtype=np.uint8)
        self._words = np.ndarray((len(buffer) - 3,), dtype="<u4", buffer=buffer, strides=(1,))
        self._ids = np.ndarray((len(buffer) - ID_BYTES + 1,), dtype="V16", buffer=buffer, strides=(1,))
        self._stamps = np.ndarray((len(buffer) - 7,), dtype=">i8", buffer=buffer, strides=(1,))

    def ids(self, starts: Starts) -> npt.NDArray[np.void]:
        return self._ids[starts + ID_POSITION]

    def body_stamps(self, starts: Starts) -> Starts:
        """The first eight bytes of each body as an integer."""
        return self._stamps[starts + BODY_POSITION].astype(np.int64)

    def cut(self, filled: int) -> Cut:
        if filled < WORTH_SCANNING_BYTES:
            return self._walk(Cut(np.empty(0, np.int64), 0), filled)
        starts = self._stride(filled)
        if starts is None:
            starts = self._scan(filled)
        return self._walk(Cut(starts, self._end_of(starts)), filled)

    def _end_of(self, starts: Starts) -> int:
        if not len(starts):
            return 0
        last = int(starts[-1])
        return last + 4 + int(INT32.unpack_from(self._buffer, last)[0])

    def _stride(self, filled: int) -> Starts | None:
        stride = 4 + int(INT32.unpack_from(self._buffer)[0])
        count = filled // stride
        if count == 0:
            return None
        heads = np.ndarray((count,), dtype="<u8", buffer=self._buffer, strides=(stride,))
        if self._words[4] != MESSAGE_TYPE_FIELD or not (heads == heads[0]).all():
            return None
        return np.arange(0, count * stride, stride, dtype=np.int64)

    def _scan(self, filled: int) -> Starts:
        starts: Starts = np.flatnonzero(self._bytes[HEADER_BYTES - 1 : filled] == MESSAGE)
        starts = starts[self._words[starts + 4] == MESSAGE_TYPE_FIELD]
        ends = starts + 4 + self._words[starts].byteswap().astype(np.int64)
        chained = np.empty(len(starts), dtype=np.bool_)
        chained[:1] = starts[:1] == 0
        chained[1:] = starts[1:] == ends[:-1]
        chained &= ends <= filled
        return starts if chained.all() else starts[: int(chained.argmin())]

    def _walk(self, cut: Cut, filled: int) -> Cut:
        position, found = cut.consumed, []
        while filled - position >= HEADER_BYTES:
            end = position + 4 + INT32.unpack_from(self._buffer, position)[0]
            if end > filled:
                break
            if self._buffer[position + 7] == MESSAGE:
                found.append(position)
            else:
                self._note(cut, position, end)
            position = end
        cut.consumed = position
        if found:
            cut.starts = np.concatenate((cut.starts, np.array(found, dtype=np.int64)))
        return cut

    def _note(self, cut: Cut, start: int, end: int) -> None:
        data = bytes(self._buffer[start + HEADER_BYTES : end])
        if self._buffer[start + 7] == ERROR:
            raise LoadError(data.decode(errors="backslashreplace"))
        if data == HEARTBEAT:
            cut.heartbeats += 1
        else:
            cut.responses.append(data)
