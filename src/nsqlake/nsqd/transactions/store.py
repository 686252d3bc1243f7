"""Where transactions live on disk until they are in the logs.

transactions/<producer>/done.0, done.1                     the last sequence that was committed
transactions/<producer>/<sequence>/<part>-<attempt>.staged what was sent (`staged_records`)
transactions/<producer>/<sequence>/commit.0, commit.1      from here on it happens, whatever crashes
transactions/<producer>/<sequence>.damaged                 committed, but not all of it could be read
"""

import errno
import logging
import os
import re
import secrets
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.txn_id import TxnId, is_producer
from nsqlake.topiclog.atomic_file import damaged_generations, read_atomic, remove_stale_temps, write_atomic
from nsqlake.topiclog.errors import describe
from nsqlake.topiclog.files import Files, remove_tree

__all__ = ["ChosenPart", "Commit", "Done", "Found", "PartKey", "StoredTransaction", "TransactionStore"]

PartKey = tuple[int, int]  # part and attempt

T = TypeVar("T")

logger = logging.getLogger(__name__)

_STAGED = re.compile(r"([0-9]{1,10})-([0-9]{1,19})\.staged")
_REMOVED = ".removed-"
_DAMAGED = ".damaged"


class ChosenPart(msgspec.Struct, array_like=True):
    """The attempt of a part that counts, and how much of it."""

    part: int
    attempt: int
    records: int
    messages: int

    @property
    def key(self) -> PartKey:
        return self.part, self.attempt


class Commit(msgspec.Struct):
    """Which attempts were chosen, and where each topic's log ended then: its UUID and offset."""

    parts: list[ChosenPart]
    logs: dict[str, tuple[str, int]]
    at_ns: int

    @property
    def message_count(self) -> int:
        return sum(part.messages for part in self.parts)


class Done(msgspec.Struct):
    """`lost` is how many messages of that transaction were damaged before they came to their logs."""

    sequence: int = -1
    used_ns: int = 0
    lost: int = 0


@dataclass
class StoredTransaction:
    parts: dict[PartKey, StagedPart]
    commit: Commit | None = None


@dataclass
class Found:
    """What a daemon before this one left; `unreadable` are producers and why nothing can be done for them."""

    producers: dict[str, Done] = field(default_factory=dict)
    transactions: dict[TxnId, StoredTransaction] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


class TransactionStore:
    """Every method blocks on the disk."""

    def __init__(self, files: Files, data_path: str) -> None:
        self.files, self.data_path = files, data_path
        self.path = os.path.join(data_path, "transactions")

    # Opening ------------------------------------------------------------------------------------------

    def open(self) -> Found:
        found = Found()
        if not self.files.exists(self.path):
            return found
        for name in sorted(self.files.listdir(self.path)):
            if name.startswith(_REMOVED):
                remove_tree(self.files, os.path.join(self.path, name))
            elif is_producer(name):
                try:
                    self._open_producer(name, found)
                except OSError as error:
                    found.unreadable[name] = describe(error)
                    logger.error("TXN(%s): transactions cannot be read, left as they are: %s", name, error)
        return found

    def _open_producer(self, producer: str, found: Found) -> None:
        directory = os.path.join(self.path, producer)
        remove_stale_temps(self.files, directory)
        done = self._read(directory, "done", Done) or Done()
        loaded: dict[TxnId, StoredTransaction] = {}
        for name in sorted(self.files.listdir(directory)):
            txn = TxnId.parse(f"{producer}.{name}")
            if name.startswith(_REMOVED) or (txn is not None and txn.sequence <= done.sequence):
                remove_tree(self.files, os.path.join(directory, name))
            elif txn is not None and str(txn.sequence) == name:
                loaded[txn] = self._load(txn)
        found.producers[producer] = done
        found.transactions.update(loaded)

    def _load(self, txn: TxnId) -> StoredTransaction:
        directory = self.directory(txn)
        remove_stale_temps(self.files, directory)
        parts: dict[PartKey, StagedPart] = {}
        for name in self.files.listdir(directory):
            if found := _STAGED.fullmatch(name):
                part = StagedPart.load(self.files, os.path.join(directory, name))
                parts[int(found[1]), int(found[2])] = part
                if part.cut_bytes:
                    logger.warning(
                        "TXN(%s): torn or damaged end ignored file=%s bytes=%d", txn, name, part.cut_bytes
                    )
        return StoredTransaction(parts, self._read(directory, "commit", Commit))

    def _read(self, directory: str, name: str, kind: type[T]) -> T | None:
        """OSError when a generation is damaged: an older one would tell of a past that is over."""
        path = os.path.join(directory, name)
        if damaged := damaged_generations(self.files, path):
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG), damaged[0])
        payload = read_atomic(self.files, path)
        try:
            return None if payload is None else msgspec.json.decode(payload, type=kind)
        except msgspec.DecodeError as error:
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG), path) from error

    # Writing ------------------------------------------------------------------------------------------

    def directory(self, txn: TxnId) -> str:
        return os.path.join(self.path, txn.producer, str(txn.sequence))

    def new_part(self, txn: TxnId, key: PartKey) -> StagedPart:
        """Nothing is made yet: see `make_directory`."""
        return StagedPart(self.files, os.path.join(self.directory(txn), f"{key[0]}-{key[1]}.staged"))

    def make_directory(self, txn: TxnId) -> None:
        directory = self.directory(txn)
        for path in (self.path, os.path.dirname(directory), directory):
            if not self.files.exists(path):
                self.files.mkdir(path)

    def sync_parts(self, txn: TxnId, parts: list[StagedPart]) -> None:
        """What was staged, which may be nothing, is durable when this returns."""
        self.make_directory(txn)
        for part in parts:
            part.sync()
        directory = self.directory(txn)
        for path in (directory, os.path.dirname(directory), self.path, self.data_path):
            self.files.sync_dir(path)

    def write_commit(self, txn: TxnId, commit: Commit) -> None:
        """Durable when this returns; after an OSError `has_commit` tells whether it might be."""
        write_atomic(self.files, os.path.join(self.directory(txn), "commit"), msgspec.json.encode(commit))

    def has_commit(self, txn: TxnId) -> bool:
        path = os.path.join(self.directory(txn), "commit")
        return self.files.exists(f"{path}.0") or self.files.exists(f"{path}.1")

    def write_done(self, producer: str, done: Done) -> None:
        """Durable when this returns."""
        write_atomic(self.files, os.path.join(self.path, producer, "done"), msgspec.json.encode(done))

    # Removing -----------------------------------------------------------------------------------------

    def hide(self, txn: TxnId) -> str | None:
        """Out of the way at once, so that it can be staged anew; returns what to `remove`.

        If that fails what is there is overwritten by what comes, and else goes at the next start.
        """
        return self._rename_away(self.directory(txn))

    def hide_producer(self, producer: str) -> str | None:
        return self._rename_away(os.path.join(self.path, producer))

    def remove(self, hidden: str) -> None:
        """As far as that works; what is left goes at the next start."""
        remove_tree(self.files, hidden)

    def keep_damaged(self, txn: TxnId) -> None:
        """Leave it to somebody who looks into it."""
        directory = self.directory(txn)
        try:
            self.files.rename(directory, directory + _DAMAGED)
        except OSError as error:
            logger.error("TXN(%s): not kept aside: %s", txn, error)

    def _rename_away(self, path: str) -> str | None:
        hidden = os.path.join(os.path.dirname(path), f"{_REMOVED}{secrets.token_hex(8)}")
        try:
            self.files.rename(path, hidden)
        except OSError:
            return None
        return hidden
