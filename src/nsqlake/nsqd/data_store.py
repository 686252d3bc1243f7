"""The data path as a whole: which topics there are, and whether the last daemon stopped cleanly.

boot.0, boot.1      the mark of a clean stop and the highest offset ever given out (checksummed)
topics/             one directory per topic
topics/.deleted-*   topics on their way out
"""

import os
from threading import Lock

import msgspec

from nsqlake.nsqd.topic_store import TopicStore, topic_directory, topic_name
from nsqlake.topiclog.atomic_file import read_newest, spoil_atomic, write_atomic
from nsqlake.topiclog.files import Files, remove_tree
from nsqlake.wire.names import is_valid_name

__all__ = ["BootState", "DataStore"]

_DELETED = ".deleted-"


class BootState(msgspec.Struct):
    clean: bool = False
    high_water: int = 0


class DataStore:
    """One data path. Every method blocks on the disk."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.topics_path = os.path.join(path, "topics")
        self._boot_path = os.path.join(path, "boot")
        self.high_water = 0
        self._is_mark_missing = False
        self._marking = Lock()  # topics are made and deleted on several threads at once

    def open(self) -> tuple[bool, list[str]]:
        """Whether the last daemon stopped cleanly, and the names of the topics."""
        boot, is_certain = self._read_boot()
        if not self.files.exists(self.topics_path):
            self.files.mkdir(self.topics_path)
            self.files.sync_dir(self.path)
        names: list[str] = []
        for entry in sorted(self.files.listdir(self.topics_path)):
            # The suffix tells a topic that is called like one on its way out.
            if entry.startswith(_DELETED) and topic_name(entry) is None:
                self.remove(os.path.join(self.topics_path, entry))
                continue
            name = topic_name(entry)
            if name is not None and is_valid_name(name.encode("utf-8", "surrogateescape")):
                names.append(name)
        # A data path without topics gave out no offsets that could be given out again.
        # A damaged generation may have been the newer one, that of a start after the clean stop.
        clean = not names if boot is None else boot.clean and is_certain
        self.high_water = 0 if boot is None else boot.high_water
        return clean, names

    def mark(self, *, clean: bool) -> None:
        """Durable when it returns."""
        with self._marking:
            self._write_mark(clean=clean)

    def _write_mark(self, *, clean: bool) -> None:
        self._is_mark_missing = True
        write_atomic(self.files, self._boot_path, msgspec.json.encode(BootState(clean, self.high_water)))
        self._is_mark_missing = False

    def mark_start(self) -> OSError | None:
        """Record that a daemon runs, or return why not, for want of room: then no clean stop is on record.

        Raises OSError when not even that can be had: the next start would take a crash for a clean stop.
        """
        try:
            self.mark(clean=False)
        except OSError as error:
            spoil_atomic(self.files, self._boot_path, _is_clean)
            return error
        return None

    def require_mark(self) -> None:
        """Before a new topic gives out offsets: what the start could not record has to be by now."""
        with self._marking:
            if self._is_mark_missing:
                self._write_mark(clean=False)

    def store(self, name: str) -> TopicStore:
        return TopicStore(self.files, os.path.join(self.topics_path, topic_directory(name)))

    def first_offset(self, now_ns: int) -> int:
        """Where a new log begins: beyond every offset ever given out on this data path."""
        return max(now_ns // 1000, self.high_water) + 1

    def hide(self, name: str, tag: str, next_offset: int) -> str:
        """First step of deleting a topic: after it the topic is gone for good. Returns what to remove."""
        self.high_water = max(self.high_water, next_offset)
        self.mark(clean=False)
        hidden = os.path.join(self.topics_path, f"{_DELETED}{tag}")
        if self.files.exists(self.store(name).path):  # else an earlier attempt came that far
            self.files.rename(self.store(name).path, hidden)
        self.files.sync_dir(self.topics_path)
        return hidden

    def remove(self, hidden: str) -> None:
        """Last step of deleting a topic; what cannot be removed now goes at the next start."""
        remove_tree(self.files, hidden)

    def _read_boot(self) -> tuple[BootState | None, bool]:
        """The last state, and whether it certainly is that."""
        payload, is_certain = read_newest(self.files, self._boot_path)
        return (None if payload is None else _decode(payload)), is_certain


def _decode(payload: bytes) -> BootState | None:
    try:
        return msgspec.json.decode(payload, type=BootState)
    except msgspec.DecodeError:
        return None


def _is_clean(payload: bytes) -> bool:
    boot = _decode(payload)
    return boot is not None and boot.clean
