"""The log of one topic: append-only blocks in segments, one writer, no clock and no loop.

Everything is called on one thread, except `SyncJob.run` and, when nobody uses the log any more, `close`.
A block is in the page cache when `append` returns, so it survives a crash of the process; it survives a crash
of the machine once a sync that began later has ended.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from nsqlake.topiclog.block import BLOCK_HEADER, Span, encode_block, encode_single_head
from nsqlake.topiclog.damage import Damage, DamageCounter
from nsqlake.topiclog.errors import LogClosedError, LogOpenError, ReadError, SyncError, describe
from nsqlake.topiclog.files import OS_FILES, Files
from nsqlake.topiclog.identity import Identity
from nsqlake.topiclog.options import LogOptions
from nsqlake.topiclog.raw_blocks import RawBlocks, find_raw_blocks
from nsqlake.topiclog.reader import SegmentReader
from nsqlake.topiclog.recovery import Recovered, RecoveryReport, recover
from nsqlake.topiclog.retention import RetentionPolicy
from nsqlake.topiclog.segment import EPOCH_JUMP, Segment, index_path
from nsqlake.topiclog.segment_list import SegmentList
from nsqlake.topiclog.size_marks import size_marks
from nsqlake.topiclog.sync_job import SyncJob, SyncState, write_index
from nsqlake.topiclog.tail_cache import TailCache
from nsqlake.topiclog.writer import SegmentWriter

__all__ = ["TopicLog"]


class TopicLog:
    """Offsets only increase; what was appended is read back as it was or not at all."""

    def __init__(
        self, path: str, files: Files, found: Recovered, identity: Identity, next_: int, options: LogOptions
    ) -> None:
        """Use `open`."""
        self.path = path
        self.end = next_  # the offset the next message gets
        self.next = next_  # where readers have to stop: `end`, or less while something is held back
        self.is_held = False
        self._files = files
        self._identity = identity
        self._segments = SegmentList(files, found.segments, next_)
        self._damage = DamageCounter()
        self._tail = TailCache(options.mem_messages, options.mem_bytes, merges=True)
        is_unclean = found.report.is_unclean
        self._sync = SyncState(files, path, synced=self.oldest if is_unclean else next_)
        self._sync.closed.extend(found.unsynced)
        self._sync.directory_changed = is_unclean
        self._sync.anchor = found.segments[-1].base if found.segments else None
        self._reader = SegmentReader(files, identity.salt, self._segments, self._damage)
        self._writer = SegmentWriter(files, path, self._segments, self._sync, identity, options)
        self._is_closed = self._is_deleted = False
        self._oldest_of: tuple[Segment, int] | None = None  # the active segment's first timestamp

    @classmethod
    def open(
        cls,
        path: str,
        *,
        options: LogOptions,
        first_offset: int,
        clean: bool,
        new_identity: tuple[bytes, int],
        given_out: int = 0,
        files: Files = OS_FILES,
    ) -> tuple["TopicLog", RecoveryReport]:
        """Open or make the log in directory `path`.

        `first_offset` and `new_identity` (UUID and salt) are for a new log. Unless the last stop was `clean`,
        the next offset jumps and a new epoch begins, so that no offset is ever given out twice. Others may
        know better how far that went: below `given_out` nothing is given out again, whatever the files say.
        """
        try:
            if not files.exists(path):
                files.mkdir(path)
                files.sync_dir(os.path.dirname(path) or ".")
            found = recover(files, path, clean=clean)
        except OSError as error:
            raise LogOpenError(path, error) from error
        report = found.report
        report.is_new = found.identity is None
        goes_on = clean and found.ends_whole and not report.is_new and given_out <= found.next
        report.is_unclean = not (report.is_new or goes_on)
        next_ = found.next if found.segments else max(found.next, first_offset)
        if given_out > next_:
            report.note_missing(next_, given_out)
            next_ = given_out
        if report.is_unclean:
            next_ += EPOCH_JUMP
        identity = found.identity or Identity(*new_identity, epoch=0, floor=0)
        if not goes_on:
            identity = Identity(identity.uuid, identity.salt, identity.epoch + 1, next_)
        log = cls(path, files, found, identity, next_, options)
        if goes_on and found.segments and found.segments[-1].epoch == identity.epoch:
            log._writer.continue_with(found.segments[-1])
        if (not goes_on or report.rebuilt_identity) and log._writer.save_identity() and not goes_on:
            log._sync.anchor = None  # the new floor tells as much
        return log, report

    @property
    def uuid(self) -> bytes:
        return self._identity.uuid

    @property
    def salt(self) -> int:
        """What the checksum of every block begins with."""
        return self._identity.salt

    @property
    def epoch(self) -> int:
        """Rises with every unclean stop; recorded in every segment."""
        return self._identity.epoch

    @property
    def first(self) -> int:
        """Where the contiguous rest of the log begins; an older, pinned segment does not count."""
        first = self._segments.first
        return self.next if first is None else first

    @property
    def oldest(self) -> int:
        """The lowest offset that may be read, in a pinned segment or not."""
        oldest = self._segments.oldest
        return self.next if oldest is None else oldest

    @property
    def memory_first(self) -> int:
        """From this offset on everything is in memory."""
        first = self._tail.first
        return self.next if first is None else first

    @property
    def synced(self) -> int:
        """Every message below this offset survives a crash of the machine."""
        return self._sync.synced

    @property
    def dirty_messages(self) -> int:
        """Messages appended since the last sync began."""
        return self._sync.dirty_messages

    @property
    def needs_sync(self) -> bool:
        """Whether messages or files have come or gone since the last sync began."""
        return self._sync.is_needed

    @property
    def failed(self) -> str | None:
        """Why the log takes no more messages until it is opened again; None while it does."""
        return self._writer.failed

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._segments.nbytes

    @property
    def segment_count(self) -> int:
        """Files, those that were cut down to their header not counted."""
        return sum(not segment.is_empty for segment in self._segments.all)

    @property
    def memory_bytes(self) -> int:
        """Bytes held in memory: the newest blocks and what was read back last."""
        return self._tail.nbytes + self._reader.nbytes

    @property
    def damaged_blocks(self) -> int:
        """Blocks found damaged while reading since the log was opened."""
        return self._damage.blocks

    @property
    def damaged_messages(self) -> int:
        return self._damage.messages

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
        """Write `count` size-prefixed records as one block and return the offset of the first.

        Either all records have `record_size`, or `starts` has their positions and the end of the last.
        `tag` is kept with the block, for `tags` to find.
        Raises `AppendError` when nothing was appended.
        """
        if self._is_closed:
            raise LogClosedError(self.path)
        base = self.end
        head, written = encode_block(
            records,
            count,
            base=base,
            salt=self._identity.salt,
            timestamp_ns=timestamp_ns,
            record_size=record_size,
            starts=starts,
            due_ns=due_ns,
            tag=tag,
        )
        segment, position = self._writer.append(head, written, base)
        segment.index.add(base, position, count, timestamp_ns, due_ns)
        self.end = base + count
        if not self.is_held:
            self.next = self.end
        self._sync.dirty_messages += count
        self._tail.add(Span(base, count, record_size, records, 0, record_size, starts, timestamp_ns, due_ns))
        return base

    def append_one(self, record: bytes, timestamp_ns: int) -> int:
        """`append` of a single record without the detours: what one publisher alone waits for."""
        active = self._segments.active
        size = BLOCK_HEADER.size + len(record)
        if self._is_closed or active is None or not self._writer.has_room(active, size):
            return self.append(record, 1, timestamp_ns=timestamp_ns, record_size=len(record))
        base = self.end
        head = encode_single_head(record, base, self._identity.salt, timestamp_ns)
        position = active.size
        self._writer.write(active, head, record, size)
        active.index.add(base, position, 1, timestamp_ns, 0)
        self.end = base + 1
        if not self.is_held:
            self.next = base + 1
        self._sync.dirty_messages += 1
        self._tail.add(Span(base, 1, len(record), record, 0, len(record), None, timestamp_ns))
        return base

    def hold(self, offset: int) -> None:
        """What lies at or behind `offset`, and what is appended, is for nobody's eyes until `release`.

        There is something: so whoever appends sees by its offset that it is not the next one to be read.
        """
        assert offset < self.end
        self.is_held = True
        self.next = min(self.next, offset)

    def release(self) -> None:
        """Let readers see, all at once, what was held back."""
        self.is_held = False
        self.next = self.end

    def read(self, offset: int) -> Span | None:
        """The span that holds the first message at or after `offset`, None when there is none."""
        if self._is_closed:
            raise LogClosedError(self.path)
        if offset >= self.next:
            return None
        first = self._tail.first
        if first is None or offset < first:
            offset = max(offset, self.oldest)
            if first is None or offset < first:
                return self._reader.read(offset)
        return self._tail.find(offset)

    def read_block(self, offset: int) -> Span | None:
        """The message at `offset` with the rest of its block; reads less of the file than `read`."""
        if self._is_closed:
            raise LogClosedError(self.path)
        in_memory, span = self._tail.first, None
        if in_memory is not None and offset >= in_memory:
            span = self._tail.find(offset)
        elif (found := self._reader.locate(offset)) is not None and found[0].index.offset(found[1]) <= offset:
            span = self._reader.read_block(*found)
        return span if span is not None and span.base <= offset else None

    def raw_blocks(self, offset: int, max_bytes: int, *, verified: bool = False) -> RawBlocks:
        """Whole blocks as they lie in the files, from the one that holds `offset` on, about `max_bytes`.

        At least one, if there is any. Checksums are left to the reader; `verified` has that of the first
        block tested, so that a reader who found it damaged gets past it. Raises `ReadError`.
        """
        if self._is_closed:
            raise LogClosedError(self.path)
        while verified and (found := self._reader.locate(offset)) is not None:
            if self._reader.read_block(*found) is not None:
                break
        limit = self.next if self.is_held else None
        blocks = find_raw_blocks(self._files, self._segments, offset, max_bytes, limit)
        if not blocks.parts:
            # What was skipped at the start of an epoch, or lost, never comes: a reader has to get over it.
            blocks.base = blocks.next = self.next
        return blocks

    @property
    def origin(self) -> int:
        """What `is_whole_since` takes for the beginning of a log that holds nothing yet."""
        return self.end - EPOCH_JUMP * (self.epoch - 1)

    def is_whole_since(self, origin: int) -> bool:
        """Whether nothing was ever removed from the beginning of a log that had this `origin`."""
        first = self.first
        epoch = next((segment.epoch for segment in self._segments.all if segment.base == first), self.epoch)
        # Offsets that were skipped at the start of an epoch were never given out.
        return first - EPOCH_JUMP * (epoch - 1) <= origin

    def tags(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """(base, count, tag) of the blocks in [start, stop), each read from its segment.

        The tag is empty if there is none: whoever looks for tags has to pause now and then.
        """
        while not self._is_closed and start < stop and (found := self._reader.locate(start)) is not None:
            base, count, tag = self._reader.read_tag(*found)
            if base >= stop:
                return
            yield base, count, tag
            start = base + count

    def count(self, start: int, stop: int) -> int:
        """How many messages of [start, stop) the log holds."""
        start, stop = max(start, self.oldest), min(stop, self.next)
        return max(stop - start, 0) - self._segments.gaps.missing(start, stop)

    def due_blocks(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """(base, count, due_ns) of the blocks in [start, stop) that wait for a time."""
        overlapping = self._segments.between(start, stop)
        return [block for segment in overlapping for block in segment.index.due(start, stop)]

    def offset_at(self, timestamp_ns: int) -> int:
        """The first offset whose block is of `timestamp_ns` or later; `next` when all are older."""
        for segment in self._segments.all:
            if segment.index.newest_ns >= timestamp_ns and len(segment.index):
                return min(self._offset_in(segment, timestamp_ns), self.next)
        return self.next

    def _offset_in(self, segment: Segment, timestamp_ns: int) -> int:
        low, high = 0, len(segment.index) - 1
        while low < high:
            middle = (low + high) // 2
            span = self._reader.read_block(segment, middle)
            if span is None:
                # A damaged block has left the index, which is shorter now.
                high -= 1
            elif span.timestamp(0) < timestamp_ns:
                low = middle + 1
            else:
                high = middle
        return segment.index.offset(low) if low < len(segment.index) else segment.end

    def size_marks(self, start: int, stop: int, step_bytes: int, most: int) -> list[tuple[int, int, int]]:
        """See `size_marks`: where about every `step_bytes` of blocks end, by the index alone."""
        return size_marks(self._segments.between(start, stop), start, stop, step_bytes, most)

    def take_damage(self) -> list[Damage]:
        """What reading found damaged since this was last called."""
        return self._damage.take()

    def trim_memory(self, passed: int) -> None:
        """Forget what is in memory and wholly below `passed`."""
        self._tail.drop_below(passed)
        self._reader.forget_below(passed)

    def begin_sync(self) -> SyncJob | None:
        """What has to be synced now, to be run on another thread; None when nothing, or one is running."""
        if self._is_closed:
            return None
        return self._sync.begin(self._segments.active, self.end)

    def end_sync(self, job: SyncJob, error: OSError | None) -> None:
        """Take note of how `job` ended. After a failed sync nobody knows what is on the disk: no retry."""
        self._remove_late_indexes(job)
        self._sync.end(job, error)
        if self._sync.failure is not None:
            self._writer.failed = f"sync failed: {describe(self._sync.failure)}"
        if self._is_deleted:
            self._remove_files()

    def retire(
        self, needed: Callable[[int, int], bool], *, keep_bytes: int = 0, keep_after_ns: int | None = None
    ) -> list[str]:
        """Delete the segments for which `needed(base, end)` is False and that no rule keeps.

        Returns their paths. The active segment is closed first when it is large, or when messages in it have
        outlived `keep_after_ns`: so no message stays much longer than twice the time it is to be kept.
        """
        policy = RetentionPolicy(keep_bytes, keep_after_ns)
        segments = self._segments
        retired = self._remove(segments.removable(needed, policy))
        active = segments.active
        if active is not None and self._has_to_roll(active, needed, policy) and self._writer.roll(self.end):
            retired += self._remove(segments.removable(needed, policy))
        for _path, end in retired:
            self._sync.directory_changed = True
            # A span in memory may hold messages of several blocks, so also of a segment that is gone.
            self._tail.cut_below(end)
        return [path for path, _end in retired]

    def _has_to_roll(
        self, active: Segment, needed: Callable[[int, int], bool], policy: RetentionPolicy
    ) -> bool:
        if active.size > self._writer.limit // 4 and active in self._segments.removable(needed, policy):
            return True
        if policy.keep_after_ns is None or active.size <= policy.keep_bytes or not len(active.index):
            return False
        # While a channel needs the oldest message nothing is gained, only files.
        oldest = active.index.offset(0)
        return self._oldest_ns(active) < policy.keep_after_ns and not needed(oldest, oldest + 1)

    def _oldest_ns(self, active: Segment) -> int:
        if self._oldest_of is None or self._oldest_of[0] is not active:
            try:
                span = self._reader.read_block(active, 0)
            except ReadError:
                span = None
            if span is None:
                return active.index.newest_ns
            self._oldest_of = active, span.timestamp(0)
        return self._oldest_of[1]

    def close(self) -> None:
        """Make everything durable and close; raises `SyncError`, closed all the same, when that failed."""
        if self._is_closed:
            return
        assert self._sync.job is None, "the running sync job has to end first"
        # A sync that failed earlier counts too: the next start must not take this for a clean stop.
        error = self._sync_now() or self._sync.failure or self._writer.settle_identity()
        self._is_closed = True
        active = self._segments.active
        if active is not None and active.fd >= 0 and self.failed is None:
            write_index(self._files, active.path, active.index, active.size)
        self._close_descriptors()
        if error is not None:
            raise SyncError(self.path, error) from error

    def delete(self) -> None:
        """Close the log and remove all its files."""
        self._is_closed = self._is_deleted = True
        self._close_descriptors()
        self._remove_files()

    def _sync_now(self) -> OSError | None:
        job = self.begin_sync()
        if job is None:
            return None
        failure = None
        try:
            job.run()
        except OSError as error:
            failure = error
        self.end_sync(job, failure)
        return failure

    def _remove(self, segments: list[Segment]) -> list[tuple[str, int]]:
        anchor = self._sync.anchor
        older = [segment for segment in segments if anchor is None or segment.base < anchor]
        unsynced = [segment for segment in older if segment in self._sync.closed]
        removed = self._segments.remove(older, self._release)
        # What could not be removed has to be durable like everything else.
        self._sync.closed += [segment for segment in unsynced if segment in self._segments.all]
        return removed

    def _release(self, segment: Segment) -> None:
        self._reader.release(segment)
        self._sync.release(segment)

    def _remove_late_indexes(self, job: SyncJob) -> None:
        """An index of a segment that was retired during the job would tell of a loss at the next start."""
        for segment in job.closed:
            if segment not in self._segments.all or job.was_cut(segment):
                with contextlib.suppress(OSError):
                    self._files.unlink(index_path(segment.path))

    def _close_descriptors(self) -> None:
        self._reader.close()
        self._tail.clear()
        for segment in self._segments.all:
            self._sync.release(segment)

    def _remove_files(self) -> None:
        # A running sync job may write an index after this; then `end_sync` comes here again.
        if not self._files.exists(self.path):
            return
        for name in self._files.listdir(self.path):
            self._files.unlink(os.path.join(self.path, name))
        with contextlib.suppress(OSError):
            self._files.rmdir(self.path)
            self._files.sync_dir(os.path.dirname(self.path) or ".")
