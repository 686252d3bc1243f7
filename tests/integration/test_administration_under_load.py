"""Topics and channels are paused, emptied and deleted while clients publish and consume."""

import random
import time
from collections.abc import Callable
from threading import Event, Thread

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.option_choices import AckAfter
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from nsqlake.wire.frames import FrameType
from tests.fakes.tcp_client import TcpClient
from tests.integration.support import eventually, figures

TOPICS = ("one", "two", "three#ephemeral")
CHANNELS = ("a", "b#ephemeral")
LOAD_S = 1.0


def publish(nsqd: NsqdFixture, stopping: Event, refusals: set[str]) -> None:
    chance = random.Random(1)
    with TcpClient(nsqd.tcp_address) as client:
        while not stopping.is_set():
            topic = chance.choice(TOPICS)
            batch = [
                commands.pub(topic, b"x" * 50),
                commands.mpub(topic, [b"y"] * 20),
                commands.dpub(topic, 5, b"z"),
            ]
            client.send(*batch)
            for _ in batch:
                frame = client.frame()
                assert frame is not None
                if frame.type is FrameType.ERROR:
                    refusals.add(frame.payload.decode().partition(" failed ")[2])


def consume(nsqd: NsqdFixture, stopping: Event, refusals: set[str]) -> None:
    chance = random.Random(2)
    while not stopping.is_set():
        with TcpClient(nsqd.tcp_address) as client:
            client.send(commands.sub(chance.choice(TOPICS), chance.choice(CHANNELS)), commands.rdy(50))
            try:
                consume_on(client, stopping, refusals)
            except (ConnectionError, TimeoutError):
                continue


def consume_on(client: TcpClient, stopping: Event, refusals: set[str]) -> None:
    """Finish what comes until the server closes, as it does when the channel is deleted."""
    while not stopping.is_set() and (frame := client.frame(0.2)) is not None:
        if frame.type is FrameType.MESSAGE:
            client.send(commands.fin(frame.payload[10:26]))
        elif frame.type is FrameType.ERROR and b"not in flight" not in frame.payload:
            refusals.add(frame.payload.decode().partition(" failed ")[2])


async def administrate(daemon: Daemon, chance: random.Random) -> None:
    """Something is done to one topic or channel."""
    broker = daemon.broker
    topic = broker.topics.get(chance.choice(TOPICS))
    if topic is None:
        return
    channel = topic.channels.get(chance.choice(CHANNELS))
    action = chance.randrange(8)
    if channel is None or action < 2:
        await (broker.delete_topic(topic) if action == 0 else broker.empty_topic(topic))
    elif action < 4:
        await broker.empty_channel(channel)
    elif action < 5:
        await broker.delete_channel(channel)
    else:
        await broker.set_paused(channel if action < 7 else topic, chance.random() < 0.3)


@pytest.mark.parametrize("ack_after", [AckAfter.WRITE, AckAfter.SYNC])
def test_administration_under_load_breaks_nothing(ack_after: AckAfter) -> None:
    stopping, refusals, chance = Event(), set[str](), random.Random(3)
    with running_nsqd(ack_after=ack_after) as nsqd:
        workers: list[Callable[..., None]] = [publish, publish, consume, consume, consume]
        threads = [Thread(target=worker, args=(nsqd, stopping, refusals)) for worker in workers]
        for thread in threads:
            thread.start()

        until = time.monotonic() + LOAD_S
        while time.monotonic() < until:
            nsqd.call(lambda daemon: administrate(daemon, chance))
        stopping.set()
        for thread in threads:
            thread.join()

        assert refusals <= {"exiting"}
        assert nsqd.call(lambda daemon: daemon.tasks.failure_count) == 0
        assert_still_works(nsqd)


def assert_still_works(nsqd: NsqdFixture) -> None:
    with TcpClient(nsqd.tcp_address) as client:
        client.sub("afterwards", "c", 10)
        client.send(commands.pub("afterwards", b"x"))
        frames = [client.frame(), client.frame()]
        assert {frame.type for frame in frames if frame} == {FrameType.RESPONSE, FrameType.MESSAGE}
    eventually(lambda: figures(nsqd, "afterwards", "c").consumers == 0)
