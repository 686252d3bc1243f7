"""The name of a transaction: whose it is, and which one of theirs."""

import re
from typing import NamedTuple

__all__ = ["MAX_SEQUENCE", "TxnId"]

MAX_SEQUENCE = 2**63 - 1

_TEXT = re.compile(r"([A-Za-z0-9_-]{1,96})\.([0-9]{1,19})")


class TxnId(NamedTuple):
    """`<producer>.<sequence>`; a producer's sequences only grow. For Spark: query id and batch id."""

    producer: str
    sequence: int

    @classmethod
    def parse(cls, text: str) -> "TxnId | None":
        found = _TEXT.fullmatch(text)
        if found is None or int(found[2]) > MAX_SEQUENCE:
            return None
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.producer}.{self.sequence}"
