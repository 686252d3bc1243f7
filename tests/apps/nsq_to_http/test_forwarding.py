import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from nsqlake.apps.nsq_to_http.forwarding import Forwarding
from nsqlake.apps.nsq_to_http.http_target import StatusError
from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.testing.messages import make_message

A, B = "http://a/", "http://b/"


class FakeTarget:
    """Remembers what was sent where; some addresses refuse."""

    def __init__(self, refusing: tuple[str, ...] = ()) -> None:
        self.refusing = refusing
        self.sent: list[tuple[str, bytes]] = []

    async def send(self, address: str, body: bytes) -> None:
        self.sent.append((address, body))
        if address in self.refusing:
            raise StatusError(500)


def forward(
    target: FakeTarget, *bodies: bytes, chance: Callable[[], float] = lambda: 0.5, **options: Any
) -> list[str]:
    """What was raised, message by message."""
    raised = []

    async def scenario() -> None:
        made = NsqToHttpOptions(post=(A, B), **options)
        forwarding = Forwarding(made, target, Progress("sent"), chance=chance, now_s=lambda: 1.0)
        for body in bodies:
            try:
                await forwarding.handle(make_message(body))
            except StatusError as error:
                raised.append(str(error))

    asyncio.run(scenario())
    return raised


def bodies_of(target: FakeTarget, address: str) -> list[bytes]:
    return [body for sent_to, body in target.sent if sent_to == address]


FIVE = (b"1", b"2", b"3", b"4", b"5")


def test_round_robin_begins_with_the_second_address() -> None:
    target = FakeTarget()

    forward(target, *FIVE, mode="round-robin")

    assert (bodies_of(target, A), bodies_of(target, B)) == ([b"2", b"4"], [b"1", b"3", b"5"])


def test_the_pool_begins_with_the_first_address() -> None:
    target = FakeTarget()

    forward(target, *FIVE)

    assert (bodies_of(target, A), bodies_of(target, B)) == ([b"1", b"3", b"5"], [b"2", b"4"])


def test_the_pool_leaves_out_an_address_that_refused() -> None:
    target = FakeTarget(refusing=(A,))

    raised = forward(target, *FIVE)

    assert raised == ["got status code 500"]
    assert (bodies_of(target, A), bodies_of(target, B)) == ([b"1"], [b"2", b"3", b"4", b"5"])


def test_an_unknown_mode_sends_to_all_and_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    target = FakeTarget()

    forward(target, b"1", mode="all")

    assert target.sent == [(A, b"1"), (B, b"1")]
    assert "--mode 'all' is none of round-robin, hostpool, epsilon-greedy" in caplog.text


def test_of_all_addresses_the_first_that_refuses_fails_the_message() -> None:
    target = FakeTarget(refusing=(A,))

    assert forward(target, b"1", mode="all") == ["got status code 500"]
    assert target.sent == [(A, b"1")]


def test_a_sample_is_sent_and_the_rest_dropped() -> None:
    target = FakeTarget()
    chances = iter([0.1, 0.3, 0.29, 0.9])

    raised = forward(target, b"1", b"2", b"3", b"4", chance=lambda: next(chances), sample=0.3)

    assert [body for _, body in target.sent] == [b"1", b"3"]
    assert raised == []


def test_a_sample_of_nothing_sends_nothing() -> None:
    target = FakeTarget()

    forward(target, *FIVE, chance=lambda: 0.0, sample=0.0)

    assert target.sent == []


def test_successes_are_reported_every_so_often(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nsqlake")

    forward(FakeTarget(refusing=(A,)), *([b"x"] * 12), status_every=5, mode="round-robin")

    reports = [line for line in caplog.messages if "finished" in line]
    assert [line.split(" - ")[0] for line in reports] == [f"[{B}]: finished 5", "[aggregate]: finished 5"]
