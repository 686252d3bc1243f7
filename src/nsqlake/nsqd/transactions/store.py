"""Where transactions live on disk until they are in the logs.

transactions/<producer>/done.0, done.1                     the last sequence that was committed
transactions/<producer>/<sequence>/<part>-<attempt>.staged what was sent (`staged_records`)
transactions/<producer>/<sequence>/commit.0, commit.1      from here on it happens, whatever crashes
"""

import os
import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.topiclog.atomic_file import read_atomic, remove_stale_temps, write_atomic
from nsqlake.topiclog.files import Files, remove_tree

__all__ = ["Commit", "Done", "PartKey", "StoredTransaction", "TransactionStore"]

PartKey = tuple[int, int]  # part and attempt

T = TypeVar("T")

_STAGED = re.compile(r"([0-9]{1,10})-([0-9]{1,19})\.staged")


class Commit(msgspec.Struct):
    """Which attempts were chosen, and where each topic's log ended then: its UUID and offset."""

    parts: list[PartKey]
    logs: dict[str, tuple[str, int]]
    at_ns: int


class Done(msgspec.Struct):
    sequence: int = -1
    used_ns: int = 0


@dataclass
class StoredTransaction:
    parts: dict[PartKey, StagedPart]
    commit: Commit | None = None


class TransactionStore:
    """Every method blocks on the disk."""

    def __init__(self, files: Files, data_path: str) -> None:
        self.files = files
        self.path = os.path.join(data_path, "transactions")

    def open(self) -> tuple[dict[str, Done], dict[TxnId, StoredTransaction]]:
        """What a daemon before this one left."""
        if not self.files.exists(self.path):
            return {}, {}
        producers: dict[str, Done] = {}
        transactions: dict[TxnId, StoredTransaction] = {}
        for producer in sorted(self.files.listdir(self.path)):
            directory = os.path.join(self.path, producer)
            remove_stale_temps(self.files, directory)
            done = producers[producer] = self._read(directory, "done", Done) or Done()
            for name in sorted(self.files.listdir(directory)):
                txn = TxnId.parse(f"{producer}.{name}")
                if txn is not None and txn.sequence <= done.sequence:
                    self.remove(txn)
                elif txn is not None:
                    transactions[txn] = self._load(txn)
        return producers, transactions

    def _load(self, txn: TxnId) -> StoredTransaction:
        directory = self.directory(txn)
        remove_stale_temps(self.files, directory)
        parts: dict[PartKey, StagedPart] = {}
        for name in self.files.listdir(directory):
            if found := _STAGED.fullmatch(name):
                path = os.path.join(directory, name)
                parts[int(found[1]), int(found[2])] = StagedPart.load(self.files, path)
        return StoredTransaction(parts, self._read(directory, "commit", Commit))

    def directory(self, txn: TxnId) -> str:
        return os.path.join(self.path, txn.producer, str(txn.sequence))

    def make_part(self, txn: TxnId, key: PartKey) -> StagedPart:
        directory = self.directory(txn)
        for path in (self.path, os.path.dirname(directory), directory):
            if not self.files.exists(path):
                self.files.mkdir(path)
        return StagedPart(self.files, os.path.join(directory, f"{key[0]}-{key[1]}.staged"))

    def write_commit(self, txn: TxnId, commit: Commit, parts: list[StagedPart]) -> None:
        """What was staged is durable, and so is the decision, when this returns."""
        for part in parts:
            part.sync()
        directory = self.directory(txn)
        for path in (directory, os.path.dirname(directory), self.path, os.path.dirname(self.path)):
            self.files.sync_dir(path)
        write_atomic(self.files, os.path.join(directory, "commit"), msgspec.json.encode(commit))

    def write_done(self, producer: str, done: Done) -> None:
        """Durable when this returns."""
        write_atomic(self.files, os.path.join(self.path, producer, "done"), msgspec.json.encode(done))

    def remove(self, txn: TxnId) -> None:
        """As far as that works; what is left goes at the next start."""
        remove_tree(self.files, self.directory(txn))

    def remove_producer(self, producer: str) -> None:
        remove_tree(self.files, os.path.join(self.path, producer))

    def _read(self, directory: str, name: str, kind: type[T]) -> T | None:
        payload = read_atomic(self.files, os.path.join(directory, name))
        return None if payload is None else msgspec.json.decode(payload, type=kind)
