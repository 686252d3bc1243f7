"""Where a topic's files are made, and where they go when they are finished. Nothing is ever overwritten."""

import itertools
import logging
import os
from collections.abc import Iterator

from nsqlake.apps.nsq_to_file.errors import archive_errors
from nsqlake.apps.nsq_to_file.files.archive_file import ArchiveFile, open_flags
from nsqlake.apps.nsq_to_file.files.disk import Disk, make_directory
from nsqlake.apps.nsq_to_file.files.layout import Layout
from nsqlake.apps.nsq_to_file.files.rotation import FileState

FILE_MODE = 0o666  # NSQ; the umask takes its part

logger = logging.getLogger(__name__)


class Directories:
    """`label` begins the log lines. Every new name is durable before a method returns."""

    def __init__(self, layout: Layout, label: str, disk: Disk) -> None:
        self._layout, self._label, self._disk = layout, label, disk

    def open_free(self, name: str, revision: int, now_ns: int) -> ArchiveFile:
        """The file `name` of the first revision, from `revision` on, that may be written."""
        return next(self._free_files(name, revision, now_ns))

    def finish(self, file: ArchiveFile) -> None:
        """Move a closed file to the output directory; to the next free revision if its name is taken."""
        if not self._layout.has_work_dir:
            return
        target = self._layout.output_path(file.name, file.revision)
        logger.info("[%s] moving finished file %s to %s", self._label, file.path, target)
        free = next(
            path
            for number in itertools.count(file.revision)
            if self._link(file.path, path := self._layout.output_path(file.name, number))
        )
        if free != target:
            logger.info(
                "[%s] renamed finished file %s to %s to avoid overwrite", self._label, file.path, free
            )
        # The new name must be durable before the old one goes.
        with archive_errors("unable to move file", file.path):
            self._disk.sync_dir(os.path.dirname(free))
            self._disk.unlink(file.path)
            self._disk.sync_dir(os.path.dirname(file.path))

    def _free_files(self, name: str, revision: int, now_ns: int) -> Iterator[ArchiveFile]:
        for number in itertools.count(revision):
            if self._is_free_in_output(name, number):
                file = self._open(name, number, now_ns)
                if file is not None:
                    yield file

    def _is_free_in_output(self, name: str, revision: int) -> bool:
        if not self._layout.has_work_dir:
            return True
        path = self._layout.output_path(name, revision)
        self._make_directory_of(path)
        if not self._disk.exists(path):
            return True
        logger.warning("[%s] output file already exists: %s", self._label, path)
        return False

    def _open(self, name: str, revision: int, now_ns: int) -> ArchiveFile | None:
        """The file of this revision, unless it must be left as it is."""
        path = self._layout.work_path(name, revision)
        self._make_directory_of(path)
        fd = self._open_descriptor(path)
        if fd is None:
            logger.warning("[%s] working file already exists: %s", self._label, path)
            return None
        logger.info("[%s] opening %s", self._label, path)
        with archive_errors("unable to open", path):
            self._disk.sync_dir(os.path.dirname(path))
            size_bytes = self._disk.size(fd)
        if self._layout.rotation.is_too_large(size_bytes):
            said = self._layout.rotation.size_text(size_bytes)
            logger.info("[%s] %s %s, rotating...", self._label, path, said)
            self._disk.close(fd)
            return None
        state = FileState(name, now_ns, size_bytes)
        file = ArchiveFile(self._disk, fd, path, state, self._layout.new_encoding(), revision)
        if not self._layout.is_exclusive and file.end_torn_line():
            logger.warning("[%s] ended an unfinished line of %s", self._label, path)
        return file

    def _open_descriptor(self, path: str) -> int | None:
        flags = open_flags(is_exclusive=self._layout.is_exclusive)
        with archive_errors("unable to open", path):
            try:
                return self._disk.open(path, flags, FILE_MODE)
            except FileExistsError:
                return None

    def _link(self, source: str, target: str) -> bool:
        self._make_directory_of(target)
        with archive_errors(f"unable to move file from {source} to", target):
            try:
                self._disk.link(source, target)
            except FileExistsError:
                logger.warning("[%s] destination file already exists: %s", self._label, target)
                return False
        return True

    def _make_directory_of(self, path: str) -> None:
        directory = os.path.dirname(path)
        with archive_errors("unable to create dir", directory):
            make_directory(self._disk, directory)
