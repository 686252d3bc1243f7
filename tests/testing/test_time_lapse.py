import asyncio
import threading

import pytest

from nsqlake.testing import loop_turns, time_lapse
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.errors import NotSettledError
from nsqlake.testing.time_lapse import advance, advance_blocking
from nsqlake.testing.timers import ManualTimers


class Diary:
    """A follower that is due at certain times and notes what it is told."""

    def __init__(self, clock: ManualClock, *due_s: int, busy_rounds: int = 0) -> None:
        self._clock, self._due_ns = clock, [1_000_000_000 * each for each in due_s]
        self.busy_rounds = busy_rounds
        self.acted_s: list[float] = []
        self.settled_count = 0
        self.ended_s: list[float] = []
        clock.followers.append(self)

    @property
    def wait_ns(self) -> int | None:
        return max(0, self._due_ns[0] - self._clock.elapsed_ns) if self._due_ns else None

    def act(self) -> None:
        self.acted_s.append(self._clock.elapsed_ns / 1e9)
        self._due_ns.pop(0)

    def settle(self) -> bool:
        self.settled_count += 1
        self.busy_rounds -= 1
        return self.busy_rounds >= 0

    def end_move(self) -> None:
        self.ended_s.append(self._clock.elapsed_ns / 1e9)


def test_everybody_acts_at_his_times_and_the_move_ends_where_it_should() -> None:
    clock = ManualClock()
    one, other = Diary(clock, 10, 30), Diary(clock, 20, 30, 500)

    advance_blocking(clock, 100)

    assert one.acted_s == [10, 30]
    assert other.acted_s == [20, 30]
    assert one.ended_s == [100]
    assert clock.elapsed_ns == 100_000_000_000


def test_a_move_by_nothing_does_what_is_due() -> None:
    clock = ManualClock()
    diary = Diary(clock, 10)
    clock.advance_ms(10_000)

    advance_blocking(clock, 0)

    assert diary.acted_s == [10]


def test_the_clock_waits_as_long_as_somebody_is_busy() -> None:
    clock = ManualClock()
    diary = Diary(clock, busy_rounds=7)

    advance_blocking(clock, 1)

    assert diary.settled_count >= 7 + 2


def test_endless_business_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_lapse, "_SETTLE_LIMIT_S", 0.0)
    clock = ManualClock()
    Diary(clock, busy_rounds=1_000_000)

    with pytest.raises(NotSettledError, match="to and fro"):
        advance_blocking(clock, 1)


def test_a_timer_that_sets_itself_again_without_delay_is_an_error() -> None:
    clock = ManualClock()
    diary = Diary(clock, *[5] * 2_000)

    with pytest.raises(NotSettledError, match="again and again"):
        advance_blocking(clock, 10)

    assert len(diary.acted_s) > 1_000


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="-1"):
        advance_blocking(ManualClock(), -1)


def test_a_blocked_loop_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_turns, "_LIMIT_S", 0.0)
    clock = ManualClock()
    timers = ManualTimers(clock)
    is_blocked, may_go_on = threading.Event(), threading.Event()

    async def block() -> None:
        timers.call_later(1, lambda: None)
        is_blocked.set()
        may_go_on.wait(10)

    thread = threading.Thread(target=lambda: asyncio.run(block()))
    thread.start()
    assert is_blocked.wait(10)
    with pytest.raises(NotSettledError, match="blocked"):
        advance_blocking(clock, 1)
    may_go_on.set()
    thread.join(10)


def test_two_moves_at_once_happen_one_after_the_other() -> None:
    async def scenario() -> tuple[int, list[float]]:
        clock = ManualClock()
        diary = Diary(clock, 10, 20)
        await asyncio.gather(advance(clock, 10), advance(clock, 10))
        return clock.elapsed_ns, diary.acted_s

    assert asyncio.run(scenario()) == (20_000_000_000, [10, 20])
