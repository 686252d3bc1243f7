"""Making a log durable: what one sync has to do, and what is still to be synced."""

import contextlib
import errno
import os

from nsqlake.topiclog.files import Files, write_all
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.segment import Segment, index_path

__all__ = ["SyncJob", "SyncState", "write_index"]

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class SyncJob:
    """Makes everything below `upto` durable. Runs on another thread: it holds nothing the log changes."""

    def __init__(
        self, files: Files, *, upto: int, active: Segment | None, closed: list[Segment], directory: str | None
    ) -> None:
        self._files = files
        self._directory = directory
        self._fds = [segment.fd for segment in closed if segment.fd >= 0]
        if active is not None:
            self._fds.append(active.fd)
        self._paths = [segment.path for segment in closed if segment.fd < 0]
        self._indexes = [(segment.path, segment.index.frozen(), segment.size) for segment in closed]
        self.upto = upto
        self.newest = active.base if active is not None else None
        self.closed = closed

    def run(self) -> None:
        """Raise `OSError` when any part failed; the job is then over and never tried again."""
        for fd in self._fds:
            self._files.fdatasync(fd)
        for path in self._paths:
            self._sync_path(path)
        if self._directory is not None:
            self._files.sync_dir(self._directory)
        # Only now: an index on disk then means that its segment was whole on disk before.
        for path, index, size in self._indexes:
            write_index(self._files, path, index, size)

    def was_cut(self, segment: Segment) -> bool:
        """Whether the segment lost its blocks to retirement since the job was made."""
        return all((path, size) != (segment.path, segment.size) for path, _index, size in self._indexes)

    def _sync_path(self, path: str) -> None:
        try:
            fd = self._files.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return  # retired meanwhile
        try:
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)


class SyncState:
    """What has to be synced, and the descriptors that may only be closed after it."""

    def __init__(self, files: Files, directory: str, *, synced: int) -> None:
        self._files = files
        self._directory = directory
        self._orphans: list[int] = []
        self.closed: list[Segment] = []  # no longer written, not yet known to be durable
        self.directory_changed = False
        self.synced = synced  # every message below this offset is durable
        # Base of the newest segment whose name is durable. It stays until a newer one is: without it the next
        # start might find none, and could not tell how far offsets were given out.
        self.anchor: int | None = None
        self.dirty_messages = 0  # appended since the last sync began
        self.job: SyncJob | None = None
        self.failure: OSError | None = None  # after it nothing is synced any more

    @property
    def is_needed(self) -> bool:
        """Whether anything has changed since the last sync began."""
        return bool(self.dirty_messages or self.closed or self.directory_changed)

    def begin(self, active: Segment | None, upto: int) -> SyncJob | None:
        """The work to be done now; None when there is none, while a job is out, and after one failed."""
        if self.job is not None or self.failure is not None or not self.is_needed:
            return None
        self.job = SyncJob(
            self._files,
            upto=upto,
            active=active if active is not None and active.fd >= 0 else None,
            closed=self.closed,
            directory=self._directory if self.directory_changed else None,
        )
        self.closed, self.directory_changed, self.dirty_messages = [], False, 0
        return self.job

    def end(self, job: SyncJob, error: OSError | None) -> None:
        """Note what became durable and close what waited for it."""
        assert job is self.job
        self.job = None
        if error is None:
            self.synced = max(self.synced, job.upto)
            self.anchor = self.anchor if job.newest is None else job.newest
        elif error.errno in _NO_DESCRIPTOR:
            # Nothing failed to sync: a file could not even be opened for it, so the same may be tried again.
            self.closed = [*job.closed, *self.closed]
            self.directory_changed = True
            self.dirty_messages += 1
            job.closed = []
        else:
            self.failure = error
        for segment in job.closed:
            self.release(segment)
        for fd in self._orphans:
            self._files.close(fd)
        self._orphans.clear()

    def release(self, segment: Segment) -> None:
        """Close a segment's descriptor, after the running job if there is one."""
        if segment in self.closed:
            self.closed.remove(segment)
        fd, segment.fd = segment.fd, -1
        if fd < 0:
            return
        if self.job is None:
            self._files.close(fd)
        else:
            self._orphans.append(fd)


def write_index(files: Files, segment_path: str, index: BlockIndex, segment_size: int) -> bool:
    """Write the index beside its segment. It is only a help for the next start: failing is no error."""
    path = index_path(segment_path)
    try:
        fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(files, fd, index.encode(segment_size))
        finally:
            files.close(fd)
    except OSError:
        with contextlib.suppress(OSError):
            files.unlink(path)
        return False
    return True
