"""The journal of a channel: what became of its messages, entry by entry, and how to read it back.

Entries of 25 bytes, all integers big-endian:

    | kind 1 | a 8 | b 8 | c 8 |

    RESET    cursor, absorbed, -       forget everything else: the first entry of a snapshot, empty, seek
    DELIVER  first, count, -           a fresh run went out; the cursor is behind it
    ATTEMPT  offset, attempts, -       a waiting message went out again
    WAIT     offset, attempts, due_ns  the message waits: requeued (due 0) or deferred
    HOLD     first, count, attempts    a snapshot's run of messages that were out
    FINISH   first, count, -           a run is done
    ABSORB   base, count, due_ns       a block published with a delay is deferred from here on
    COMMIT   offset, -, -              everything below is done, the cursor is there or beyond

The entries of one turn form a batch: `length 4 | crc32c 4 | entries`. A journal file begins with a
snapshot, so any generation that can be read stands alone; a batch that fails its checksum ends the
reading, and what it said happens again: messages come twice, none is lost.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum

import google_crc32c

__all__ = [
    "JOURNAL_MAGIC",
    "Entry",
    "Kind",
    "PendingEntries",
    "decode_journal",
    "encode_batch",
    "intact_bytes",
]

JOURNAL_MAGIC = b"NQJ1"
_BATCH = struct.Struct(">II")
_ENTRY = struct.Struct(">BQQQ")

Entry = tuple[int, int, int, int]


class Kind(IntEnum):
    RESET = 1
    DELIVER = 2
    ATTEMPT = 3
    WAIT = 4
    HOLD = 5
    FINISH = 6
    ABSORB = 7
    COMMIT = 8


def encode_batch(entries: list[Entry], salt: int) -> bytes:
    payload = b"".join([_ENTRY.pack(*entry) for entry in entries])
    return _BATCH.pack(len(payload), google_crc32c.extend(salt, payload)) + payload


def decode_journal(data: bytes, salt: int) -> Iterator[Entry]:
    """The entries of a journal file up to the first batch that is damaged or incomplete."""
    for payload, _ in _batches(data, salt):
        yield from _ENTRY.iter_unpack(payload)


def intact_bytes(data: bytes, salt: int) -> int:
    """Where the last batch that `decode_journal` reads ends."""
    return max((end for _, end in _batches(data, salt)), default=0)


def _batches(data: bytes, salt: int) -> Iterator[tuple[bytes, int]]:
    if not data.startswith(JOURNAL_MAGIC):
        return
    position = len(JOURNAL_MAGIC)
    while position + _BATCH.size <= len(data):
        length, crc = _BATCH.unpack_from(data, position)
        position += _BATCH.size
        payload = data[position : position + length]
        if len(payload) != length or length % _ENTRY.size or google_crc32c.extend(salt, payload) != crc:
            return
        position += length
        yield payload, position


class PendingEntries:
    """What happened since the last batch, kept as few entries as will do.

    Fresh deliveries come first in a batch, finishes and the commit last: a message is delivered fresh once,
    before anything else happens to it, and nothing happens to it after it is finished or committed.
    """

    __slots__ = (
        "_committed",
        "_delivered",
        "_delivering_from",
        "_delivering_to",
        "_finished",
        "_finishing_from",
        "_finishing_to",
        "_others",
    )

    _delivering_to: int
    _finishing_to: int
    _committed: int

    def __init__(self) -> None:
        self.clear()

    def __bool__(self) -> bool:
        return bool(
            self._delivering_to
            or self._finishing_to
            or self._others
            or self._delivered
            or self._finished
            or self._committed
        )

    @property
    def is_urgent(self) -> bool:
        """Whether more than deliveries and finishes wait: those may be repeated, a delay must not be lost."""
        return bool(self._others)

    def deliver(self, first: int, count: int) -> None:
        if first != self._delivering_to:
            self._end_delivering()
            self._delivering_from = first
        self._delivering_to = first + count

    def finish(self, first: int, count: int) -> None:
        if first != self._finishing_to:
            self._end_finishing()
            self._finishing_from = first
        self._finishing_to = first + count

    def _end_delivering(self) -> None:
        if self._delivering_to:
            count = self._delivering_to - self._delivering_from
            self._delivered.append((Kind.DELIVER, self._delivering_from, count, 0))

    def _end_finishing(self) -> None:
        if self._finishing_to:
            count = self._finishing_to - self._finishing_from
            self._finished.append((Kind.FINISH, self._finishing_from, count, 0))

    def attempt(self, offset: int, attempts: int) -> None:
        self._others.append((Kind.ATTEMPT, offset, attempts, 0))

    def wait(self, offset: int, attempts: int, due_ns: int) -> None:
        self._others.append((Kind.WAIT, offset, attempts, due_ns))

    def absorb(self, base: int, count: int, due_ns: int) -> None:
        self._others.append((Kind.ABSORB, base, count, due_ns))

    def commit(self, offset: int) -> None:
        self._committed = max(self._committed, offset)

    def reset(self, cursor: int, absorbed: int) -> None:
        self.clear()
        self._delivered.append((Kind.RESET, cursor, absorbed, 0))

    def clear(self) -> None:
        self._delivered: list[Entry] = []
        self._others: list[Entry] = []
        self._finished: list[Entry] = []
        # The runs that may yet grow; 0 when there is none.
        self._delivering_from = self._delivering_to = 0
        self._finishing_from = self._finishing_to = 0
        self._committed = 0

    def take(self) -> list[Entry]:
        self._end_delivering()
        self._end_finishing()
        entries = self._delivered + self._others + self._finished
        if self._committed:
            entries.append((Kind.COMMIT, self._committed, 0, 0))
        self.clear()
        return entries
