"""Everything storage does, as short stories that a `SimBroker` plays. Segments are small: 2,500 bytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from random import Random

from tests.crash.sim_broker import SECOND_NS, SimBroker

Scenario = Callable[[SimBroker], None]
TOPIC, CHANNEL = "orders", "archive"
WALKS = 6 + int(os.environ.get("NSQLAKE_STATES", "0")) // 5000  # the other stories have no more states


@contextlib.contextmanager
def meanwhile(broker: SimBroker, call: str, action: Callable[[], object], at: int = 1) -> Iterator[None]:
    """Do `action` just before the n-th `call`, as another thread may."""
    left = at

    def before(name: str, _path: str) -> None:
        nonlocal left
        left -= name == call
        if name == call and left == 0:
            action()

    broker.files.before_call = before
    try:
        yield
    finally:
        broker.files.before_call = None


def begin(broker: SimBroker, *channels: str, topic: str = TOPIC) -> None:
    broker.start()
    broker.create_topic(topic)
    for channel in channels:
        broker.create_channel(topic, channel)


def restart(broker: SimBroker, *, clean: bool) -> None:
    if clean:
        assert broker.stop()
    broker.kill()
    broker.start()


def appends_and_syncs(broker: SimBroker) -> None:
    begin(broker)
    broker.publish(TOPIC, [100])
    broker.publish(TOPIC, [10, 600, 20])
    broker.sync(TOPIC)
    broker.publish(TOPIC, [40] * 6)
    with meanwhile(broker, "fdatasync", lambda: broker.publish(TOPIC, [300])):
        broker.sync(TOPIC)
    broker.publish(TOPIC, [0, 1])
    broker.sync(TOPIC)
    broker.publish(TOPIC, [700])


def segments_roll(broker: SimBroker) -> None:
    begin(broker)
    for size in (900, 900, 900, 1200):
        broker.publish(TOPIC, [size])
    with meanwhile(broker, "fdatasync", lambda: broker.publish(TOPIC, [1500]), at=2):
        broker.sync(TOPIC)
    broker.publish(TOPIC, [5000])
    with meanwhile(broker, "sync_dir", lambda: broker.publish(TOPIC, [2400])):
        broker.sync(TOPIC)
    broker.sync(TOPIC)
    broker.publish(TOPIC, [30] * 40)


def consumed_segments_are_retired(broker: SimBroker) -> None:
    begin(broker, CHANNEL)
    for _ in range(3):
        broker.publish(TOPIC, [800, 900])
        broker.publish(TOPIC, [600])
        broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 3))
        broker.write_journals()
        broker.retire(TOPIC)
    broker.sync(TOPIC)
    broker.sync_journal(TOPIC, CHANNEL)
    broker.publish(TOPIC, [2000])
    broker.sync(TOPIC)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 1))
    broker.retire(TOPIC)
    broker.publish(TOPIC, [100])
    broker.sync(TOPIC)


def one_message_pins_an_old_segment(broker: SimBroker) -> None:
    begin(broker, CHANNEL)
    for _ in range(4):
        broker.publish(TOPIC, [1000])
        broker.publish(TOPIC, [1200])
    broker.sync(TOPIC)
    taken = broker.take(TOPIC, CHANNEL, 7)
    broker.requeue(TOPIC, CHANNEL, taken[:1], 500 * SECOND_NS)
    broker.finish(TOPIC, CHANNEL, taken[1:])
    broker.write_journals()
    broker.sync_journal(TOPIC, CHANNEL)
    broker.retire(TOPIC)
    broker.sync(TOPIC)
    restart(broker, clean=False)
    broker.publish(TOPIC, [100])
    broker.sync(TOPIC)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 1))
    broker.retire(TOPIC)
    restart(broker, clean=True)
    broker.publish(TOPIC, [100])


def restarts(broker: SimBroker) -> None:
    begin(broker, CHANNEL)
    broker.publish(TOPIC, [200, 400])
    restart(broker, clean=True)
    broker.publish(TOPIC, [300])
    broker.sync(TOPIC)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 2))
    restart(broker, clean=True)
    restart(broker, clean=True)
    broker.publish(TOPIC, [900])
    broker.publish(TOPIC, [1900])
    restart(broker, clean=False)
    broker.publish(TOPIC, [60])
    restart(broker, clean=False)
    restart(broker, clean=True)
    broker.publish(TOPIC, [70])
    broker.sync(TOPIC)


def journals(broker: SimBroker) -> None:
    begin(broker, CHANNEL, "billing")
    broker.publish(TOPIC, [20] * 30)
    broker.sync(TOPIC)
    for _ in range(3):
        taken = broker.take(TOPIC, CHANNEL, 6)
        broker.finish(TOPIC, CHANNEL, taken[::2])
        broker.write_journals()
        broker.requeue(TOPIC, CHANNEL, taken[1:3], 3 * SECOND_NS)
    broker.finish(TOPIC, "billing", broker.take(TOPIC, "billing", 20))
    broker.sync_journal(TOPIC, CHANNEL)
    broker.rotate_journal(TOPIC, CHANNEL)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 2))
    with meanwhile(broker, "fdatasync", lambda: broker.rotate_journal(TOPIC, CHANNEL)):
        broker.sync_journal(TOPIC, CHANNEL)
    broker.write_journals()
    broker.sync_journal(TOPIC, CHANNEL)
    broker.rotate_journal(TOPIC, CHANNEL)
    broker.sync_journal(TOPIC, "billing")
    broker.sync_journal(TOPIC, CHANNEL)
    restart(broker, clean=False)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 4))
    broker.write_journals()
    broker.sync_journal(TOPIC, CHANNEL)


def delays(broker: SimBroker) -> None:
    begin(broker, CHANNEL)
    broker.publish(TOPIC, [30, 40], delay_ns=50 * SECOND_NS)
    broker.publish(TOPIC, [500])
    broker.publish(TOPIC, [900], delay_ns=70 * SECOND_NS)
    broker.settle()
    broker.sync(TOPIC)
    broker.requeue(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 1), 20 * SECOND_NS)
    broker.sync_journal(TOPIC, CHANNEL)
    restart(broker, clean=False)
    broker.publish(TOPIC, [1000], delay_ns=90 * SECOND_NS)
    broker.sync(TOPIC)
    restart(broker, clean=True)
    broker.publish(TOPIC, [40])


def topics_come_and_go(broker: SimBroker) -> None:
    begin(broker, CHANNEL)
    broker.create_topic("other")
    broker.publish(TOPIC, [500])
    broker.publish("other", [500])
    broker.sync(TOPIC)
    broker.sync("other")
    broker.delete_topic(TOPIC)
    broker.create_topic(TOPIC)
    broker.publish(TOPIC, [100])
    broker.sync(TOPIC)
    broker.create_channel(TOPIC, CHANNEL)
    restart(broker, clean=False)
    broker.delete_topic(TOPIC)
    broker.create_topic(TOPIC)
    broker.publish(TOPIC, [100])
    broker.sync(TOPIC)
    restart(broker, clean=True)
    broker.delete_topic("other")


def channels_come_and_go(broker: SimBroker) -> None:
    begin(broker)
    broker.publish(TOPIC, [100] * 3)
    broker.sync(TOPIC)
    broker.create_channel(TOPIC, CHANNEL)
    broker.publish(TOPIC, [50] * 4)
    broker.sync(TOPIC)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 5))
    broker.write_journals()
    broker.create_channel(TOPIC, "billing")
    broker.sync_journal(TOPIC, CHANNEL)
    broker.delete_channel(TOPIC, CHANNEL)
    broker.publish(TOPIC, [60] * 4)
    broker.create_channel(TOPIC, CHANNEL)
    broker.publish(TOPIC, [70] * 2)
    broker.sync(TOPIC)
    restart(broker, clean=False)
    broker.delete_channel(TOPIC, "billing")
    broker.empty_channel(TOPIC, CHANNEL)
    broker.publish(TOPIC, [80])
    broker.sync(TOPIC)


def pauses(broker: SimBroker) -> None:
    begin(broker, CHANNEL)
    broker.publish(TOPIC, [100])
    broker.pause(TOPIC, True)
    broker.publish(TOPIC, [200] * 3)
    broker.sync(TOPIC)
    broker.create_channel(TOPIC, "billing")
    restart(broker, clean=False)
    broker.publish(TOPIC, [300])
    broker.sync(TOPIC)
    broker.pause(TOPIC, False)
    broker.finish(TOPIC, CHANNEL, broker.take(TOPIC, CHANNEL, 3))
    broker.write_journals()
    broker.sync_journal(TOPIC, CHANNEL)


def _publish_some(broker: SimBroker, random: Random) -> None:
    delay_ns = 80 * SECOND_NS if random.random() < 0.1 else 0
    broker.publish(TOPIC, random.choices((0, 10, 100, 500, 1500), k=random.randint(1, 4)), delay_ns=delay_ns)


def _take_some(broker: SimBroker, random: Random) -> None:
    broker.take(TOPIC, CHANNEL, random.randint(1, 5))


def _finish_some(broker: SimBroker, random: Random) -> None:
    held = broker.held(TOPIC, CHANNEL)
    broker.finish(TOPIC, CHANNEL, random.sample(held, min(3, len(held))))


def _requeue_some(broker: SimBroker, random: Random) -> None:
    held = broker.held(TOPIC, CHANNEL)
    delay_ns = random.choice((0, 5 * SECOND_NS))
    broker.requeue(TOPIC, CHANNEL, random.sample(held, min(2, len(held))), delay_ns)


def _write_and_sync_journal(broker: SimBroker, _random: Random) -> None:
    broker.write_journals()
    broker.sync_journal(TOPIC, CHANNEL)


STEPS: dict[Callable[[SimBroker, Random], object], int] = {
    _publish_some: 9,
    lambda broker, _: broker.sync(TOPIC): 4,
    _take_some: 4,
    _finish_some: 4,
    _requeue_some: 2,
    _write_and_sync_journal: 3,
    lambda broker, _: broker.rotate_journal(TOPIC, CHANNEL): 2,
    lambda broker, _: broker.retire(TOPIC): 3,
    lambda broker, random: restart(broker, clean=random.random() < 0.5): 1,
}


def walk(broker: SimBroker, random: Random, steps: int) -> None:
    for step in random.choices(list(STEPS), list(STEPS.values()), k=steps):
        step(broker, random)


def anything(seed: int) -> Scenario:
    """A random walk over most of the above."""

    def play(broker: SimBroker) -> None:
        begin(broker, CHANNEL)
        walk(broker, Random(seed), 30)

    return play


def go_on(seed: int) -> Scenario:
    """Start on whatever is there, and do a little more."""

    def play(broker: SimBroker) -> None:
        broker.start()
        if TOPIC not in broker.broker.topics:
            broker.create_topic(TOPIC)
        if CHANNEL not in broker.topic(TOPIC).channels:
            broker.create_channel(TOPIC, CHANNEL)
        walk(broker, Random(seed), 8)

    return play


SCENARIOS: dict[str, Scenario] = {
    play.__name__: play
    for play in (
        appends_and_syncs,
        segments_roll,
        consumed_segments_are_retired,
        one_message_pins_an_old_segment,
        restarts,
        journals,
        delays,
        topics_come_and_go,
        channels_come_and_go,
        pauses,
    )
} | {f"anything_{seed}": anything(seed) for seed in range(WALKS)}
