"""Power is lost, or the process killed, after every single thing a transaction does to the disk."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest

from nsqlake.nsqd.replay import peek_at_topic
from nsqlake.nsqd.transactions.store import ChosenPart
from nsqlake.nsqd.transactions.txn_id import TxnId
from tests.crash.sim_broker import SimBroker, empty_disk
from tests.crash.storage_scenarios import CHANNEL, TOPIC, begin
from tests.crash.test_power_loss import moments
from tests.fakes.power_loss import Order
from tests.fakes.sim_files import Image, SimFiles
from tests.nsqd.transactions.support import messages_of

pytestmark = pytest.mark.slow

OTHER = "payments"
ORDER = pytest.mark.parametrize("order", Order, ids=lambda order: order.name.lower())
Record = tuple[str, tuple[bytes, ...]]
Parts = dict[tuple[int, int], list[Record]]

FIRST: Parts = {
    (0, 0): [(TOPIC, (b"failed attempt", b"never seen"))],
    (0, 1): [(TOPIC, (b"0.0",) * 1), (OTHER, (b"0.1", b"mixed size")), (TOPIC, (b"0.2" * 300,))],
    (1, 3): [(TOPIC, tuple(b"1.%03d" % number for number in range(40)))],
}
CHOSEN = ((0, 1), (1, 3))
SECOND: Parts = {(0, 7): [(OTHER, (b"second",))]}


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Story:
    """What a broker was told, and when it said that it is done."""

    broker: SimBroker
    committing: dict[int, int] = field(default_factory=dict)  # by sequence: when that began
    committed: dict[int, int] = field(default_factory=dict)  # and when it was answered

    def stage(self, sequence: int, parts: Parts) -> None:
        for key, records in parts.items():
            for number, (topic, bodies) in enumerate(records):
                self.broker.broker.transactions.stage(
                    TxnId("q", sequence), key, number, topic=topic, messages=messages_of(*bodies)
                )

    def commit(self, sequence: int, parts: Parts, keys: Sequence[tuple[int, int]]) -> None:
        self.committing[sequence] = self.broker.now
        chosen = [
            ChosenPart(*key, len(parts[key]), sum(len(bodies) for _, bodies in parts[key])) for key in keys
        ]
        self.broker.run(self.broker.broker.transactions.commit(TxnId("q", sequence), chosen))
        self.committed[sequence] = self.broker.now


@contextlib.contextmanager
def publishing_beside(broker: SimBroker) -> Iterator[None]:
    """A message when what was staged is synced, and one behind the first that comes to the log."""
    outer, left = broker.files.before_call, {"fsync": 1, "fdatasync": 1}

    def before(name: str, path: str) -> int | None:
        answer = None if outer is None else outer(name, path)
        if left.get(name):
            left[name] -= 1
            broker.publish(TOPIC, [30])
        return answer

    broker.files.before_call = before
    try:
        yield
    finally:
        broker.files.before_call = outer


def tell(story: Story) -> None:
    broker = story.broker
    begin(broker, CHANNEL)
    broker.publish(TOPIC, [20])
    story.stage(1, FIRST)
    with publishing_beside(broker):
        story.commit(1, FIRST, CHOSEN)
    broker.publish(TOPIC, [40])
    story.stage(2, SECOND)
    story.commit(2, SECOND, [(0, 7)])
    story.stage(3, SECOND)


@cache
def told() -> Story:
    story = Story(SimBroker(SimFiles(empty_disk())))
    try:
        tell(story)
    finally:
        story.broker.close()
    return story


def expected(parts: Parts, keys: Sequence[tuple[int, int]], topic: str) -> Counter[bytes]:
    return Counter(b for key in keys for name, bodies in parts[key] if name == topic for b in bodies)


ALL = {
    (sequence, topic): expected(parts, keys, topic)
    for sequence, parts, keys in ((1, FIRST, CHOSEN), (2, SECOND, ((0, 7),)))
    for topic in (TOPIC, OTHER)
}
KNOWN = {body for bodies in ALL.values() for body in bodies} | {b"failed attempt", b"never seen"}


def seen(broker: SimBroker, topic: str) -> Counter[bytes]:
    """Of the transactions; what was published beside them may be lost with the power."""
    live = broker.broker.topics.get(topic)
    if live is None:
        return Counter()
    bodies = [message.body for message in peek_at_topic(live, live.core.log.first, 1_000, 1 << 22)]
    return Counter(body for body in bodies if body in KNOWN)


def check(image: Image, story: Story, when: int) -> SimFiles:
    """All or nothing of each; all of what was answered; and nothing twice when all is sent again."""
    again = Story(SimBroker(SimFiles(image)))
    broker = again.broker
    try:
        broker.start()
        happened = _which_happened(broker)
        assert happened >= {sequence for sequence, at in story.committed.items() if at <= when}
        assert happened <= {sequence for sequence, at in story.committing.items() if at <= when}
        for sequence, parts, keys in ((1, FIRST, CHOSEN), (2, SECOND, ((0, 7),))):
            _send_again(again, sequence, parts, keys)
        for topic in (TOPIC, OTHER):
            assert seen(broker, topic) == ALL[1, topic] + ALL[2, topic]
    finally:
        broker.close()
    files = broker.files
    assert isinstance(files, SimFiles)
    return files


def _which_happened(broker: SimBroker) -> set[int]:
    found = {topic: seen(broker, topic) for topic in (TOPIC, OTHER)}
    for happened in (set[int](), {1}, {1, 2}):
        if all(
            found[topic] == sum((ALL[sequence, topic] for sequence in happened), Counter())
            for topic in (TOPIC, OTHER)
        ):
            return happened
    raise AssertionError(f"a part of a transaction: {found}")


def _send_again(story: Story, sequence: int, parts: Parts, keys: Sequence[tuple[int, int]]) -> None:
    """As Spark does with a batch that it does not know to be done: under names of new attempts."""
    renamed = {(part, attempt + 100): records for (part, attempt), records in parts.items()}
    story.stage(sequence, renamed)
    story.commit(sequence, renamed, [(part, attempt + 100) for part, attempt in keys])


@ORDER
def test_a_power_loss_at_any_point_leaves_all_or_nothing(order: Order) -> None:
    story = told()
    files = story.broker.files
    marks = sorted([*story.committing.values(), *story.committed.values()])
    count = 0

    for moment in moments(files.image, files.trace, order, limit=400, seed="transactions", marks=marks):
        try:
            check(moment.image, story, moment.when)
        except BaseException as error:
            error.add_note(f"after the power loss {moment.origin}")
            raise
        count += 1

    assert count > 200


class KilledError(BaseException):
    """The process is gone."""


def killed_after(calls: int, work: Callable[[], object], files: SimFiles) -> bool:
    """Whether that came before the end of the work."""
    left = calls

    def before(_name: str, _path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    files.before_call = before
    try:
        work()
    except (KilledError, OSError):  # the threads of the broker know only errors of the disk
        assert left < 0
    finally:
        files.before_call = None
        files.forget_descriptors()
    return left < 0


def test_a_kill_before_any_call_leaves_all_or_nothing() -> None:
    calls = 0
    while True:
        files = SimFiles(empty_disk())
        story = Story(SimBroker(files))
        is_killed = killed_after(calls, lambda story=story: tell(story), files)  # type: ignore[misc]
        story.broker.close()
        check(files.volatile_image(), story, files.now)
        calls += 1
        if not is_killed:
            break
    assert calls > 150


def test_a_kill_during_recovery_is_recovered_from() -> None:
    """The first kill comes when the first transaction is decided and half of it is in the logs."""
    files = SimFiles(empty_disk())
    story = Story(SimBroker(files))
    appended = 0

    def before(name: str, path: str) -> None:
        nonlocal appended
        appended += name == "writev" and "/log/" in path and bool(story.committing)
        if appended == 3:
            raise KilledError

    files.before_call = before
    with pytest.raises(KilledError):
        tell(story)
    story.broker.close()
    half_done = files.volatile_image()

    for calls in range(1_000):
        files = SimFiles(half_done)
        second = SimBroker(files)
        is_killed = killed_after(calls, second.start, files)
        second.close()
        check(files.volatile_image(), story, story.broker.now)
        if not is_killed:
            break
    assert calls > 20
