"""The name of a transaction: whose it is, and which one of theirs."""

import re
from typing import NamedTuple

__all__ = ["MAX_NUMBER", "TxnId", "is_producer"]

MAX_NUMBER = 2**63 - 1  # of sequences, and of attempts: room for random ones

_PRODUCER = re.compile(r"[A-Za-z0-9_-]{1,96}")
_TEXT = re.compile(rf"({_PRODUCER.pattern})\.([0-9]{{1,19}})")


class TxnId(NamedTuple):
    """`<producer>.<sequence>`; a producer's sequences only grow. For Spark: query id and batch id."""

    producer: str
    sequence: int

    @classmethod
    def parse(cls, text: str) -> "TxnId | None":
        found = _TEXT.fullmatch(text)
        if found is None or int(found[2]) > MAX_NUMBER:
            return None
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.producer}.{self.sequence}"


def is_producer(name: str) -> bool:
    """Whether it can be the name of a producer: it is safe as that of a directory then."""
    return _PRODUCER.fullmatch(name) is not None
