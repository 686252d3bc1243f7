"""Where a query may go, from what the nodes say."""

import pytest

from nsqlake.spark.advancing import Survey, advance, starts_of, stop_at
from nsqlake.spark.offsets import LogBounds, LogPosition, Positions, QueryOffset, SourceKey

NODE, OTHER = "n1:4151", "n2:4151"
KEY = SourceKey("t", NODE)
LOG, NEW_LOG = "f00d", "cafe"


def survey(*nodes: str, **bounds: LogBounds) -> Survey:
    """`t=LogBounds(...)` is topic t on the first node."""
    nodes = nodes or (NODE,)
    return Survey(frozenset(nodes), {SourceKey(topic, nodes[0]): each for topic, each in bounds.items()})


def at(offset: int, log: str = LOG, key: SourceKey = KEY) -> QueryOffset:
    return QueryOffset(Positions({key: LogPosition(offset, log)}), Positions())


def first(_key: SourceKey, found: LogBounds) -> int:
    return found.first


def test_a_new_log_begins_where_it_is_told_and_that_is_noted() -> None:
    found = advance(QueryOffset.not_begun(), survey(t=LogBounds(LOG, 10, 90)), lambda _key, _found: 40)

    assert found.starts == found.init == {KEY: LogPosition(40, LOG)}
    assert found.limits == {KEY: LogPosition(90, LOG)}


@pytest.mark.parametrize(("told", "begins"), [(5, 10), (99, 90)])
def test_a_new_log_begins_within_its_bounds(told: int, begins: int) -> None:
    found = advance(QueryOffset.not_begun(), survey(t=LogBounds(LOG, 10, 90)), lambda _key, _found: told)

    assert found.starts[KEY].offset == begins


def test_a_known_log_goes_on_and_is_not_noted_again() -> None:
    found = advance(at(40), survey(t=LogBounds(LOG, 10, 90)), first)

    assert found.starts == {KEY: LogPosition(40, LOG)}
    assert found.limits == {KEY: LogPosition(90, LOG)}
    assert not found.init
    assert not found.losses


def test_offsets_may_jump() -> None:
    found = advance(at(40), survey(t=LogBounds(LOG, 10, 40 + (1 << 30))), first)

    assert found.limits[KEY].offset == 40 + (1 << 30)
    assert not found.losses


@pytest.mark.parametrize(
    ("bounds", "goes_on", "reason"),
    [
        (LogBounds(LOG, 50, 90), 50, "offsets 40 to 50 are no longer kept"),
        (LogBounds(LOG, 10, 30), 30, "ends at offset 30, before 40, which was read"),
        (LogBounds(NEW_LOG, 60, 90), 60, "was deleted and made anew after offset 40 was read"),
    ],
)
def test_what_is_gone_is_a_loss(bounds: LogBounds, goes_on: int, reason: str) -> None:
    found = advance(at(40), survey(t=bounds), first)

    assert found.starts == {KEY: LogPosition(goes_on, bounds.log)}
    assert [loss.reason for loss in found.losses] == [reason]
    assert "topic t on node n1:4151" in str(found.losses[0])
    assert "failOnDataLoss=false" in str(found.losses[0])


def test_a_log_that_was_made_anew_is_noted() -> None:
    found = advance(at(40), survey(t=LogBounds(NEW_LOG, 60, 90)), first)

    assert found.init == {KEY: LogPosition(60, NEW_LOG)}


def test_a_topic_that_was_deleted_is_a_loss_and_leaves_the_query() -> None:
    found = advance(at(40), survey(), first)

    assert [loss.reason for loss in found.losses] == [
        "was deleted after offset 40 was read; what came after it is gone"
    ]
    assert not found.starts
    assert not found.limits


def test_a_log_keeps_its_position_while_its_node_is_not_there() -> None:
    found = advance(at(40), survey(OTHER, u=LogBounds(NEW_LOG, 1, 2)), first)

    assert found.limits[KEY] == found.starts[KEY] == LogPosition(40, LOG)
    assert found.absent == {KEY}
    assert not found.losses


def test_a_node_with_a_new_address_goes_on_where_it_was() -> None:
    moved = SourceKey("t", OTHER)

    found = advance(at(40), survey(OTHER, t=LogBounds(LOG, 10, 90)), first)

    assert found.starts == found.init == {moved: LogPosition(40, LOG)}
    assert not found.absent
    assert not found.losses
    assert starts_of(at(40), QueryOffset(found.limits, found.init)) == {moved: LogPosition(40, LOG)}


def test_a_new_node_joins() -> None:
    both = Survey(
        frozenset({NODE, OTHER}), {KEY: LogBounds(LOG, 10, 90), SourceKey("t", OTHER): LogBounds("b0", 7, 9)}
    )

    found = advance(at(40), both, first)

    assert found.starts[SourceKey("t", OTHER)] == LogPosition(7, "b0")
    assert found.init == {SourceKey("t", OTHER): LogPosition(7, "b0")}
    assert found.starts[KEY].offset == 40


# Stopping at a target ---------------------------------------------------------------------------------


def test_a_query_stops_at_its_target() -> None:
    found = advance(at(40), survey(t=LogBounds(LOG, 10, 90)), first)

    assert stop_at(found, Positions({KEY: LogPosition(70, LOG)})) == {KEY: LogPosition(70, LOG)}


def test_a_target_that_was_passed_takes_nothing_back() -> None:
    found = advance(at(40), survey(t=LogBounds(LOG, 10, 90)), first)

    assert stop_at(found, Positions({KEY: LogPosition(20, LOG)})) == {KEY: LogPosition(40, LOG)}


@pytest.mark.parametrize("target", [Positions(), Positions({KEY: LogPosition(70, NEW_LOG)})])
def test_a_log_that_came_after_the_target_waits(target: Positions) -> None:
    found = advance(QueryOffset.not_begun(), survey(t=LogBounds(LOG, 10, 90)), first)

    assert stop_at(found, target) == {KEY: LogPosition(10, LOG)}


# Where batches begin ----------------------------------------------------------------------------------


def test_a_batch_begins_where_the_one_before_ended() -> None:
    assert starts_of(at(40), at(90)) == {KEY: LogPosition(40, LOG)}


def test_the_first_batch_begins_where_its_own_end_says() -> None:
    """Spark asks for the initial offset again when it runs the first batch again."""
    end = QueryOffset(Positions({KEY: LogPosition(90, LOG)}), Positions({KEY: LogPosition(40, LOG)}))

    assert starts_of(QueryOffset.not_begun(), end) == {KEY: LogPosition(40, LOG)}


def test_a_log_that_was_made_anew_begins_where_the_end_says() -> None:
    end = QueryOffset(Positions({KEY: LogPosition(90, NEW_LOG)}), Positions({KEY: LogPosition(60, NEW_LOG)}))

    assert starts_of(at(40), end) == {KEY: LogPosition(60, NEW_LOG)}


def test_a_log_of_which_nobody_knows_the_beginning_is_not_read() -> None:
    end = QueryOffset(Positions({KEY: LogPosition(90, LOG)}), None)

    assert starts_of(QueryOffset.not_begun(), end) == {KEY: LogPosition(90, LOG)}
