"""Backoff by its rules: one result per pause, whole consumer, level by level."""

import pytest

from nsqlake.client.consumer.rate.backoff import (
    Backoff,
    Left,
    Pause,
    Signal,
    exponential,
    full_jitter,
    strategy_of,
)

DEFAULT_MAX_S = 120.0


def paused(backoff: Backoff, *signals: Signal) -> list[object]:
    """What each signal leads to when every pause is waited out first."""
    decisions = []
    for signal in signals:
        decisions.append(backoff.record(signal))
        backoff.end_wait()
    return decisions


def test_success_outside_backoff_changes_nothing() -> None:
    backoff = Backoff(exponential(), DEFAULT_MAX_S)

    assert paused(backoff, Signal.RESUME, Signal.CONTINUE) == [None, None]
    assert not backoff.is_waiting


def test_failures_go_up_a_level_each_and_successes_down_with_a_pause_each() -> None:
    backoff = Backoff(exponential(), DEFAULT_MAX_S)

    decisions = paused(backoff, Signal.BACK_OFF, Signal.BACK_OFF, Signal.RESUME, Signal.RESUME)

    assert decisions == [Pause(1, 2.0), Pause(2, 4.0), Pause(1, 2.0), Left()]


def test_results_during_a_pause_count_for_nothing() -> None:
    backoff = Backoff(exponential(), DEFAULT_MAX_S)
    backoff.record(Signal.BACK_OFF)

    burst = [backoff.record(signal) for signal in [Signal.BACK_OFF] * 50 + [Signal.RESUME] * 50]

    assert burst == [None] * 100
    assert backoff.level == 1


def test_requeue_without_backoff_repeats_the_pause_instead_of_stalling() -> None:
    backoff = Backoff(exponential(), DEFAULT_MAX_S)

    assert paused(backoff, Signal.BACK_OFF, Signal.CONTINUE) == [Pause(1, 2.0), Pause(1, 2.0)]


def test_longest_pause_by_default_is_64_seconds() -> None:
    backoff = Backoff(exponential(), DEFAULT_MAX_S)

    decisions = paused(backoff, *[Signal.BACK_OFF] * 9)

    assert [decision.seconds for decision in decisions if isinstance(decision, Pause)] == [
        2, 4, 8, 16, 32, 64, 64, 64, 64,
    ]  # fmt: skip


@pytest.mark.parametrize("max_s", [0.0, 1.9])
def test_backoff_never_starts_when_its_first_pause_is_over_the_limit(max_s: float) -> None:
    backoff = Backoff(exponential(), max_s)

    assert paused(backoff, Signal.BACK_OFF, Signal.BACK_OFF) == [None, None]
    assert backoff.level == 0


def test_no_limit_means_no_backoff_even_if_the_strategy_says_zero() -> None:
    assert Backoff(lambda level: 0.0, 0.0).record(Signal.BACK_OFF) is None


def test_full_jitter_draws_for_the_level_and_again_for_the_pause() -> None:
    draws = iter([0.0, 0.5])
    backoff = Backoff(full_jitter(1.0, lambda: next(draws)), DEFAULT_MAX_S)

    assert backoff.record(Signal.BACK_OFF) == Pause(1, 1.0)


def test_pause_of_a_jittered_strategy_is_capped() -> None:
    answers = iter([1.0, 500.0])
    backoff = Backoff(lambda level: next(answers), DEFAULT_MAX_S)

    assert backoff.record(Signal.BACK_OFF) == Pause(1, DEFAULT_MAX_S)


def test_exponent_is_bounded() -> None:
    assert exponential()(100_000) == 2.0**40


def test_option_names_a_strategy_or_is_one() -> None:
    def own(level: int) -> float:
        return 7.0

    assert strategy_of("exponential", 0.01, lambda: 0.5)(1) == 0.02
    assert strategy_of("full_jitter", 0.01, lambda: 0.5)(1) == 0.01
    assert strategy_of(own, 0.01, lambda: 0.5) is own
