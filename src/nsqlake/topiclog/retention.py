"""Which segments may go: a pure decision.

A segment goes when no channel needs it and neither rule of the policy keeps it. The rules are a floor, not a
limit: what a channel has yet to finish stays, however old it is and however much there is of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Extent", "RetentionPolicy", "removable"]


class Extent(NamedTuple):
    """What the decision needs to know of a segment."""

    base: int
    end: int
    nbytes: int
    newest_ns: int


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What is kept although nobody needs it; a segment stays when either rule keeps it."""

    keep_bytes: int = 0  # the newest segments, as long as they are not more than this together
    keep_after_ns: int | None = None  # segments with a message of this time or later


KEEP_NOTHING = RetentionPolicy()


def removable(
    extents: Sequence[Extent],
    needed: Callable[[int, int], bool],
    policy: RetentionPolicy = KEEP_NOTHING,
) -> list[int]:
    """The numbers of the segments that no channel needs and no rule keeps, oldest first."""
    chosen = []
    newer_bytes = 0
    for number in range(len(extents) - 1, -1, -1):
        extent = extents[number]
        newer_bytes += extent.nbytes
        if newer_bytes <= policy.keep_bytes:
            continue
        if policy.keep_after_ns is not None and extent.newest_ns >= policy.keep_after_ns:
            continue
        if not needed(extent.base, extent.end):
            chosen.append(number)
    return chosen[::-1]
