"""What the bounds of the options mean in a log."""

from collections.abc import Callable

from nsqlake.spark.errors import DataLossError, OptionError
from nsqlake.spark.logs import LogBounds
from nsqlake.spark.offsets import SourceKey
from nsqlake.spark.options import CHANNEL, EARLIEST, Bound

__all__ = ["check_offset", "resolve_bound"]

Cursor = Callable[[SourceKey, int], int]


def resolve_bound(option: str, bound: Bound, key: SourceKey, found: LogBounds, cursor: Cursor) -> int:
    """The offset where reading begins or ends. `cursor` tells where the query's channel is.

    Raises OptionError for an offset that the log never had, DataLossError for one that it had.
    """
    if bound.timestamp_ns is not None:
        assert found.at is not None, "the bounds were asked for with this time"
        return found.at
    if bound.offsets is not None:
        offset = bound.offsets.get(key)
        if offset is None:
            raise OptionError(option, None, f"has no offset for topic {key.topic} on node {key.node}")
        return _word(offset, found) if offset < 0 else check_offset(option, offset, key, found)
    if bound.default == CHANNEL:
        return max(cursor(key, found.first), found.first)
    return _word(int(bound.default), found)


def check_offset(option: str, offset: int, key: SourceKey, found: LogBounds) -> int:
    if offset > found.next:
        reason = f"topic {key.topic} on node {key.node} ends at offset {found.next}"
        raise OptionError(option, offset, reason)
    if offset < found.first:
        raise DataLossError(key.topic, key.node, f"offset {offset} of {option} is older than {found.first}")
    return offset


def _word(word: int, found: LogBounds) -> int:
    return found.first if word == EARLIEST else found.next
