"""kill -9 while messages die: none is lost, and few come twice. Draining by signal."""

from __future__ import annotations

import signal
import time
from random import Random

import pytest

from nsqlake.wire.received_message import Message
from tests.crash.client import Client, DisconnectedError, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.harness import Nsqd, kills

pytestmark = pytest.mark.slow

TOPIC = "orders"
DEAD = "orders.work.dead"
BODIES = {b"message %d" % number for number in range(3000)}


def take_all(nsqd: Nsqd, topic: str, channel: str, wait_s: float = 1.0) -> list[Message]:
    with Client(nsqd.port) as client:
        client.subscribe(topic, channel, ready=2500)
        found: list[Message] = []
        while messages := client.messages(wait_s):
            found += messages
            client.finish(*messages)
        client.barrier()
    return found


@pytest.mark.parametrize("flags", [(), ("--max-bytes-per-file=100000", "--mem-queue-size=10")])
def test_every_message_is_in_its_channel_or_among_the_dead(
    start_nsqd: StartNsqd, flags: tuple[str, ...]
) -> None:
    random = Random(str(flags))
    nsqd = start_nsqd("--max-attempts=2", *flags)
    create_channels(nsqd.port, TOPIC, "work")
    with Client(nsqd.port) as producer:
        producer.publish_many(TOPIC, sorted(BODIES))

    for _ in range(kills(3)):
        with Client(nsqd.port) as client:
            client.subscribe(TOPIC, "work", ready=500)
            _requeue_until_killed(nsqd, client, random.uniform(0.05, 0.4))
        nsqd.restart()
    alive = {message.body for message in take_all(nsqd, TOPIC, "work")}
    dead = [message.body for message in take_all(nsqd, DEAD, "dead")]

    assert alive | set(dead) == BODIES
    assert len(dead) >= 100
    # A batch at most was stored and not yet finished when each kill came.
    assert len(dead) - len(set(dead)) <= 256 * kills(3)


def _requeue_until_killed(nsqd: Nsqd, client: Client, after_s: float) -> None:
    deadline = time.monotonic() + after_s
    try:
        while nsqd.is_running:
            for message in client.messages(0.02):
                client.requeue(message, 0)
            if time.monotonic() > deadline:
                nsqd.kill()
    except DisconnectedError:
        return


def test_sigusr1_drains_and_ends(start_nsqd: StartNsqd) -> None:
    nsqd = start_nsqd()
    with Client(nsqd.port) as client, Client(nsqd.port) as producer:
        client.subscribe(TOPIC, "work")
        producer.publish_many(TOPIC, [b"one", b"two"])
        nsqd.signal(signal.SIGUSR1)
        nsqd.wait_for_log("NSQ: draining")
        assert nsqd.is_running

        client.ready(2)
        client.finish(*client.gather(2))

        assert nsqd.wait_until_ended() == 0
    assert "NSQ: drained" in nsqd.log
    assert take_all(nsqd.restart(), TOPIC, "work", wait_s=0.2) == []
