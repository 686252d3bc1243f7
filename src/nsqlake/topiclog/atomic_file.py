"""Small files that are replaced whole: whatever happens, one of the last two contents is read back.

Two generations live beside each other, `<path>.0` and `<path>.1`. A write goes to a temporary file, which is
synced and then renamed over the older generation, so the newer one is never touched:

    magic b"NQA1" (4) | crc32c of what follows (4) | generation (8) | length (4) | payload
"""

import errno
import os
import struct
from collections.abc import Callable

import google_crc32c

from nsqlake.topiclog.files import Files, read_all, write_all

__all__ = [
    "damaged_generations",
    "read_atomic",
    "read_newest",
    "remove_atomic",
    "remove_stale_temps",
    "spoil_atomic",
    "write_atomic",
]

_PREFIX = struct.Struct(">4sI")
_HEAD = struct.Struct(">QI")
_MAGIC = b"NQA1"
_TEMP_SUFFIX = ".tmp"
_NONE = -1
_UNREADABLE = -2  # below every other number: it is replaced first


def write_atomic(files: Files, path: str, payload: bytes, *, temp_tag: str | None = None) -> None:
    """Make `payload` the content of `path`, durable when this returns; on an error the old content stays."""
    numbers = [_generation_number(files, _name(path, number)) for number in (0, 1)]
    if max(numbers) == _UNREADABLE:
        # One of them might be read again later, and win over what is written now.
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    older = _name(path, 0 if numbers[0] <= numbers[1] else 1)
    temp = f"{path}.{temp_tag or os.getpid()}{_TEMP_SUFFIX}"
    try:
        _write_synced(files, temp, _encode(max(*numbers, _NONE) + 1, payload))
        files.rename(temp, older)
    except OSError:
        _discard(files, temp)
        raise
    files.sync_dir(os.path.dirname(path) or ".")


def read_atomic(files: Files, path: str) -> bytes | None:
    """The newest valid content, or None when no generation is whole."""
    return read_newest(files, path)[0]


def read_newest(files: Files, path: str) -> tuple[bytes | None, bool]:
    """What `read_atomic` returns, and whether both generations are whole: then nothing newer was lost.

    Both from one reading: a generation that cannot be read now may be readable a moment later.
    """
    entries = [_read_generation(files, _name(path, number)) for number in (0, 1)]
    valid = [entry for entry in entries if entry is not None]
    return (max(valid)[1] if valid else None), len(valid) == len(entries)


def damaged_generations(files: Files, path: str) -> list[str]:
    """The generations that exist and are not whole; raises `OSError` when one cannot be read."""
    present = [name for name in (_name(path, 0), _name(path, 1)) if files.exists(name)]
    return [name for name in present if _decode(read_all(files, name)) is None]


def spoil_atomic(files: Files, path: str, is_unwanted: Callable[[bytes], bool]) -> None:
    """Make the generations with unwanted contents unreadable for good; unlike a write it needs no room."""
    for name in (_name(path, 0), _name(path, 1)):
        entry = _read_generation(files, name)
        if entry is not None and is_unwanted(entry[1]):
            fd = files.open(name, os.O_WRONLY)
            try:
                files.ftruncate(fd, 0)
                files.fsync(fd)
            finally:
                files.close(fd)


def remove_atomic(files: Files, path: str) -> None:
    """Remove both generations; the caller syncs the directory."""
    for number in (0, 1):
        if files.exists(_name(path, number)):
            files.unlink(_name(path, number))


def remove_stale_temps(files: Files, directory: str) -> list[str]:
    """Remove what an interrupted `write_atomic` left behind."""
    stale = [name for name in files.listdir(directory) if name.endswith(_TEMP_SUFFIX)]
    for name in stale:
        files.unlink(os.path.join(directory, name))
    return stale


def _name(path: str, number: int) -> str:
    return f"{path}.{number}"


def _encode(generation: int, payload: bytes) -> bytes:
    body = _HEAD.pack(generation, len(payload)) + payload
    return _PREFIX.pack(_MAGIC, google_crc32c.value(body)) + body


def _decode(data: bytes) -> tuple[int, bytes] | None:
    if len(data) < _PREFIX.size + _HEAD.size:
        return None
    magic, crc = _PREFIX.unpack_from(data)
    body = data[_PREFIX.size :]
    generation, length = _HEAD.unpack_from(body)
    payload = body[_HEAD.size :]
    whole = magic == _MAGIC and length == len(payload) and crc == google_crc32c.value(body)
    return (generation, payload) if whole else None


def _generation_number(files: Files, path: str) -> int:
    try:
        entry = _decode(read_all(files, path))
    except FileNotFoundError:
        return _NONE
    except OSError:
        return _UNREADABLE
    return _NONE if entry is None else entry[0]


def _read_generation(files: Files, path: str) -> tuple[int, bytes] | None:
    try:
        return _decode(read_all(files, path))
    except OSError:
        return None


def _write_synced(files: Files, path: str, data: bytes) -> None:
    fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, fd, data)
        files.fsync(fd)
    finally:
        files.close(fd)


def _discard(files: Files, path: str) -> None:
    try:
        files.unlink(path)
    except OSError:
        # It is a temporary file: `remove_stale_temps` gets it at the next start.
        return
