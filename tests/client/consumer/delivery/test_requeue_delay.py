"""Requeue delays: the caller's, or one that grows with the attempts."""

import pytest

from nsqlake.client.consumer.delivery.requeue_delay import requeue_delay_ms
from nsqlake.client.errors import InvalidArgumentError


def delay_ms(delay_s: float | None, attempts: int = 1) -> int:
    return requeue_delay_ms(delay_s, attempts, default_s=90.0, max_s=900.0)


def test_delay_grows_with_attempts_up_to_the_limit() -> None:
    assert [delay_ms(None, attempts) for attempts in (0, 1, 2, 5, 10, 11, 65_535)] == [
        0, 90_000, 180_000, 450_000, 900_000, 900_000, 900_000,
    ]  # fmt: skip


@pytest.mark.parametrize(("delay_s", "expected_ms"), [(0, 0), (0.25, 250), (1.5, 1500), (7200, 7_200_000)])
def test_delay_of_the_caller_is_taken_as_it_is(delay_s: float, expected_ms: int) -> None:
    assert delay_ms(delay_s, attempts=3) == expected_ms


@pytest.mark.parametrize("delay_s", [-0.001, -1, float("nan"), float("inf")])
def test_impossible_delay_is_refused(delay_s: float) -> None:
    with pytest.raises(InvalidArgumentError):
        delay_ms(delay_s)
