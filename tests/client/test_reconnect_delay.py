"""How the wait before the next attempt grows, and when it starts again."""

from nsqlake.client.reconnect_delay import STABLE_AFTER_S, ReconnectDelay

ALWAYS_LONGEST = 1.0


def waits(delay: ReconnectDelay, count: int) -> list[float]:
    return [delay.after_failure(0.0, ALWAYS_LONGEST) for _ in range(count)]


def test_it_doubles_up_to_the_limit() -> None:
    assert waits(ReconnectDelay(0.25, 3.0), 6) == [0.25, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_thousand_failures_do_not_overflow() -> None:
    assert waits(ReconnectDelay(0.25, 60.0), 2000)[-1] == 60.0


def test_chance_takes_off_up_to_half() -> None:
    assert ReconnectDelay(1.0, 60.0).after_failure(0.0, 0.0) == 0.5
    assert ReconnectDelay(1.0, 60.0).after_failure(0.0, 0.5) == 0.75


def test_what_will_not_cure_itself_waits_longest_at_once() -> None:
    delay = ReconnectDelay(0.25, 60.0)

    assert delay.after_failure(0.0, ALWAYS_LONGEST, permanent=True) == 60.0


def test_a_connection_that_is_lost_at_once_was_no_success() -> None:
    delay = ReconnectDelay(0.25, 60.0)
    waits(delay, 3)

    delay.ready(100.0)

    assert delay.after_failure(100.0 + STABLE_AFTER_S - 1, ALWAYS_LONGEST) == 2.0


def test_a_connection_that_lasted_starts_again() -> None:
    delay = ReconnectDelay(0.25, 60.0)
    waits(delay, 3)

    delay.ready(100.0)

    assert delay.after_failure(100.0 + STABLE_AFTER_S, ALWAYS_LONGEST) == 0.25
    assert delay.after_failure(200.0, ALWAYS_LONGEST) == 0.5


def test_a_connection_that_was_of_use_starts_again() -> None:
    delay = ReconnectDelay(0.25, 60.0)
    waits(delay, 3)

    delay.ready(100.0)
    delay.proven()

    assert delay.after_failure(100.1, ALWAYS_LONGEST) == 0.25
