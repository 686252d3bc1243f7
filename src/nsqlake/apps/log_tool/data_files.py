"""Which topics a path holds, whether the last nsqd stopped cleanly, and whether one runs there now."""

import fcntl
import os
from dataclasses import dataclass

import msgspec

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.data_store import BootState
from nsqlake.nsqd.topic_store import topic_directory, topic_name
from nsqlake.topiclog.atomic_file import read_newest
from nsqlake.topiclog.files import Files
from nsqlake.topiclog.segment import parse_segment_name

__all__ = ["DataFiles", "UnusablePathError", "find_data_files", "lock_holder"]


class UnusablePathError(NsqlakeError):
    """The path is not one this tool can work on."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class DataFiles:
    """`data_path` is None for a topic directory that was copied alone; then nobody knows of a clean stop."""

    data_path: str | None
    topics: dict[str, str]  # name to directory
    is_clean: bool | None


def find_data_files(files: Files, path: str) -> DataFiles:
    """What is at `path`: a data path, a topic's directory, or the log directory in it."""
    try:
        names = set(files.listdir(path))
    except OSError as error:
        raise UnusablePathError(path, os.strerror(error.errno or 0).lower()) from error
    if "topics" in names:
        return DataFiles(path, _topics(files, os.path.join(path, "topics")), _is_clean(files, path))
    topic = os.path.abspath(path)
    if any(parse_segment_name(name) is not None or name.startswith("identity.") for name in names):
        topic = os.path.dirname(topic)
    elif "log" not in names:
        raise UnusablePathError(
            path, "neither a data path (with topics/) nor a topic's directory (with log/)"
        )
    name = os.path.basename(topic)
    above = os.path.dirname(os.path.dirname(topic))
    data_path = above if os.path.basename(os.path.dirname(topic)) == "topics" else None
    is_clean = None if data_path is None else _is_clean(files, data_path)
    return DataFiles(data_path, {topic_name(name) or name: topic}, is_clean)


def lock_holder(data_path: str | None) -> str | None:
    """Who runs on this data path, as a text, None when nobody does. The lock is given back at once."""
    if data_path is None:
        return None
    fd = os.open(data_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = _locking_process(os.fstat(fd))
        return "an nsqd" if pid is None else f"an nsqd (process {pid})"
    finally:
        os.close(fd)
    return None


def _locking_process(status: os.stat_result) -> int | None:
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as table:
            lines = [line.split() for line in table]
    except OSError:
        return None
    return next((int(line[4]) for line in lines if line[1] == "FLOCK" and line[5] == device), None)


def _topics(files: Files, path: str) -> dict[str, str]:
    names = [name for entry in files.listdir(path) if (name := topic_name(entry)) is not None]
    return {name: os.path.join(path, topic_directory(name)) for name in sorted(names)}


def _is_clean(files: Files, data_path: str) -> bool | None:
    payload, is_certain = read_newest(files, os.path.join(data_path, "boot"))
    if payload is None:
        return None
    try:
        return msgspec.json.decode(payload, type=BootState).clean and is_certain
    except msgspec.DecodeError:
        return None
