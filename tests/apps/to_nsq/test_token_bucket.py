import pytest

from nsqlake.apps.to_nsq.token_bucket import TokenBucket


def test_the_first_goes_at_once_and_the_others_at_the_rate() -> None:
    bucket = TokenBucket(5, now_s=0.0)
    now_s, sent = 0.0, []

    for _ in range(10):
        now_s += bucket.take(now_s)
        sent.append(round(now_s, 6))

    assert sent == pytest.approx([number * 0.2 for number in range(10)])


def test_idle_time_saves_up_to_one_second_of_messages() -> None:
    bucket = TokenBucket(3, now_s=0.0)

    waits = [bucket.take(100.0) for _ in range(4)]

    assert waits == pytest.approx([0, 0, 0, 1 / 3])


def test_a_clock_that_goes_back_costs_nothing() -> None:
    bucket = TokenBucket(1, now_s=10.0)

    assert bucket.take(5.0) == 0.0
