"""From where a query is to where it may go: pure, on what the nodes said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nsqlake.spark.errors import DataLossError
from nsqlake.spark.logs import LogBounds
from nsqlake.spark.offsets import LogPosition, Positions, QueryOffset, SourceKey

__all__ = ["Advance", "Loss", "advance", "starts_of"]


@dataclass(frozen=True)
class Loss:
    """Messages that are gone: from where the query was to where it goes on."""

    key: SourceKey
    reason: str

    def error(self) -> DataLossError:
        return DataLossError(self.key.topic, self.key.node, self.reason)


@dataclass
class Advance:
    """Where each log is read from, up to where there is anything, and what was lost on the way."""

    starts: Positions = field(default_factory=Positions)
    limits: Positions = field(default_factory=Positions)
    init: Positions = field(default_factory=Positions)
    losses: list[Loss] = field(default_factory=list)


def advance(
    start: QueryOffset,
    bounds: Mapping[SourceKey, LogBounds],
    begin: Callable[[SourceKey, LogBounds], int],
) -> Advance:
    """`begin` says where a log is read from that the query has not seen before.

    A log that no node has any more keeps its position: its node may be down for a while, and come back.
    """
    result = Advance(init=Positions(start.init))
    for key, position in start.positions.items():
        if key not in bounds:
            result.starts[key] = result.limits[key] = position
    for key, found in bounds.items():
        known = start.positions.get(key)
        if known is None:
            at = min(max(begin(key, found), found.first), found.next)
            result.init[key] = result.starts[key] = LogPosition(at, found.log)
        else:
            result.starts[key] = _go_on(key, known, found, result.losses)
            if known.log != found.log:
                result.init[key] = result.starts[key]
        result.limits[key] = LogPosition(max(found.next, result.starts[key].offset), found.log)
    return result


def _go_on(key: SourceKey, known: LogPosition, found: LogBounds, losses: list[Loss]) -> LogPosition:
    if known.log != found.log:
        losses.append(Loss(key, f"was deleted and made anew after offset {known.offset} was read"))
        return LogPosition(found.first, found.log)
    if known.offset < found.first:
        losses.append(
            Loss(key, f"offsets {known.offset} to {found.first} are no longer kept; see --retention-time")
        )
        return LogPosition(found.first, found.log)
    if known.offset > found.next:
        losses.append(Loss(key, f"ends at offset {found.next}, before {known.offset}, which was read"))
        return LogPosition(found.next, found.log)
    return known


def starts_of(start: QueryOffset, end: QueryOffset) -> Positions:
    """Where the batch that ends at `end` begins in every log, whatever Spark says of the first batch.

    A log that the batch before had not seen, or whose log was another one, begins where `end` says.
    """
    starts = Positions()
    for key, position in end.positions.items():
        known = start.positions.get(key)
        if known is None or known.log != position.log:
            known = end.init.get(key, position)
        starts[key] = known
    return starts
