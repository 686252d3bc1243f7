"""The wall clock jumps by an hour: delays and timeouts are as long as they were meant to be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.crash.client import Client, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.launcher import clock_jump, faulty

pytestmark = pytest.mark.slow

TOPIC = "orders"
DELAY_S = 1.5
EARLY_S = 0.05
LATE_S = 1.0


@pytest.mark.parametrize("shift_s", [3_600, -3_600])
def test_delays_and_timeouts_do_not_follow_a_clock_that_jumps(
    start_nsqd: StartNsqd, tmp_path: Path, shift_s: int
) -> None:
    switch = tmp_path / "switch"
    nsqd = start_nsqd(f"--msg-timeout={DELAY_S}s", program=faulty(clock_jump(switch, shift_s)))
    create_channels(nsqd.port, TOPIC, "worked")
    delay_ms = int(DELAY_S * 1000)
    with Client(nsqd.port) as producer, Client(nsqd.port) as consumer:
        producer.publish(TOPIC, b"requeued")
        producer.publish(TOPIC, b"held")
        consumer.subscribe(TOPIC, "worked", ready=10)
        requeued, _ = consumer.gather(2)
        began = time.monotonic()
        producer.publish_deferred(TOPIC, delay_ms, b"deferred")
        consumer.requeue(requeued, delay_ms)
        consumer.barrier()

        switch.touch()
        came_s = wait_for_each(consumer, began, [b"requeued", b"held", b"deferred"])
        producer.publish_deferred(TOPIC, delay_ms, b"deferred after the jump")
        after_s = wait_for_each(consumer, time.monotonic(), [b"deferred after the jump"])
        producer.publish(TOPIC, b"stamped")
        (stamped,) = consumer.gather(1)

    assert abs(stamped.timestamp_ns / 1e9 - time.time() - shift_s) < 10
    for name, seconds in (came_s | after_s).items():
        slack_s = 0.3 if name == b"held" else 0  # its time began when it was delivered, before `began`
        assert DELAY_S - EARLY_S - slack_s < seconds < DELAY_S + LATE_S, name


def wait_for_each(consumer: Client, began: float, bodies: list[bytes]) -> dict[bytes, float]:
    """How many seconds after `began` each message came."""
    came_s: dict[bytes, float] = {}
    while not came_s.keys() >= set(bodies):
        messages = consumer.messages(10)
        assert messages, came_s
        for message in messages:
            came_s.setdefault(message.body, time.monotonic() - began)
        consumer.finish(*messages)
    return came_s


def test_delays_over_a_restart_are_kept(start_nsqd: StartNsqd) -> None:
    nsqd = start_nsqd()
    create_channels(nsqd.port, TOPIC, "worked")
    with Client(nsqd.port) as producer:
        began = time.monotonic()
        producer.publish_deferred(TOPIC, 2_500, b"deferred")

    nsqd.kill()
    nsqd.restart()

    with Client(nsqd.port) as consumer:
        consumer.subscribe(TOPIC, "worked", ready=10)
        came_s = wait_for_each(consumer, began, [b"deferred"])
    assert 2.5 - EARLY_S < came_s[b"deferred"] < 2.5 + LATE_S
