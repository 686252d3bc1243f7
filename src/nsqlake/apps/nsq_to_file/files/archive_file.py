"""One open file of an archive."""

import os

from nsqlake.apps.nsq_to_file.errors import archive_errors
from nsqlake.apps.nsq_to_file.files.disk import Disk
from nsqlake.apps.nsq_to_file.files.encodings import Encoding
from nsqlake.apps.nsq_to_file.files.rotation import FileState
from nsqlake.topiclog.files import write_all

FLUSH_BYTES = 1 << 20
LINE_FEED = b"\n"


class ArchiveFile:
    """Lines are gathered until `flush`, in the hands of the system then, and on disk after `sync`.

    After an ArchiveError nothing is known of what was not synced before; do not use the file again.
    """

    def __init__(
        self, disk: Disk, fd: int, path: str, state: FileState, encoding: Encoding, revision: int
    ) -> None:
        self._disk, self._fd, self._encoding = disk, fd, encoding
        self.path, self.name, self.revision = path, state.name, revision
        self._opened_ns, self.size_bytes = state.opened_ns, state.size_bytes
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._needs_sync = True  # also when it stays empty: it must be there, and be valid gzip

    @property
    def state(self) -> FileState:
        return FileState(self.name, self._opened_ns, self.size_bytes)

    def add(self, body: bytes) -> None:
        self._gathered += (body, LINE_FEED)
        length = len(body) + len(LINE_FEED)
        self.size_bytes += length
        self._gathered_bytes += length
        if self._gathered_bytes >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._gathered_bytes = 0
            self._needs_sync = True
            self._write(self._encoding.encode(data))

    def sync(self) -> None:
        """After this all that was added can be read, whatever happens."""
        self.flush()
        if self._needs_sync:
            self._write(self._encoding.complete())
            with archive_errors("syncing to disk:", self.path):
                self._disk.fsync(self._fd)
            self._needs_sync = False

    def close(self) -> None:
        self.sync()
        with archive_errors("closing", self.path):
            self._disk.close(self._fd)

    def end_torn_line(self) -> bool:
        """A crash may have left the last line unfinished: the next one must not become part of it."""
        if not self.size_bytes:
            return False
        with archive_errors("reading", self.path):
            last = self._disk.pread(self._fd, 1, self.size_bytes - 1)
        if last == LINE_FEED:
            return False
        self.add(b"")
        return True

    def _write(self, data: bytes) -> None:
        with archive_errors("writing message to disk:", self.path):
            write_all(self._disk, self._fd, data)


def open_flags(*, is_exclusive: bool) -> int:
    if is_exclusive:
        return os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return os.O_RDWR | os.O_CREAT | os.O_APPEND  # reading: to look at the last line
