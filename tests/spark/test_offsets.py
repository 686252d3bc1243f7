"""Offsets as Spark keeps them."""

import json

from nsqlake.spark.offsets import LogPosition, Positions, QueryOffset, SourceKey

A = SourceKey("a", "n1:4151")
B = SourceKey("b", "n2:4151")
AT = LogPosition(1_731_700_000_000_000, "f00d")


def test_offsets_survive_json() -> None:
    offset = QueryOffset(
        Positions({A: AT, B: LogPosition(2, "cafe")}), Positions({B: LogPosition(1, "cafe")})
    )

    assert QueryOffset.decode(json.loads(json.dumps(offset.encode()))) == offset


def test_equal_offsets_are_the_same_text_in_whatever_order_they_came() -> None:
    """Spark compares texts: another order would make empty batches without end."""
    one = QueryOffset(Positions({A: AT, B: AT}), Positions({A: AT, B: AT}))
    other = QueryOffset(Positions({B: AT, A: AT}), Positions({B: AT, A: AT}))

    assert json.dumps(one.encode()) == json.dumps(other.encode())


def test_the_text_is_what_checkpoints_hold() -> None:
    offset = QueryOffset(Positions({A: LogPosition(5, "f00d")}), Positions())

    assert json.dumps(offset.encode()) == '{"init": {}, "n": {"a": {"n1:4151": {"at": 5, "log": "f00d"}}}}'


def test_a_query_that_has_begun_with_nothing_differs_from_one_that_has_not() -> None:
    """Else its beginning would not be journalled."""
    not_begun, begun = QueryOffset.not_begun(), QueryOffset(Positions(), Positions())

    assert not_begun.encode() == {"n": {}}
    assert not QueryOffset.decode(not_begun.encode()).has_begun
    assert QueryOffset.decode(begun.encode()).has_begun
