"""The data path: one daemon at a time, and never over the files of the Go nsqd."""

import errno
import fcntl
import os
import re
from fnmatch import fnmatchcase
from types import TracebackType

from nsqlake.runtime.errors import StartupError

GO_FILES = ("nsqd.dat", "nsqd.*.dat", "*.diskqueue.*")

# An atomic write of `state` makes `state.<tag>.tmp` and renames it to `state.0` or `state.1`.
_TEMPORARY = re.compile(r"(?P<target>.+)\.[^.]+\.tmp", re.DOTALL)


class DataPathLock:
    """Holds the directory until `close` or the end of the process, however that comes."""

    def __init__(self, path: str, fd: int) -> None:
        self.path, self._fd = path, fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "DataPathLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_data_path(path: str) -> DataPathLock:
    """Lock the directory `path` ("" is the current one) for this process; StartupError if it cannot be used.

    Nothing in it is touched unless it is ours; then what a crash left half written is removed.
    """
    directory = path or "."
    fd = _open_directory(directory)
    try:
        _lock(fd, directory)
        _refuse_go_files(directory)
        _require_writable(directory)
        _remove_stale_files(directory)
    except BaseException:
        os.close(fd)
        raise
    return DataPathLock(directory, fd)


def _open_directory(directory: str) -> int:
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StartupError(f"failed to lock data-path: open {directory}: {_reason(error)}") from error


def _lock(fd: int, directory: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StartupError(
            f"failed to lock data-path: cannot flock directory {directory} - {_reason(error)}"
            " (possibly in use by another instance of nsqd)"
        ) from error


def _refuse_go_files(directory: str) -> None:
    with os.scandir(directory) as entries:
        # A topic may be called like one of these files, but then its entry here is a directory.
        names = [entry.name for entry in entries if _is_of_go(entry.name) and not entry.is_dir()]
    if names:
        raise StartupError(
            f"--data-path {directory} holds files of the Go nsqd ({min(names)}), which this nsqd cannot read;"
            " drain them with the Go nsqd and nsq_to_nsq, or choose an empty --data-path"
        )


def _is_of_go(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in GO_FILES)


def _require_writable(directory: str) -> None:
    if os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        return
    read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
    reason = os.strerror(errno.EROFS if read_only else errno.EACCES).lower()
    raise StartupError(f"--data-path {directory} is not writable by user id {os.geteuid()}: {reason}")


def _remove_stale_files(directory: str) -> None:
    with os.scandir(directory) as entries:
        names = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    for name in names:
        temporary = _TEMPORARY.fullmatch(name)
        # The data path may be any directory, even the current one: only what stands beside our files is ours.
        if temporary and not names.isdisjoint({f"{temporary['target']}.0", f"{temporary['target']}.1"}):
            os.unlink(os.path.join(directory, name))


def _reason(error: OSError) -> str:
    return os.strerror(error.errno or 0).lower()
