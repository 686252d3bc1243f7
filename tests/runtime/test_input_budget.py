"""Unfinished input of all connections together."""

from nsqlake.runtime.input_budget import InputBudget

MUCH = 100_000
LITTLE = 1_000


def test_connections_may_hold_what_the_budget_allows() -> None:
    budget = InputBudget(2 * MUCH)

    assert budget.note("a", MUCH)
    assert budget.note("b", MUCH)
    assert budget.total == 2 * MUCH


def test_connection_that_holds_much_is_refused_over_the_budget() -> None:
    budget = InputBudget(2 * MUCH)
    budget.note("a", 2 * MUCH)

    assert not budget.note("b", MUCH)


def test_connection_that_holds_little_is_never_refused() -> None:
    budget = InputBudget(MUCH)
    budget.note("a", 2 * MUCH)

    assert budget.note("b", LITTLE)


def test_only_the_latest_note_of_a_connection_counts() -> None:
    budget = InputBudget(2 * MUCH)
    budget.note("a", MUCH)
    budget.note("a", 2 * MUCH)
    budget.note("a", 2 * MUCH)
    assert budget.total == 2 * MUCH

    budget.note("a", 0)
    budget.note("a", 0)

    assert budget.total == 0
    assert budget._held == {}


def test_released_connection_counts_no_more() -> None:
    budget = InputBudget(MUCH)
    budget.note("a", MUCH)

    budget.release("a")
    budget.release("a")

    assert budget.total == 0
    assert budget.note("b", MUCH)
