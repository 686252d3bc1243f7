"""Writing behind the last block: when a segment is full, when the disk is, and what failed for good."""

import errno
import sys

from nsqlake.topiclog.errors import AppendError
from nsqlake.topiclog.files import Files
from nsqlake.topiclog.identity import Identity, write_identity
from nsqlake.topiclog.options import LogOptions
from nsqlake.topiclog.segment import SEGMENT_HEADER_BYTES, Segment, SegmentHeader
from nsqlake.topiclog.segment_list import SegmentList
from nsqlake.topiclog.sync_job import SyncState

__all__ = ["SegmentWriter"]

_CHECK_SPACE_EVERY_BYTES = 256 * 1024
_SMALLEST_LIMIT_BYTES = 1024 * 1024
_LARGEST_LIMIT_BYTES = 2**32 - 1  # an index keeps positions in 4 bytes
_SHARE_OF_DISK = 16  # retirement frees whole segments, so on a small disk they are small


class SegmentWriter:
    """Owns the active segment; `failed` is set by an error that no later append can get past."""

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: SegmentList,
        sync: SyncState,
        identity: Identity,
        options: LogOptions,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._sync = sync
        self._identity = identity
        self._identity_is_durable = True
        self._max_bytes = min(options.max_bytes_per_file, _LARGEST_LIMIT_BYTES)
        self._min_free_bytes = options.min_free_bytes
        self._unchecked_bytes = 0
        self._check_at = _CHECK_SPACE_EVERY_BYTES if options.min_free_bytes else sys.maxsize
        self.limit = self._max_bytes
        self.failed: str | None = None

    def continue_with(self, segment: Segment) -> None:
        """Append to an existing segment, which is opened when that happens."""
        self._segments.active = segment
        self._set_limit()

    def save_identity(self) -> bool:
        """Make the identity durable; without room that is put off until the next segment is made."""
        self._identity_is_durable = False
        try:
            self._write_identity()
        except AppendError as error:
            if not error.recoverable:
                self.failed = error.reason
        return self._identity_is_durable

    def settle_identity(self) -> OSError | None:
        """Write the identity if that was put off or failed; why it still cannot be."""
        if self._identity_is_durable:
            return None
        try:
            write_identity(self._files, self._directory, self._identity)
        except OSError as error:
            return error
        self._identity_is_durable = True
        return None

    def append(self, head: bytes, records: bytes, base: int) -> tuple[Segment, int]:
        """Write one block; return its segment and position there, or raise `AppendError`."""
        if self.failed is not None:
            raise AppendError(self.failed)
        size = len(head) + len(records)
        try:
            active = self._segments.active
            if active is None or (active.size + size > self.limit and active.size > SEGMENT_HEADER_BYTES):
                active = self._roll(base)
            elif active.fd < 0:
                self._reopen(active)
            self._unchecked_bytes += size
            if self._unchecked_bytes >= self._check_at:
                self._check_space(size)
            position = active.size
            active.append(self._files, (head, records), size)
        except AppendError as error:
            if not error.recoverable:
                self.failed = error.reason
            raise
        return active, position

    def has_room(self, active: Segment, size: int) -> bool:
        """Whether `write` will do, because nothing has to be opened, rolled or checked first."""
        return (
            active.fd >= 0
            and self.failed is None
            and active.size + size <= self.limit
            and self._unchecked_bytes + size < self._check_at
        )

    def write(self, active: Segment, head: bytes, records: bytes, size: int) -> None:
        """Write one block to a segment that `has_room`, or raise `AppendError`."""
        self._unchecked_bytes += size
        try:
            active.append(self._files, (head, records), size)
        except AppendError as error:
            if not error.recoverable:
                self.failed = error.reason
            raise

    def roll(self, base: int) -> bool:
        """Start a new segment at `base`, so that the active one can be retired; False when that failed."""
        if self.failed is not None:
            return False
        try:
            self._roll(base)
        except AppendError:
            return False
        return True

    def _roll(self, base: int) -> Segment:
        self._check_space(SEGMENT_HEADER_BYTES)
        self._write_identity()
        identity = self._identity
        header = SegmentHeader(identity.uuid, identity.salt, identity.epoch, base)
        segment = Segment.create(self._files, self._directory, header)
        full = self._segments.active
        if full is not None and full.fd >= 0:
            self._sync.closed.append(full)
        self._sync.directory_changed = True
        self._segments.add_active(segment)
        self._set_limit()
        return segment

    def _reopen(self, segment: Segment) -> None:
        try:
            segment.reopen(self._files)
        except OSError as error:
            raise AppendError.from_os(error) from error

    def _write_identity(self) -> None:
        error = self.settle_identity()
        if error is not None:
            raise AppendError.from_os(error) from error

    def _check_space(self, size: int) -> None:
        if not self._min_free_bytes:
            return
        try:
            free = self._files.free_bytes(self._directory)
        except OSError as error:
            raise AppendError.from_os(error, recoverable=True) from error
        if free < self._min_free_bytes + size:
            reason = f"disk full: {free} bytes free, {self._min_free_bytes} must stay free"
            raise AppendError(reason, errno=errno.ENOSPC, recoverable=True)
        self._unchecked_bytes = 0

    def _set_limit(self) -> None:
        try:
            share = self._files.total_bytes(self._directory) // _SHARE_OF_DISK
        except OSError:
            return
        self.limit = min(self._max_bytes, max(_SMALLEST_LIMIT_BYTES, share))
