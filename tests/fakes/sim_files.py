"""A file system in memory that records what is done to it, so that a power loss can be played at any point.

`SimFiles` is a working `Files`. Its `trace` holds every change and every sync in order;
`tests.fakes.power_loss` makes from it the contents a disk may have after the machine went down.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nsqlake.topiclog.files import Buffer

ROOT = 0
_PLENTY_BYTES = 1 << 40


class Create(NamedTuple):
    """A new file or directory, and its name; or one more name of a file."""

    directory: int
    name: str
    node: int
    is_directory: bool


class Remove(NamedTuple):
    directory: int
    name: str


class Rename(NamedTuple):
    directory: int
    source: str
    target: str
    node: int


class Write(NamedTuple):
    node: int
    position: int
    data: bytes


class Cut(NamedTuple):
    """The file has `length` bytes now; longer than before means zeros."""

    node: int
    length: int


class Sync(NamedTuple):
    """All that was done to the file, or to the names in the directory, is on the disk."""

    node: int


class SyncFailed(NamedTuple):
    """The contents that were to be written may be there or not; no later sync will see to them.

    Names are not forgotten like that: a later sync of the directory counts.
    """

    node: int


Op = Create | Remove | Rename | Write | Cut | Sync | SyncFailed


@dataclass
class Image:
    """What a disk holds: contents by node, names by directory."""

    files: dict[int, bytes] = field(default_factory=dict)
    directories: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})

    def key(self) -> int:
        """The same for equal contents."""
        names = tuple(
            (node, tuple(sorted(names.items()))) for node, names in sorted(self.directories.items())
        )
        return hash((names, tuple(sorted(self.files.items()))))


class _Handle:
    def __init__(self, node: int, path: str, *, appends: bool) -> None:
        self.node, self.path, self.appends = node, path, appends
        self.position = 0


# Called before every call with its name ("create" for an `open` that makes a file) and path. It may raise
# OSError, do something in between, or return how many bytes a write may take.
BeforeCall = Callable[[str, str], int | None]


class SimFiles:
    """A disk that begins as `image`. Nothing is durable without a sync."""

    def __init__(self, image: Image | None = None) -> None:
        image = image or Image()
        self.image = image
        self.trace: list[Op] = []
        self.before_call: BeforeCall | None = None
        self._files = {node: bytearray(data) for node, data in image.files.items()}
        self._directories = {node: dict(names) for node, names in image.directories.items()}
        self._handles: dict[int, _Handle] = {}
        self._next_node = max([ROOT, *self._files, *self._directories]) + 1
        self._next_fd = 1000

    @property
    def now(self) -> int:
        """How much has happened."""
        return len(self.trace)

    @property
    def open_descriptors(self) -> int:
        return len(self._handles)

    def forget_descriptors(self) -> None:
        """What the system does when a process is killed."""
        self._handles.clear()

    def volatile_image(self) -> Image:
        """What a process sees that is started now, without a power loss."""
        return Image(
            {node: bytes(data) for node, data in self._files.items()},
            {node: dict(names) for node, names in self._directories.items()},
        )

    # Files --------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        directory, name = self._parent(path)
        node = self._directories[directory].get(name)
        self._before("create" if node is None and flags & os.O_CREAT else "open", path)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            node = self._create(directory, name, is_directory=False)
        elif node in self._directories:
            raise _error(errno.EISDIR, path)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif flags & os.O_TRUNC and self._files[node]:
            self._cut(node, 0)
        self._next_fd += 1
        self._handles[self._next_fd] = _Handle(node, path, appends=bool(flags & os.O_APPEND))
        return self._next_fd

    def close(self, fd: int) -> None:
        self._handle(fd)
        del self._handles[fd]

    def write(self, fd: int, data: Buffer) -> int:
        return self._write("write", fd, bytes(data))

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        return self._write("writev", fd, b"".join(buffers))

    def _write(self, call: str, fd: int, data: bytes) -> int:
        handle = self._handle(fd)
        allowed = self._before(call, handle.path)
        data = data if allowed is None else data[:allowed]
        content = self._files[handle.node]
        position = len(content) if handle.appends else handle.position
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
        handle.position = position + len(data)
        if data:
            self.trace.append(Write(handle.node, position, data))
        return len(data)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        handle = self._handle(fd)
        self._before("pread", handle.path)
        return bytes(self._files[handle.node][position : position + length])

    def ftruncate(self, fd: int, length: int) -> None:
        handle = self._handle(fd)
        self._before("ftruncate", handle.path)
        if len(self._files[handle.node]) != length:
            self._cut(handle.node, length)

    def size(self, fd: int) -> int:
        handle = self._handle(fd)
        self._before("size", handle.path)
        return len(self._files[handle.node])

    def fdatasync(self, fd: int) -> None:
        handle = self._handle(fd)
        self._sync("fdatasync", handle.path, handle.node)

    def fsync(self, fd: int) -> None:
        handle = self._handle(fd)
        self._sync("fsync", handle.path, handle.node)

    # Names --------------------------------------------------------------------------------------------

    def sync_dir(self, path: str) -> None:
        self._sync("sync_dir", path, self._directory(path))

    def rename(self, source: str, target: str) -> None:
        self._before("rename", source)
        directory, name = self._parent(source)
        target_directory, target_name = self._parent(target)
        assert directory == target_directory, "only renames within a directory are simulated"
        names = self._directories[directory]
        if name not in names:
            raise _error(errno.ENOENT, source)
        replaced = names.get(target_name)
        if replaced in self._directories:
            raise _error(errno.EISDIR, target)
        names[target_name] = names.pop(name)
        self.trace.append(Rename(directory, name, target_name, names[target_name]))

    def link(self, source: str, target: str) -> None:
        self._before("link", source)
        directory, name = self._parent(source)
        node = self._directories[directory].get(name)
        target_directory, target_name = self._parent(target)
        if node is None:
            raise _error(errno.ENOENT, source)
        if target_name in self._directories[target_directory]:
            raise _error(errno.EEXIST, target)
        self._directories[target_directory][target_name] = node
        self.trace.append(Create(target_directory, target_name, node, is_directory=False))

    def unlink(self, path: str) -> None:
        self._before("unlink", path)
        directory, name = self._parent(path)
        node = self._directories[directory].get(name)
        if node is None:
            raise _error(errno.ENOENT, path)
        if node in self._directories:
            raise _error(errno.EISDIR, path)
        self._remove(directory, name)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        self._before("mkdir", path)
        directory, name = self._parent(path)
        if name in self._directories[directory]:
            raise _error(errno.EEXIST, path)
        self._create(directory, name, is_directory=True)

    def rmdir(self, path: str) -> None:
        self._before("rmdir", path)
        node = self._directory(path)
        if self._directories[node]:
            raise _error(errno.ENOTEMPTY, path)
        self._remove(*self._parent(path))

    def listdir(self, path: str) -> list[str]:
        self._before("listdir", path)
        return list(self._directories[self._directory(path)])

    def exists(self, path: str) -> bool:
        try:
            directory, name = self._parent(path)
        except OSError:
            return False
        return name in self._directories[directory]

    def free_bytes(self, path: str) -> int:
        self._before("free_bytes", path)
        return _PLENTY_BYTES

    def total_bytes(self, path: str) -> int:
        self._before("total_bytes", path)
        return _PLENTY_BYTES

    # --------------------------------------------------------------------------------------------------

    def _before(self, call: str, path: str) -> int | None:
        return None if self.before_call is None else self.before_call(call, path)

    def _handle(self, fd: int) -> _Handle:
        handle = self._handles.get(fd)
        if handle is None:
            raise _error(errno.EBADF, str(fd))
        return handle

    def _parent(self, path: str) -> tuple[int, str]:
        parent, name = os.path.split(path)
        return self._directory(parent), name

    def _directory(self, path: str) -> int:
        node = ROOT
        for name in path.strip("/").split("/"):
            if name:
                found = self._directories[node].get(name)
                if found is None:
                    raise _error(errno.ENOENT, path)
                if found not in self._directories:
                    raise _error(errno.ENOTDIR, path)
                node = found
        return node

    def _create(self, directory: int, name: str, *, is_directory: bool) -> int:
        node = self._next_node
        self._next_node += 1
        if is_directory:
            self._directories[node] = {}
        else:
            self._files[node] = bytearray()
        self._directories[directory][name] = node
        self.trace.append(Create(directory, name, node, is_directory))
        return node

    def _remove(self, directory: int, name: str) -> None:
        del self._directories[directory][name]
        self.trace.append(Remove(directory, name))

    def _cut(self, node: int, length: int) -> None:
        content = self._files[node]
        if length < len(content):
            del content[length:]
        else:
            content.extend(bytes(length - len(content)))
        self.trace.append(Cut(node, length))

    def _sync(self, call: str, path: str, node: int) -> None:
        try:
            self._before(call, path)
        except OSError:
            self.trace.append(SyncFailed(node))
            raise
        self.trace.append(Sync(node))


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
