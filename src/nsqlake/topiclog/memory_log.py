"""A log that lives in memory only, behind the interface of `TopicLog`: for #ephemeral topics."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from nsqlake.topiclog.block import Span
from nsqlake.topiclog.damage import Damage
from nsqlake.topiclog.errors import LogClosedError
from nsqlake.topiclog.options import LogOptions
from nsqlake.topiclog.raw_blocks import RawBlocks, encode_span
from nsqlake.topiclog.sync_job import SyncJob
from nsqlake.topiclog.tail_cache import TailCache

__all__ = ["MemoryLog"]


class MemoryLog:
    """Bounded by messages and bytes: when it is full the oldest span goes, and `dropped` counts it."""

    failed: str | None = None
    dirty_messages = 0
    nbytes = 0
    segment_count = 0
    damaged_blocks = 0
    damaged_messages = 0

    def __init__(self, *, uuid: bytes, first_offset: int, options: LogOptions) -> None:
        self.path = ""
        self.uuid = uuid
        self.salt = 0
        self.epoch = 1
        self.next = first_offset
        self.dropped = 0
        self._tail = TailCache(options.mem_messages, options.mem_bytes)
        self._due: deque[tuple[int, int, int]] = deque()
        self._tags: deque[tuple[int, int, bytes]] = deque()
        self._is_closed = False

    @property
    def first(self) -> int:
        first = self._tail.first
        return self.next if first is None else first

    @property
    def oldest(self) -> int:
        return self.first

    @property
    def memory_first(self) -> int:
        return self.first

    @property
    def synced(self) -> int:
        """As durable as it gets."""
        return self.next

    @property
    def memory_bytes(self) -> int:
        return self._tail.nbytes

    def append(
        self,
        records: bytes,
        count: int,
        *,
        timestamp_ns: int,
        record_size: int = 0,
        starts: Sequence[int] | None = None,
        due_ns: int = 0,
        tag: bytes = b"",
    ) -> int:
        """Keep the records as one span and return the offset of the first."""
        if self._is_closed:
            raise LogClosedError(self.path)
        base = self.next
        self.next = base + count
        span = Span(base, count, record_size, records, 0, record_size, starts, timestamp_ns, due_ns)
        self.dropped += self._tail.add(span)
        if due_ns:
            while self._due and self._due[0][0] < self.first:
                self._due.popleft()
            self._due.append((base, count, due_ns))
        if tag:
            while self._tags and self._tags[0][0] < self.first:
                self._tags.popleft()
            self._tags.append((base, count, tag))
        return base

    def append_one(self, record: bytes, timestamp_ns: int) -> int:
        return self.append(record, 1, timestamp_ns=timestamp_ns, record_size=len(record))

    def read(self, offset: int) -> Span | None:
        """The span that holds the first message at or after `offset`, None when there is none."""
        if self._is_closed:
            raise LogClosedError(self.path)
        return self._tail.find(offset)

    def read_block(self, offset: int) -> Span | None:
        """The one message at `offset` with the rest of its block."""
        span = self.read(offset)
        return span if span is not None and span.base <= offset else None

    def raw_blocks(self, offset: int, max_bytes: int, *, verified: bool = False) -> RawBlocks:
        """Whole blocks, encoded as a file would hold them, from the one that holds `offset` on."""
        blocks, encoded = RawBlocks(offset), list[bytes]()
        while (span := self.read(blocks.next)) is not None:
            block = encode_span(span, self.salt)
            max_bytes -= len(block)
            if encoded and max_bytes < 0:
                break
            blocks.base = span.base if not encoded else blocks.base
            blocks.next = span.end
            encoded.append(block)
        blocks.data = b"".join(encoded)
        return blocks

    def is_whole_since(self, origin: int) -> bool:
        """Whether nothing was ever removed from the beginning of a log that had this `origin`."""
        return self.first <= origin

    @property
    def origin(self) -> int:
        """What `is_whole_since` takes for the beginning of a log that holds nothing yet."""
        return self.next

    def tags(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """(base, count, tag) of the blocks in [start, stop) that have a tag."""
        start = max(start, self.first)
        return iter([block for block in self._tags if block[0] + block[1] > start and block[0] < stop])

    def count(self, start: int, stop: int) -> int:
        """How many messages of [start, stop) the log holds."""
        return max(min(stop, self.next) - max(start, self.first), 0)

    def due_blocks(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """(base, count, due_ns) of the blocks in [start, stop) that wait for a time."""
        start = max(start, self.first)
        return [block for block in self._due if block[0] + block[1] > start and block[0] < stop]

    def offset_at(self, timestamp_ns: int) -> int:
        """The first offset of `timestamp_ns` or later; `next` when all are older."""
        offset = self.first
        while (span := self._tail.find(offset)) is not None:
            if span.timestamp(0) >= timestamp_ns:
                return span.base
            offset = span.end
        return self.next

    def size_marks(self, start: int, stop: int, step_bytes: int, most: int) -> list[tuple[int, int, int]]:
        """As a log on disk has them; a memory log is small, so there is one mark only, at the end."""
        nbytes = 0
        at = max(start, self.first)
        while at < stop and (span := self._tail.find(at)) is not None:
            nbytes += span.nbytes
            at = span.end
        return [(stop, nbytes, self.count(start, stop))]

    def take_damage(self) -> list[Damage]:
        return []

    def trim_memory(self, passed: int) -> None:
        """Nothing: what is in memory is all there is; `retire` says what may go."""

    def begin_sync(self) -> SyncJob | None:
        return None

    def end_sync(self, job: SyncJob, error: OSError | None) -> None:
        raise AssertionError("a memory log has no sync jobs")

    def retire(
        self, needed: Callable[[int, int], bool], *, keep_bytes: int = 0, keep_after_ns: int | None = None
    ) -> list[str]:
        """Let go of the oldest spans up to the first that is needed; memory retains nothing beyond."""
        while (first := self._tail.first) is not None:
            span = self._tail.find(first)
            assert span is not None
            if needed(span.base, span.end):
                break
            self._tail.drop_first()
        return []

    def close(self) -> None:
        self._is_closed = True
        self._tail.clear()

    def delete(self) -> None:
        self.close()
