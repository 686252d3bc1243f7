"""The archive of one topic: which file is open, and when the next one begins."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from nsqlake.apps.nsq_to_file.files.archive_file import ArchiveFile
from nsqlake.apps.nsq_to_file.files.directories import Directories
from nsqlake.apps.nsq_to_file.files.disk import OS_DISK, Disk
from nsqlake.apps.nsq_to_file.files.layout import Layout
from nsqlake.apps.nsq_to_file.files.rotation import BEFORE_THE_FIRST, Reason, Revision
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.durations import SECOND_NS, format_duration

logger = logging.getLogger(__name__)


class Archive:
    """Blocks on the disk, so it is called in a thread, by one caller at a time.

    ArchiveError ends it: what was not synced before may be lost, and must not be finished.
    """

    def __init__(self, layout: Layout, *, label: str, clock: Clock, disk: Disk = OS_DISK) -> None:
        self._layout, self._label, self._clock = layout, label, clock
        self._directories = Directories(layout, label, disk)
        self._file: ArchiveFile | None = None
        self._last = BEFORE_THE_FIRST
        self._name = ""
        self._name_second = -1

    def append(self, bodies: Sequence[bytes]) -> bool:
        """Write each body as a line; True if a new file was begun, which asks for a sync."""
        has_rotated = False
        for body in bodies:
            if self._is_rotation_due():
                self._begin_file()
                has_rotated = True
            assert self._file is not None
            self._file.add(body)
        if self._file is not None:
            self._file.flush()
        return has_rotated

    def tick(self) -> None:
        """Time has passed: end a file that is due, and begin the next unless empty files are skipped."""
        if not self._is_rotation_due():
            return
        if self._layout.skips_empty_files:
            self.close()
        else:
            self._begin_file()
            self.sync()  # else what is there would not be gzip before the first message

    def sync(self) -> None:
        """After this all that was appended survives a crash, and can be read."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Sync and finish the open file, if any; what is appended next begins another."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            self._directories.finish(file)

    def _is_rotation_due(self) -> bool:
        file = self._file
        if file is None:
            return True
        name, now_ns = self._current_name(), self._clock.now_ns()
        reason = self._layout.rotation.reason(file.state, name, now_ns)
        if reason is None:
            return False
        said = {
            Reason.NEW_NAME: f"new filename {name}",
            Reason.TOO_OLD: f"{format_duration(now_ns - file.state.opened_ns)} since last open",
            Reason.TOO_LARGE: f"{file.path} {self._layout.rotation.size_text(file.size_bytes)}",
        }
        logger.info("[%s] %s, rotating...", self._label, said[reason])
        return True

    def _begin_file(self) -> None:
        self.close()
        name = self._current_name()
        revision = self._last.next_for(name).number
        self._file = self._directories.open_free(name, revision, self._clock.now_ns())
        self._last = Revision(name, self._file.revision)

    def _current_name(self) -> str:
        second = self._clock.timestamp_ns() // SECOND_NS
        if second != self._name_second:
            self._name = self._layout.names.at(datetime.fromtimestamp(second, UTC).astimezone())
            self._name_second = second
        return self._name
