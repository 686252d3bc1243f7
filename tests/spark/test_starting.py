"""What the bounds of the options mean in a log."""

import pytest

from nsqlake.spark.errors import DataLossError, OptionError
from nsqlake.spark.offsets import LogBounds, SourceKey
from nsqlake.spark.options import CHANNEL, EARLIEST, LATEST, Bound
from nsqlake.spark.starting import check_keys, resolve_bound, resolve_later

KEY = SourceKey("t", "n:1")
FOUND = LogBounds("f00d", 10, 90)


class Places:
    def __init__(self, cursor: int = 30) -> None:
        self._cursor = cursor

    def offset_at(self, key: SourceKey, timestamp_ns: int) -> int:
        return timestamp_ns // 1000

    def cursor(self, key: SourceKey, first: int) -> int:
        return self._cursor


def resolve(bound: Bound, **places: int) -> int:
    return resolve_bound("startingOffsets", bound, KEY, FOUND, Places(**places))


@pytest.mark.parametrize(
    ("bound", "offset", "later"),
    [
        (Bound(EARLIEST), 10, 10),
        (Bound(LATEST), 90, 10),
        (Bound(CHANNEL), 30, 30),
        (Bound(timestamp_ns=40_000), 40, 40),
        (Bound(offsets={KEY: 50}), 50, 10),
        (Bound(offsets={KEY: 90}), 90, 10),
        (Bound(offsets={KEY: EARLIEST}), 10, 10),
        (Bound(offsets={KEY: LATEST}), 90, 10),
    ],
)
def test_where_logs_begin_that_are_there_at_first_or_come_later(
    bound: Bound, offset: int, later: int
) -> None:
    assert resolve(bound) == offset
    assert resolve_later(bound, KEY, FOUND, Places()) == later


def test_a_channel_that_fell_behind_retention_begins_where_the_log_does() -> None:
    assert resolve(Bound(CHANNEL), cursor=5) == 10
    assert resolve_later(Bound(CHANNEL), KEY, FOUND, Places(5)) == 10


def test_every_log_needs_its_offset() -> None:
    with pytest.raises(OptionError, match="option startingOffsets: has no offset for topic t on node n:1"):
        resolve(Bound(offsets={}))


def test_an_offset_beyond_the_end_was_never_there() -> None:
    with pytest.raises(OptionError, match="startingOffsets '91': topic t on node n:1 ends at offset 90"):
        resolve(Bound(offsets={KEY: 91}))


def test_an_offset_before_the_beginning_is_gone() -> None:
    with pytest.raises(DataLossError, match="offset 9 of startingOffsets is older than 10") as loss:
        resolve(Bound(offsets={KEY: 9}))

    assert loss.value.resume == 10


def test_offsets_of_logs_that_are_not_there_are_refused() -> None:
    check_keys("startingOffsets", Bound(offsets={KEY: 1}), [KEY])
    check_keys("startingOffsets", Bound(LATEST), [])
    with pytest.raises(OptionError, match="option startingOffsets: there is no topic t on node n:1"):
        check_keys("startingOffsets", Bound(offsets={KEY: 1}), [SourceKey("t", "n:2")])
