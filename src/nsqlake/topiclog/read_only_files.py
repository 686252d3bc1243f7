"""`Files` that cannot change anything: what looks at a log without owning it goes through them."""

import errno
import os
from collections.abc import Callable, Sequence
from typing import NoReturn

from nsqlake.topiclog.files import Buffer, OsFiles

__all__ = ["ReadOnlyFiles"]

_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ReadOnlyFiles(OsFiles):
    """Every call that would change a byte raises EROFS; `on_read` hears how many bytes were read."""

    def __init__(self, on_read: Callable[[int], None] = lambda _nbytes: None) -> None:
        self._on_read = on_read

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if flags & _CHANGING:
            _refuse(path)
        return super().open(path, flags, mode)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        data = os.pread(fd, length, position)
        self._on_read(len(data))
        return data

    def write(self, fd: int, data: Buffer) -> int:  # type: ignore[override]
        _refuse()

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:  # type: ignore[override]
        _refuse()

    def ftruncate(self, fd: int, length: int) -> None:
        _refuse()

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def unlink(self, path: str) -> None:
        _refuse(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        _refuse(path)

    def rmdir(self, path: str) -> None:
        _refuse(path)


def _refuse(path: str = "") -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
