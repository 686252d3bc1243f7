"""`Clock` with hands that the test moves, and once with the real ones."""

import time

import pytest

from nsqlake.runtime.clock import Clock
from nsqlake.testing.clock import START_NS, ManualClock

HOUR_MS = 3_600_000


def test_time_passes_by_what_has_elapsed():
    clock = ManualClock()

    clock.advance_ms(1_500)

    assert clock.now_ns() == clock.timestamp_ns() == START_NS + 1_500_000_000


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 500, -500])
def test_a_jump_of_the_wall_clock_moves_only_timestamps(step_ms):
    clock = ManualClock()

    clock.set_wall_forward_ms(step_ms)
    clock.advance_ms(60_000)

    assert clock.now_ns() == START_NS + 60_000_000_000
    assert clock.timestamp_ns() == START_NS + 60_000_000_000 + step_ms * 1_000_000


def test_a_clock_that_jumped_and_came_back_is_followed_again():
    clock = ManualClock()
    clock.set_wall_forward_ms(HOUR_MS)
    clock.advance_ms(1_000)
    clock.now_ns()

    clock.set_wall_forward_ms(-HOUR_MS + 20)
    clock.advance_ms(1_000)

    assert clock.now_ns() == clock.timestamp_ns()


@pytest.mark.parametrize("drift_ms", [3, -3])
def test_slow_drift_is_followed_however_far_it_leads(drift_ms):
    clock = ManualClock()

    for _ in range(1_000):
        clock.set_wall_forward_ms(drift_ms)
        clock.advance_ms(1_000)
        clock.now_ns()

    assert clock.now_ns() == clock.timestamp_ns() == START_NS + 1_000 * (1_000 + drift_ms) * 1_000_000


def test_time_stands_still_rather_than_going_backwards():
    clock = ManualClock()
    clock.advance_ms(1_000)
    before = clock.now_ns()

    clock.set_wall_forward_ms(-400)
    clock.advance_ms(150)
    during = clock.now_ns()
    clock.advance_ms(300)

    assert during == before
    assert clock.now_ns() == before + 50_000_000


def test_the_real_clock_agrees_with_the_system():
    clock = Clock()

    now, timestamp, later = clock.now_ns(), clock.timestamp_ns(), clock.now_ns()

    assert now <= later
    assert abs(time.time_ns() - now) < 10_000_000_000
    assert abs(time.time_ns() - timestamp) < 10_000_000_000
