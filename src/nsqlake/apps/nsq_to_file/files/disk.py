"""The system calls of the archive, as one value, so that tests can make any of them fail."""

import contextlib
import os
from typing import Protocol

from nsqlake.topiclog.files import Files, OsFiles

DIRECTORY_MODE = 0o770  # NSQ


class Disk(Files, Protocol):
    def link(self, source: str, target: str) -> None: ...


class OsDisk(OsFiles):
    def link(self, source: str, target: str) -> None:
        os.link(source, target, follow_symlinks=False)


OS_DISK: Disk = OsDisk()


def make_directory(disk: Disk, path: str) -> None:
    """Make `path` and what is missing above it; each name is durable before this returns."""
    parent = os.path.dirname(path)
    if path == parent or disk.exists(path):
        return
    make_directory(disk, parent)
    with contextlib.suppress(FileExistsError):  # somebody was faster
        disk.mkdir(path, DIRECTORY_MODE)
    disk.sync_dir(parent)
