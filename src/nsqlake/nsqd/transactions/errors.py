"""Why a transaction cannot go on.

TransactionError           reason
├── GapError               a record is missing before the one that came
├── IncompleteError        a chosen attempt is not there, or not whole
├── UnknownError           nothing was staged for it
├── DecidedError           it is committed: nothing can be staged for it or taken back
├── ForeignError           somebody else staged it
└── NoRoomError            --max-txn-bytes
"""

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.transactions.txn_id import TxnId

__all__ = [
    "DecidedError",
    "ForeignError",
    "GapError",
    "IncompleteError",
    "NoRoomError",
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


class ForeignError(TransactionError):
    """Only who staged a transaction may commit or abort it."""

    def __init__(self, txn: TxnId) -> None:
        super().__init__(txn, "was staged by somebody else")


class NoRoomError(TransactionError):
    """Too much is staged."""

    retriable = True

    def __init__(self, txn: TxnId, limit_bytes: int) -> None:
        super().__init__(txn, f"--max-txn-bytes is {limit_bytes}")
        self.limit_bytes = limit_bytes
