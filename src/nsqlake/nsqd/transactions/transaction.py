"""One transaction that is not done yet."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nsqlake.nsqd.transactions.applying import Applied
from nsqlake.nsqd.transactions.errors import BusyError, ForeignError, IncompleteError
from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.nsqd.transactions.store import ChosenPart, Commit, PartKey
from nsqlake.nsqd.transactions.txn_id import TxnId

__all__ = ["Transaction", "check_chosen"]


@dataclass
class Transaction:
    """`commit` is set once it happens, whatever comes; `applied` is what each log holds of it, by UUID."""

    parts: dict[PartKey, StagedPart] = field(default_factory=dict)
    commit: Commit | None = None
    owner: str | None = None  # None: nobody knows any more, so anybody who may publish may go on with it
    used_ns: int = 0
    is_deciding: bool = False
    is_recorded: bool = True  # False: the commit may not be on the disk
    applied: dict[bytes, Applied] = field(default_factory=dict)
    failed_reads: Counter[PartKey] = field(default_factory=Counter)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())

    @property
    def record_count(self) -> int:
        return sum(len(part.records) for part in self.parts.values())

    @property
    def topics(self) -> set[str]:
        if self.commit is not None:
            return set(self.commit.logs)
        return {topic for part in self.parts.values() for topic in part.topics}

    def check_changeable(self, txn: TxnId, owner: str) -> None:
        """Raises ForeignError and BusyError."""
        if self.owner not in (None, owner):
            raise ForeignError(txn)
        if self.is_deciding:
            raise BusyError(txn)


def check_chosen(txn: TxnId, chosen: Sequence[ChosenPart], parts: dict[PartKey, StagedPart]) -> list[PartKey]:
    """The attempts that count, parts in order; IncompleteError unless all they are to have is there."""
    keys: list[PartKey] = []
    for each in chosen:
        part = parts.get(each.key)
        records, messages = (0, 0) if part is None else (len(part.records), part.message_count)
        name = f"part {each.part} attempt {each.attempt}"
        if (records, messages) != (each.records, each.messages):
            raise IncompleteError(
                txn,
                f"{name} has {records} records with {messages} messages, "
                f"not {each.records} with {each.messages}",
            )
        if part is not None and part.is_lost:
            raise IncompleteError(txn, f"{name} could not be written to the disk")
        if part is not None:
            keys.append(each.key)
    if len({part for part, _ in keys}) != len(keys):
        raise IncompleteError(txn, "two attempts of one part were chosen")
    return sorted(keys)
