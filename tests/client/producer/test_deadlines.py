"""One timer for many deadlines."""

import math

from nsqlake.client.producer.deadlines import DeadlineWatch
from tests.fakes.moved_timers import MovedTimers


class Deadlines:
    """What a dispatcher does with them."""

    def __init__(self, timers: MovedTimers, *seconds: float) -> None:
        self.left = [timers.now_s() + each for each in seconds]
        self.looks = 0

    def expire(self, now_s: float) -> float:
        self.looks += 1
        self.left = [each for each in self.left if each > now_s]
        return min(self.left, default=math.inf)


def test_each_deadline_is_met_with_one_timer() -> None:
    timers = MovedTimers()
    deadlines = Deadlines(timers, 30, 1, 2)
    watch = DeadlineWatch(timers, deadlines.expire)
    for each in list(deadlines.left):
        watch.watch(each)

    assert timers.waiting_count == 1
    timers.advance(1)
    assert len(deadlines.left) == 2
    timers.advance(1)
    assert len(deadlines.left) == 1
    timers.advance(28)
    assert (deadlines.left, deadlines.looks, timers.waiting_count) == ([], 3, 0)


def test_a_later_deadline_costs_no_timer() -> None:
    timers = MovedTimers()
    watch = DeadlineWatch(timers, Deadlines(timers).expire)

    for number in range(100):
        watch.watch(timers.now_s() + 30 + number)

    assert len(timers.timers) == 1


def test_deadlines_close_together_share_a_look() -> None:
    timers = MovedTimers()
    deadlines = Deadlines(timers, *(1 + number / 1e6 for number in range(1000)))
    watch = DeadlineWatch(timers, deadlines.expire)
    watch.watch(deadlines.left[0])

    timers.advance(2)

    assert (deadlines.left, deadlines.looks) == ([], 2)


def test_nothing_happens_after_cancelling() -> None:
    timers = MovedTimers()
    deadlines = Deadlines(timers, 1)
    watch = DeadlineWatch(timers, deadlines.expire)
    watch.watch(deadlines.left[0])

    watch.cancel()
    timers.advance(10)

    assert deadlines.looks == 0
