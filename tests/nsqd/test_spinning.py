"""Polling instead of sleeping, on a loop that only notes what it is asked to call."""

from collections.abc import Callable

from nsqlake.nsqd.spinning import Spinning

HOUR_NS = 3_600_000_000_000


class NotingLoop:
    def __init__(self) -> None:
        self.called: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.called.append(callback)

    def turn(self) -> int:
        callbacks, self.called = self.called, []
        for callback in callbacks:
            callback()
        return len(callbacks)


def started(spin_ns: int) -> tuple[NotingLoop, Spinning]:
    loop = NotingLoop()
    spinning = Spinning(loop, spin_ns)  # type: ignore[arg-type]
    spinning.input_came()
    spinning.input_came()
    return loop, spinning


def test_one_input_alone_starts_no_polling():
    loop = NotingLoop()

    Spinning(loop, HOUR_NS).input_came()  # type: ignore[arg-type]

    assert loop.called == []


def test_input_in_quick_succession_keeps_the_loop_awake():
    loop, _ = started(HOUR_NS)

    assert [loop.turn() for _ in range(3)] == [1, 1, 1]


def test_without_more_input_the_loop_may_sleep():
    loop, _ = started(1)
    loop.turn()

    assert loop.called == []


def test_polling_is_asked_for_once_however_much_comes():
    loop, spinning = started(HOUR_NS)
    for _ in range(5):
        spinning.input_came()

    assert len(loop.called) == 1


def test_spin_0_never_polls():
    loop, _ = started(0)

    assert loop.called == []
