from collections.abc import Callable, Iterable

import pytest

from nsqlake.apps.tool_support.destinations import (
    BUCKET_S,
    Destinations,
    EpsilonGreedy,
    HostPool,
    ResponseTimes,
    RoundRobin,
    destinations,
)

A, B, C = "a:1", "b:1", "c:1"


def chosen(pool: Destinations, count: int, now_s: float = 0.0) -> list[str]:
    return [pool.choose(now_s) for _ in range(count)]


def succeed(pool: Destinations, address: str, *, elapsed_s: float = 0.01, now_s: float = 0.0) -> None:
    pool.report(address, succeeded=True, elapsed_s=elapsed_s, now_s=now_s)


def fail(pool: Destinations, address: str, *, now_s: float = 0.0) -> None:
    pool.report(address, succeeded=False, elapsed_s=0.01, now_s=now_s)


def from_list(values: Iterable[float]) -> Callable[[], float]:
    iterator = iter(values)
    return lambda: next(iterator)


def test_round_robin_begins_with_the_second_and_skips_nobody() -> None:
    pool = RoundRobin([A, B])
    fail(pool, B)

    assert chosen(pool, 5) == [B, A, B, A, B]


def test_the_pool_begins_with_the_first() -> None:
    assert chosen(HostPool([A, B]), 5) == [A, B, A, B, A]


def test_a_host_listed_twice_has_two_turns() -> None:
    assert chosen(HostPool([A, A, B]), 4) == [A, A, B, A]


def test_the_pool_leaves_out_a_host_that_failed_for_30_seconds() -> None:
    pool = HostPool([A, B])
    fail(pool, A, now_s=100)

    assert chosen(pool, 3, now_s=129.9) == [B, B, B]
    assert A in chosen(pool, 2, now_s=130)


def test_each_retry_of_a_dead_host_doubles_its_absence_up_to_15_minutes() -> None:
    pool = HostPool([A, B])
    fail(pool, A, now_s=0)
    absences, now_s = [], 30.0

    for _ in range(7):
        while pool.choose(now_s) != A:
            pass
        fail(pool, A, now_s=now_s)
        absences.append(
            next(s for s in (60, 120, 240, 480, 900) if A in chosen(HostPoolView(pool), 2, now_s + s))
        )
        now_s += absences[-1]

    assert absences == [60, 120, 240, 480, 900, 900, 900]


class HostPoolView:
    """Asks without trying."""

    def __init__(self, pool: HostPool) -> None:
        self._pool = pool

    def choose(self, now_s: float) -> str:
        return A if self._pool.can_be_tried(A, now_s) else B

    def report(self, address: str, *, succeeded: bool, elapsed_s: float, now_s: float) -> None:
        raise NotImplementedError


def test_success_revives_a_dead_host() -> None:
    pool = HostPool([A, B])
    fail(pool, A)
    succeed(pool, A)

    assert sorted(chosen(pool, 2)) == [A, B]


def test_when_all_are_dead_all_are_revived_and_the_first_is_used() -> None:
    pool = HostPool([A, B, C])
    for address in (A, B, C):
        fail(pool, address)

    assert chosen(pool, 4) == [A, B, C, A]


def test_the_average_forgets_after_five_minutes() -> None:
    times = ResponseTimes()
    times.add(0.2, now_s=1000)
    times.add(0.4, now_s=1000)

    assert times.average_s(1000) == pytest.approx(0.3)
    assert times.average_s(1000 + 300 - BUCKET_S) == pytest.approx(0.3)
    assert times.average_s(1000 + 300 + BUCKET_S) is None


def test_recent_times_weigh_more() -> None:
    times = ResponseTimes()
    times.add(0.1, now_s=1000)
    times.add(0.3, now_s=1000 + 60 * BUCKET_S)

    average_s = times.average_s(1000 + 60 * BUCKET_S)

    assert average_s == pytest.approx((60 * 0.1 + 120 * 0.3) / 180)


def test_greedy_choice_is_in_proportion_to_speed() -> None:
    # Speeds 1/0.1 and 1/0.3: the first gets three quarters.
    pool = EpsilonGreedy([A, B], from_list([0.9, 0.74, 0.9, 0.76]))
    succeed(pool, A, elapsed_s=0.1)
    succeed(pool, B, elapsed_s=0.3)

    assert chosen(pool, 2) == [A, B]


def test_a_host_that_answers_within_a_millisecond_is_a_candidate() -> None:
    pool = EpsilonGreedy([A, B], from_list([0.9, 0.9]))
    succeed(pool, A, elapsed_s=0.5)
    succeed(pool, B, elapsed_s=0.0004)

    assert pool.choose(0) == B


def test_a_dead_host_is_no_candidate_however_fast() -> None:
    pool = EpsilonGreedy([A, B], from_list([0.9, 0.0]))
    succeed(pool, A, elapsed_s=0.001)
    succeed(pool, B, elapsed_s=1)
    fail(pool, A)

    assert pool.choose(0) == B


def test_without_any_times_the_pool_decides() -> None:
    assert EpsilonGreedy([A, B], lambda: 0.9).choose(0) == A


def test_exploring_becomes_rarer_down_to_one_in_a_hundred() -> None:
    explored = 0
    pool = EpsilonGreedy([A, B], lambda: 0.0)
    while pool.epsilon > 0.01:
        pool.choose(0)
        explored += 1
    pool.choose(0)

    assert explored == 33
    assert pool.epsilon == 0.01


def test_a_mode_nobody_knows_has_no_rule() -> None:
    kinds = [
        type(destinations(mode, [A], lambda: 0.0))
        for mode in ("round-robin", "hostpool", "epsilon-greedy", "x")
    ]

    assert kinds == [RoundRobin, HostPool, EpsilonGreedy, type(None)]
