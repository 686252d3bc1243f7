"""What the bounds of the options mean in a log."""

from collections.abc import Iterable
from typing import Protocol

from nsqlake.spark.errors import DataLossError, OptionError
from nsqlake.spark.offsets import LogBounds, SourceKey
from nsqlake.spark.options import CHANNEL, EARLIEST, Bound

__all__ = ["Places", "check_keys", "resolve_bound", "resolve_later"]


class Places(Protocol):
    """Who knows places in a log that are not in its bounds."""

    def offset_at(self, key: SourceKey, timestamp_ns: int) -> int:
        """The first message of a time."""

    def cursor(self, key: SourceKey, first: int) -> int:
        """Where the query's channel is; `first` if it has to be made."""


def resolve_bound(option: str, bound: Bound, key: SourceKey, found: LogBounds, places: Places) -> int:
    """The offset where reading begins or ends.

    Raises OptionError for an offset that the log never had, DataLossError for one that it had.
    """
    if bound.timestamp_ns is not None:
        return places.offset_at(key, bound.timestamp_ns)
    if bound.offsets is not None:
        offset = bound.offsets.get(key)
        if offset is None:
            raise OptionError(option, None, f"has no offset for topic {key.topic} on node {key.node}")
        return _word(offset, found) if offset < 0 else _check_offset(option, offset, key, found)
    if bound.default == CHANNEL:
        return max(places.cursor(key, found.first), found.first)
    return _word(int(bound.default), found)


def resolve_later(bound: Bound, key: SourceKey, found: LogBounds, places: Places) -> int:
    """Where a log begins that came when the query was running: all that is in it came later, too."""
    if bound.timestamp_ns is not None:
        return places.offset_at(key, bound.timestamp_ns)
    if bound.default == CHANNEL:
        return max(places.cursor(key, found.first), found.first)
    return found.first


def check_keys(option: str, bound: Bound, keys: Iterable[SourceKey]) -> None:
    """OptionError for an offset of a log that is not there: its name must be wrong."""
    for key in sorted(set(bound.offsets or ()) - set(keys)):
        raise OptionError(option, None, f"there is no topic {key.topic} on node {key.node}")


def _check_offset(option: str, offset: int, key: SourceKey, found: LogBounds) -> int:
    if offset > found.next:
        reason = f"topic {key.topic} on node {key.node} ends at offset {found.next}"
        raise OptionError(option, offset, reason)
    if offset < found.first:
        reason = f"offset {offset} of {option} is older than {found.first}, where the log begins"
        raise DataLossError(key.topic, key.node, reason, resume=found.first)
    return offset


def _word(word: int, found: LogBounds) -> int:
    return found.first if word == EARLIEST else found.next
