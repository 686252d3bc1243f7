"""From where a query is to where it may go: pure, on what the nodes said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nsqlake.spark.errors import DataLossError
from nsqlake.spark.offsets import LogBounds, LogPosition, Positions, QueryOffset, SourceKey

__all__ = ["Advance", "Survey", "advance", "starts_of", "stop_at"]


class Survey(NamedTuple):
    """What there is: the nodes that were asked, all of which answered, and the logs they have."""

    nodes: frozenset[str]
    bounds: Mapping[SourceKey, LogBounds]

    @property
    def ends(self) -> Positions:
        return Positions((key, LogPosition(found.next, found.log)) for key, found in self.bounds.items())


@dataclass
class Advance:
    """Where each log is read from, up to where there is anything, and what was lost on the way.

    `init` has the starts of logs that are new to the query, `absent` the logs whose nodes are not there now.
    """

    starts: Positions = field(default_factory=Positions)
    limits: Positions = field(default_factory=Positions)
    init: Positions = field(default_factory=Positions)
    losses: list[DataLossError] = field(default_factory=list)
    absent: set[SourceKey] = field(default_factory=set)


def advance(start: QueryOffset, survey: Survey, begin: Callable[[SourceKey, LogBounds], int]) -> Advance:
    """`begin` says where a log is read from that the query has not seen before.

    A log whose node is not there keeps its position: the node may come back, perhaps at another address.
    """
    result = Advance()
    homeless = {
        (key.topic, at.log): at for key, at in start.positions.items() if key.node not in survey.nodes
    }
    there = {(key.topic, found.log) for key, found in survey.bounds.items()}
    for key, known in start.positions.items():
        if key.node not in survey.nodes and (key.topic, known.log) not in there:
            result.absent.add(key)
            result.starts[key] = result.limits[key] = known
        elif key.node in survey.nodes and key not in survey.bounds:
            reason = f"was deleted after offset {known.offset} was read; what came after it is gone"
            result.losses.append(DataLossError(key.topic, key.node, reason))
    for key, found in survey.bounds.items():
        known_here = start.positions.get(key)
        before = known_here or homeless.get((key.topic, found.log))
        at = _go_on(key, before, found, result.losses) if before else _begin_at(begin(key, found), found)
        result.starts[key] = at
        result.limits[key] = LogPosition(max(found.next, at.offset), found.log)
        if known_here is None or known_here.log != found.log:
            result.init[key] = at
    return result


def _begin_at(offset: int, found: LogBounds) -> LogPosition:
    return LogPosition(min(max(offset, found.first), found.next), found.log)


def _go_on(key: SourceKey, known: LogPosition, found: LogBounds, losses: list[DataLossError]) -> LogPosition:
    if known.log != found.log:
        reason, at = f"was deleted and made anew after offset {known.offset} was read", found.first
    elif known.offset < found.first:
        reason, at = f"offsets {known.offset} to {found.first} are no longer kept", found.first
    elif known.offset > found.next:
        reason, at = f"ends at offset {found.next}, before {known.offset}, which was read", found.next
    else:
        return known
    losses.append(DataLossError(key.topic, key.node, reason))
    return LogPosition(at, found.log)


def stop_at(found: Advance, target: Positions) -> Positions:
    """The limits of `found`, but not beyond `target`; logs that are not in it wait for another time."""
    limits = Positions()
    for key, limit in found.limits.items():
        start, stop = found.starts[key], target.get(key)
        is_in_target = stop is not None and stop.log == limit.log
        at = min(limit.offset, stop.offset) if stop is not None and is_in_target else start.offset
        limits[key] = LogPosition(max(at, start.offset), limit.log)
    return limits


def starts_of(start: QueryOffset, end: QueryOffset) -> Positions:
    """Where the batch that ends at `end` begins in every log, whatever Spark says of the first batch."""
    starts = Positions()
    for key, position in end.positions.items():
        known = start.positions.get(key)
        if known is None or known.log != position.log:
            known = (end.init or Positions()).get(key, position)
        starts[key] = known
    return starts
