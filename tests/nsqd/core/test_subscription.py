"""What a channel knows of one consumer."""

import pytest

from nsqlake.nsqd.core.subscription import Locality, Subscription

PAGE = 4096


def new_subscription() -> Subscription:
    return Subscription("key", msg_timeout_ns=5)


def test_new_consumer_gets_nothing() -> None:
    sub = new_subscription()

    assert sub.room == 0
    assert sub.locality is Locality.ANYWHERE


def test_room_is_what_ready_leaves_above_what_is_out() -> None:
    sub = new_subscription()
    sub.ready, sub.in_flight = 5, 2

    assert sub.room == 3


@pytest.mark.parametrize(("is_writable", "is_closing"), [(False, False), (True, True)])
def test_consumer_that_is_slow_or_leaving_has_no_room(is_writable: bool, is_closing: bool) -> None:
    sub = new_subscription()
    sub.ready, sub.is_writable, sub.is_closing = 5, is_writable, is_closing

    assert sub.room == 0


@pytest.mark.parametrize(
    ("second", "runs"),
    [
        ((9, 13, 2), [(9, 10, 5)]),
        ((10, 13, 2), [(9, 10, 3), (10, 13, 2)]),
        ((9, 14, 2), [(9, 10, 3), (9, 14, 2)]),
    ],
)
def test_runs_that_follow_each_other_with_one_deadline_are_one(
    second: tuple[int, int, int], runs: list[tuple[int, int, int]]
) -> None:
    sub = new_subscription()

    sub.add_run(9, 10, 3)
    sub.add_run(*second)

    assert list(sub.runs) == runs


def test_run_never_crosses_a_page() -> None:
    sub = new_subscription()

    sub.add_run(9, PAGE - 2, 2)
    sub.add_run(9, PAGE, 2)

    assert list(sub.runs) == [(9, PAGE - 2, 2), (9, PAGE, 2)]
