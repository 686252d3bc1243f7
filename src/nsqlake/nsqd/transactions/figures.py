"""Transactions in numbers."""

from typing import NamedTuple

__all__ = ["NO_TRANSACTIONS", "Figures"]


class Figures(NamedTuple):
    """For metrics: what there is, and what happened since the start."""

    open: int = 0
    stalled: int = 0  # committed, but something keeps them out of the logs
    staged_bytes: int = 0
    committed: int = 0
    expired: int = 0
    lost_messages: int = 0


NO_TRANSACTIONS = Figures()
