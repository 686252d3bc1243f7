"""Every system call storage makes, as one value, so that tests can make any of them fail."""

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Protocol

__all__ = ["OS_FILES", "Buffer", "Files", "OsFiles", "read_all", "remove_tree", "write_all"]

Buffer = bytes | bytearray | memoryview

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW


class Files(Protocol):
    """The calls by the names of the operating system; all raise `OSError`."""

    def open(self, path: str, flags: int, mode: int = 0o600) -> int: ...
    def close(self, fd: int) -> None: ...
    def write(self, fd: int, data: Buffer) -> int: ...
    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int: ...
    def pread(self, fd: int, length: int, position: int) -> bytes: ...
    def ftruncate(self, fd: int, length: int) -> None: ...
    def size(self, fd: int) -> int: ...
    def fdatasync(self, fd: int) -> None: ...
    def fsync(self, fd: int) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def mkdir(self, path: str, mode: int = 0o700) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def listdir(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def free_bytes(self, path: str) -> int: ...
    def total_bytes(self, path: str) -> int: ...


class OsFiles:
    """The real ones. Descriptors are not inherited and symbolic links are not followed."""

    # Bound straight to the C functions: `writev` is on the hot path.
    close = staticmethod(os.close)
    write = staticmethod(os.write)
    writev = staticmethod(os.writev)
    pread = staticmethod(os.pread)
    ftruncate = staticmethod(os.ftruncate)
    fdatasync = staticmethod(os.fdatasync)
    fsync = staticmethod(os.fsync)

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        return os.open(path, flags | _ALWAYS, mode)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def free_bytes(self, path: str) -> int:
        """What an unprivileged process may still use."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize


OS_FILES: Files = OsFiles()


def write_all(files: Files, fd: int, data: Buffer) -> None:
    """Write all of `data`, however many calls that takes."""
    rest = memoryview(data)
    while rest:
        written = files.write(fd, rest)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[written:]


def read_all(files: Files, path: str) -> bytes:
    """The whole content of a small file."""
    fd = files.open(path, os.O_RDONLY)
    try:
        size, data = files.size(fd), b""
        while len(data) < size and (more := files.pread(fd, size - len(data), len(data))):
            data += more
        return data
    finally:
        files.close(fd)


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory and what is in it, as far as that works; links are removed, not followed."""
    with contextlib.suppress(OSError):
        for name in files.listdir(path):
            _remove_entry(files, os.path.join(path, name))
        files.rmdir(path)


def _remove_entry(files: Files, path: str) -> None:
    try:
        files.unlink(path)
    except (IsADirectoryError, PermissionError):  # what systems say of a directory
        remove_tree(files, path)
    except OSError:
        return
