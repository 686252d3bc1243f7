"""A channel's journal on disk: generations `<channel>.<number>.journal`, each beginning with a snapshot.

    | magic 4 | salt 4 | crc32c of both 4 | batches ... |

The salt is drawn when the channel is created and seeds every checksum, so that a file of a deleted
channel is never taken for one of its successor. A generation is written from its snapshot on and never
appended to by a later process; the one before it stays until the newer one is synced.
"""

import os
import struct

import google_crc32c

from nsqlake.nsqd.core.journal import JOURNAL_MAGIC, Entry, decode_journal, encode_batch, intact_bytes
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.topiclog.files import Files, read_all, write_all

__all__ = ["JournalFile", "JournalSync", "journal_channels", "lost_bytes", "read_journal"]

_SUFFIX = ".journal"
_HEADER = struct.Struct(">4sII")
_MIN_ROTATE_BYTES = 256 * 1024
_ROTATE_FACTOR = 8  # a generation may grow to this many times its snapshot


def journal_channels(files: Files, directory: str) -> dict[str, list[int]]:
    """The generations of every channel that has a journal here, newest first."""
    found: dict[str, list[int]] = {}
    for name in files.listdir(directory):
        if not name.endswith(_SUFFIX):
            continue
        channel, _, number = name.removesuffix(_SUFFIX).rpartition(".")
        if channel and number.isascii() and number.isdigit():
            found.setdefault(channel, []).append(int(number))
    return {channel: sorted(numbers, reverse=True) for channel, numbers in found.items()}


def read_journal(
    files: Files, directory: str, channel: str, generations: list[int], salt: int | None
) -> tuple[int, int, list[Entry]] | None:
    """Number, salt and entries of the newest generation of this channel that can be read, if there is one."""
    for number in generations:
        try:
            data = read_all(files, _path(directory, channel, number))
        except OSError:
            continue
        found = _header_salt(data)
        if found is None or salt not in (None, found):
            continue
        entries = list(decode_journal(JOURNAL_MAGIC + data[_HEADER.size :], found))
        if entries:
            return number, found, entries
    return None


def lost_bytes(files: Files, directory: str, channel: str, newest: int) -> int:
    """How much of the newest generation `read_journal` cannot use: its end, or all when it falls back."""
    try:
        data = read_all(files, _path(directory, channel, newest))
    except OSError:
        return 0
    salt = _header_salt(data)
    if salt is None:
        return len(data)
    body = JOURNAL_MAGIC + data[_HEADER.size :]
    return len(body) - intact_bytes(body, salt)


def _path(directory: str, channel: str, number: int) -> str:
    return os.path.join(directory, f"{channel}.{number:08d}{_SUFFIX}")


def _encode_header(salt: int) -> bytes:
    head = struct.pack(">4sI", JOURNAL_MAGIC, salt)
    return head + struct.pack(">I", google_crc32c.value(head))


def _header_salt(data: bytes) -> int | None:
    if len(data) < _HEADER.size:
        return None
    magic, salt, crc = _HEADER.unpack_from(data)
    if magic != JOURNAL_MAGIC or crc != google_crc32c.value(data[:8]):
        return None
    return int(salt)


class JournalSync:
    """One sync of a journal, run on another thread."""

    def __init__(self, files: Files, fd: int, path: str, generation: int) -> None:
        """`fd` is -1 for a file that an earlier process wrote."""
        self._files, self._fd, self._path = files, fd, path
        self.generation = generation

    def run(self) -> None:
        fd = self._fd if self._fd >= 0 else self._files.open(self._path, os.O_RDONLY)
        try:
            self._files.fdatasync(fd)
        finally:
            if fd != self._fd:
                self._files.close(fd)
        self._files.sync_dir(os.path.dirname(self._path))


class JournalFile:
    """Writes the journal of one channel. Any failure is answered by a new generation, whole again."""

    def __init__(
        self,
        files: Files,
        directory: str,
        channel: str,
        *,
        salt: int,
        old: list[int],
        read: int = 0,
        is_read_synced: bool = True,
    ) -> None:
        """`old` are the generations that exist, `read` is the one whose state was taken over.

        After a crash of the process it may be in the page cache only: not `is_read_synced`.
        """
        self._files, self._directory, self._channel, self.salt = files, directory, channel, salt
        self._old = sorted(old)
        self._whole = [read] if read else []  # of the older generations, those that can be read
        self._generation = max(old, default=0)
        self._fd = -1
        self._size = 0
        self._limit = 0
        self._is_dirty = False
        self._unsynced = 0 if is_read_synced else read  # until a newer generation replaces it
        self._syncing = False
        self._retired: list[int] = []  # descriptors that a sync may still use
        self.failure: OSError | None = None

    def write(self, ledger: Ledger) -> bool:
        """Write what is pending; False when that failed, and then a snapshot is written next time."""
        if self._fd < 0 or self._size > self._limit:
            return self.write_snapshot(ledger)
        batch = encode_batch(ledger.pending.take(), self.salt)
        try:
            write_all(self._files, self._fd, batch)
        except OSError as error:
            # The batch may be torn in the file, so nothing may follow it there.
            self._fail(error)
            return False
        self._size += len(batch)
        self._is_dirty = True
        return True

    def write_snapshot(self, ledger: Ledger) -> bool:
        """Begin a new generation."""
        data = _encode_header(self.salt) + encode_batch(ledger.snapshot(), self.salt)
        ledger.pending.clear()
        number = self._generation + 1
        path = _path(self._directory, self._channel, number)
        try:
            fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            self._fail(error)
            return False
        try:
            write_all(self._files, fd, data)
        except OSError as error:
            self._files.close(fd)
            _remove(self._files, path)
            self._fail(error)
            return False
        self._take_over(fd, number, len(data))
        return True

    def _take_over(self, fd: int, number: int, size: int) -> None:
        self._release()
        if self._generation and self._generation not in self._old:
            self._old.append(self._generation)
            self._whole.append(self._generation)
        self._fd, self._generation, self._size = fd, number, size
        self._limit = max(_MIN_ROTATE_BYTES, _ROTATE_FACTOR * size)
        self._is_dirty, self._unsynced = True, 0
        self.failure = None

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self._release()

    def _release(self) -> None:
        if self._fd < 0:
            return
        if self._syncing:
            self._retired.append(self._fd)
        else:
            self._files.close(self._fd)
        self._fd = -1

    @property
    def is_syncing(self) -> bool:
        return self._syncing

    def begin_sync(self) -> JournalSync | None:
        number = self._generation if self._fd >= 0 and self._is_dirty else self._unsynced
        if not number or self._syncing:
            return None
        self._is_dirty, self._unsynced = False, 0
        self._syncing = True
        return JournalSync(self._files, self._fd, _path(self._directory, self._channel, number), number)

    def end_sync(self, job: JournalSync, error: OSError | None) -> None:
        """Older generations go once a newer one is safe; the last whole one stays as a fall-back."""
        self._syncing = False
        for fd in self._retired:
            self._files.close(fd)
        self._retired.clear()
        if error is not None:
            # Its pages may be marked clean without being on disk: only a new file can be trusted.
            self._fail(error)
            return
        fallback = max((number for number in self._whole if number < job.generation), default=0)
        gone = [number for number in self._old if number < job.generation and number != fallback]
        for number in gone:
            _remove(self._files, _path(self._directory, self._channel, number))
        self._old = [number for number in self._old if number not in gone]
        self._whole = [number for number in self._whole if number >= fallback]

    def close(self) -> None:
        self._release()

    def delete(self) -> None:
        self.close()
        for number in {*self._old, self._generation}:
            _remove(self._files, _path(self._directory, self._channel, number))


def _remove(files: Files, path: str) -> None:
    try:
        files.unlink(path)
    except OSError:
        # It is gone already, or is an orphan that the next start removes.
        return
