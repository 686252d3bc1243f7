"""Why a transaction cannot go on.

TransactionError           txn, reason
├── GapError               a record is missing before the one that came
├── DifferentError         another record came under the number of one that is there
├── IncompleteError        a chosen attempt is not there, not whole, or damaged
├── UnknownError           nothing was staged for it
├── DecidedError           it is committed: it cannot be taken back
├── BusyError              it is being committed
├── ForeignError           somebody else staged it
├── NoRoomError            too much is staged
└── RefusedError           this nsqd takes nothing now
"""

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.transactions.txn_id import TxnId

__all__ = [
    "BusyError",
    "DecidedError",
    "DifferentError",
    "ForeignError",
    "GapError",
    "IncompleteError",
    "NoRoomError",
    "RefusedError",
    "TransactionError",
    "UnknownError",
]


class TransactionError(NsqlakeError):
    """The reason is for the client."""

    def __init__(self, txn: TxnId, reason: str) -> None:
        super().__init__(f"TXN({txn}): {reason}")
        self.txn, self.reason = txn, reason


class GapError(TransactionError):
    """Records come in order."""

    def __init__(self, txn: TxnId, *, number: int, expected: int) -> None:
        super().__init__(txn, f"record {number} came where {expected} was expected")
        self.number, self.expected = number, expected


class DifferentError(TransactionError):
    """Two writers under the name of one attempt, perhaps: what is there must not be taken for theirs."""

    def __init__(self, txn: TxnId, *, number: int) -> None:
        super().__init__(txn, f"record {number} was sent before with other content")
        self.number = number


class IncompleteError(TransactionError):
    """What is to be committed is not what was staged."""


class UnknownError(TransactionError):
    """Nothing is known of the transaction: never staged, aborted or expired."""

    def __init__(self, txn: TxnId) -> None:
        super().__init__(txn, "nothing was staged, or it has expired")


class DecidedError(TransactionError):
    """It cannot be undone."""

    def __init__(self, txn: TxnId) -> None:
        super().__init__(txn, "is committed already")


class BusyError(TransactionError):
    """Nothing can be changed while it is decided whether it happens."""

    retriable = True

    def __init__(self, txn: TxnId) -> None:
        super().__init__(txn, "is being committed")


class ForeignError(TransactionError):
    """Only who staged a transaction may go on with it."""

    def __init__(self, txn: TxnId) -> None:
        super().__init__(txn, "was staged by somebody else")


class NoRoomError(TransactionError):
    """Too much is staged."""

    retriable = True


class RefusedError(TransactionError):
    """The daemon drains or stops, or a topic cannot take messages; nothing was decided by this."""

    retriable = True
