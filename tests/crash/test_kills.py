"""kill -9 and SIGTERM at any moment: nothing acknowledged is lost, nothing comes early, no MPUB in part."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from nsqlake.nsqd.topic_store import TopicStore
from nsqlake.topiclog.files import OS_FILES
from tests.crash.bodies import Content
from tests.crash.book import MS, Book, Outcome
from tests.crash.client import Client, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.harness import Nsqd, kills
from tests.crash.load import Consumer, Habit, Worker, drain, producers, working

pytestmark = [pytest.mark.slow, pytest.mark.timeout(100 * kills(7))]

TOPIC = "orders"
SMALL_FILES = "--max-bytes-per-file=200000"
LITTLE_MEMORY = "--mem-queue-size=100"
AFTER_SYNC = "--ack-after=sync"
RESTART_LIMIT_S = 1.0
EXIT_LIMIT_S = 5.0
LATE_LIMIT_NS = 1_000 * MS


def kill_under_load(nsqd: Nsqd, book: Book, workers: list[Worker], after_s: float) -> None:
    with working(*workers):
        time.sleep(after_s)
        nsqd.kill()
        book.interrupted()


@pytest.mark.parametrize("flags", [(), (SMALL_FILES, LITTLE_MEMORY), (AFTER_SYNC,)])
@pytest.mark.parametrize("habits", [(), (Habit.FINISH,), (Habit.HOLD,), tuple(Habit)])
def test_a_kill_under_load_loses_nothing(
    start_nsqd: StartNsqd, tmp_path: Path, flags: tuple[str, ...], habits: tuple[Habit, ...]
) -> None:
    random = Random(f"{flags} {habits}")
    for run in range(kills(1)):
        book, seed = Book(), random.randrange(2**32)
        nsqd = start_nsqd(*flags, data_path=tmp_path / str(run))
        create_channels(nsqd.port, TOPIC, "worked", "idle")
        consumers = [Consumer(nsqd.port, book, TOPIC, "worked", habit, seed) for habit in habits]
        workers = [*consumers, *producers(nsqd.port, book, TOPIC, seed)]

        kill_under_load(nsqd, book, workers, random.uniform(0.1, 0.6))
        nsqd.restart()
        drain(nsqd.port, book, TOPIC, "worked", "idle")
        nsqd.kill()

        assert book.faults == {}
        assert book.count(Outcome.ACKNOWLEDGED) > 20


@pytest.mark.parametrize("flags", [(), (SMALL_FILES,), (AFTER_SYNC, SMALL_FILES)])
def test_kills_in_a_row_on_one_data_path_lose_nothing(start_nsqd: StartNsqd, flags: tuple[str, ...]) -> None:
    random, book = Random(str(flags)), Book()
    nsqd = start_nsqd(*flags)
    create_channels(nsqd.port, TOPIC, "worked", "idle")

    for _ in range(kills(7)):
        seed = random.randrange(2**32)
        consumers = [Consumer(nsqd.port, book, TOPIC, "worked", habit, seed) for habit in Habit]
        workers = [*consumers, *producers(nsqd.port, book, TOPIC, seed)]
        kill_under_load(nsqd, book, workers, random.uniform(0.02, 0.6))
        nsqd.restart()
        assert nsqd.recovery_s < RESTART_LIMIT_S
    drain(nsqd.port, book, TOPIC, "worked", "idle")

    assert book.faults == {}


def test_a_kill_in_the_first_moments_of_a_data_path_loses_nothing(
    start_nsqd: StartNsqd, tmp_path: Path
) -> None:
    random = Random(4)
    for run in range(kills(4)):
        book = Book()
        nsqd = start_nsqd(data_path=tmp_path / str(run))
        workers: list[Worker] = [Consumer(nsqd.port, book, TOPIC, "worked", Habit.HOLD, run)]
        workers += producers(nsqd.port, book, TOPIC, run)

        kill_under_load(nsqd, book, workers, random.uniform(0, 0.1))
        nsqd.restart()
        drain(nsqd.port, book, TOPIC, "worked")
        nsqd.kill()

        assert book.faults == {}


def test_a_large_mpub_survives_a_kill_whole_or_not_at_all(start_nsqd: StartNsqd) -> None:
    random, book = Random(8), Book()
    nsqd = start_nsqd()
    create_channels(nsqd.port, TOPIC, "idle")

    for life in range(kills(4)):
        publishing = LargeMpubs(nsqd.port, book, life)
        kill_under_load(nsqd, book, [publishing], random.uniform(0.02, 0.15))
        nsqd.restart()
    drain(nsqd.port, book, TOPIC, "idle")

    assert book.faults == {}
    assert book.count(Outcome.ACKNOWLEDGED) > 1_000


class LargeMpubs(Worker):
    """MPUBs of 1,000 messages, 1 MB each."""

    def __init__(self, port: int, book: Book, number: int) -> None:
        super().__init__(port, number)
        self._book, self._number = book, 1_000_000 + number

    def work(self, client: Client) -> None:
        group = 0
        while not self.stopping.is_set():
            group += 1
            contents = [Content(self._number, group << 16 | each, group, 1_000) for each in range(1_000)]
            self._book.attempt(contents)
            client.publish_many(TOPIC, [content.encode(1_000) for content in contents])
            self._book.answer(contents, Outcome.ACKNOWLEDGED)


def test_kills_during_recovery_change_nothing(start_nsqd: StartNsqd) -> None:
    random, book = Random(7), Book()
    nsqd = start_nsqd(SMALL_FILES)
    create_channels(nsqd.port, TOPIC, "worked", "idle")
    consumers = [Consumer(nsqd.port, book, TOPIC, "worked", habit, 7) for habit in Habit]
    workers = [*consumers, *producers(nsqd.port, book, TOPIC, 7)]
    kill_under_load(nsqd, book, workers, 1.5)
    nsqd.restart()
    recovery_s = nsqd.recovery_s
    nsqd.kill()

    for _ in range(kills(6)):
        nsqd.spawn()
        nsqd.wait_for_log("INFO: ID: ")
        time.sleep(random.uniform(0, recovery_s))
        nsqd.kill()
        book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked", "idle")

    assert book.faults == {}


@pytest.mark.parametrize("is_clean", [True, False])
def test_queued_held_requeued_and_deferred_messages_survive(start_nsqd: StartNsqd, is_clean: bool) -> None:
    book = Book()
    nsqd = start_nsqd()
    create_channels(nsqd.port, TOPIC, "worked")
    channel = book.channel("worked")
    with Client(nsqd.port) as consumer, Client(nsqd.port) as producer:
        publish_all_sorts(producer, book)
        consumer.subscribe(TOPIC, "worked", ready=220)
        held = consumer.gather(220)
        keys = [channel.deliver(message) for message in held]
        for message, key in zip(held[:20], keys, strict=False):
            assert key is not None
            channel.requeue(key, time.time_ns(), time.time_ns() + 3_000 * MS)
            consumer.requeue(message, 3_000)
        consumer.ready(0)
        consumer.barrier()
        time.sleep(0.05)

        if is_clean:
            began = time.monotonic()
            assert nsqd.stop() == 0
            assert time.monotonic() - began < EXIT_LIMIT_S
        else:
            nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}
    assert sorted(len(times) for times in channel.deliveries.values()).count(2) == 220
    seen_twice = [times[1].attempts for times in channel.deliveries.values() if len(times) == 2]
    assert seen_twice == [2] * 220
    assert lateness_ns(book) < LATE_LIMIT_NS


def publish_all_sorts(producer: Client, book: Book) -> None:
    """100 deferred messages, then 5,200 plain ones."""
    due_ns = time.time_ns() + 3_000 * MS
    deferred = [Content(1, number, due_ns=due_ns) for number in range(100)]
    book.attempt(deferred)
    for content in deferred:
        producer.publish_deferred(TOPIC, 3_000, content.encode())
    plain = [Content(2, number) for number in range(5_200)]
    book.attempt(plain)
    for start in range(0, len(plain), 200):
        producer.publish_many(TOPIC, [content.encode() for content in plain[start : start + 200]])
    book.answer([*deferred, *plain], Outcome.ACKNOWLEDGED)


def lateness_ns(book: Book) -> int:
    """How long after its time the latest of the delayed messages came."""
    channel = book.channel("worked")
    due = {key: content.due_ns for key, content in book.published.items() if content.due_ns}
    due |= {key: waits[-1][1] for key, waits in channel.requeued.items()}
    return max(channel.deliveries[key][-1].received_ns - due_ns for key, due_ns in due.items())


def test_sigterm_under_load_loses_nothing_and_answers_truly(start_nsqd: StartNsqd) -> None:
    random, book = Random(11), Book()
    nsqd = start_nsqd(SMALL_FILES)
    create_channels(nsqd.port, TOPIC, "worked", "idle")

    for _ in range(kills(4)):
        seed = random.randrange(2**32)
        consumers = [Consumer(nsqd.port, book, TOPIC, "worked", habit, seed) for habit in Habit]
        with working(*consumers, *producers(nsqd.port, book, TOPIC, seed)):
            time.sleep(random.uniform(0.05, 0.4))
            began = time.monotonic()
            assert nsqd.stop() == 0
            book.interrupted()
            assert time.monotonic() - began < EXIT_LIMIT_S
        nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked", "idle")

    assert book.faults == {}


def test_attempts_go_on_counting_over_kills(start_nsqd: StartNsqd) -> None:
    book = Book()
    nsqd = start_nsqd()
    create_channels(nsqd.port, TOPIC, "worked")
    contents = [Content(1, number) for number in range(50)]
    book.attempt(contents)
    with Client(nsqd.port) as producer:
        producer.publish_many(TOPIC, [content.encode() for content in contents])
    book.answer(contents, Outcome.ACKNOWLEDGED)

    for life in range(1, 5):
        with Client(nsqd.port) as consumer:
            consumer.subscribe(TOPIC, "worked", ready=50)
            held = consumer.gather(50)
            assert [message.attempts for message in held] == [life] * 50
            consumer.barrier()
            time.sleep(0.05)
            nsqd.kill()
        nsqd.restart()


def test_topics_channels_and_pauses_survive_a_kill(start_nsqd: StartNsqd) -> None:
    nsqd = start_nsqd()
    for topic in ("one", "two", "three"):
        create_channels(nsqd.port, topic, "a", "b")
    nsqd.stop()
    pause_channel(nsqd.data_path, "two", "a")
    nsqd.restart()
    with Client(nsqd.port) as producer:
        for topic in ("one", "two", "three"):
            producer.publish(topic, b"hello")

    nsqd.kill()
    nsqd.restart()

    received = {}
    for topic in ("one", "two", "three"):
        for channel in ("a", "b"):
            with Client(nsqd.port) as consumer:
                consumer.subscribe(topic, channel, ready=1)
                received[topic, channel] = len(consumer.gather(1, limit_s=1.0 if channel == "b" else 0.3))
    paused = ("two", "a")
    assert received == {place: int(place != paused) for place in received}


def pause_channel(data_path: Path, topic: str, channel: str) -> None:
    store = TopicStore(OS_FILES, str(data_path / "topics" / f"{topic}.topic"))
    state = store.read_state()
    assert state is not None
    for each in state.channels:
        each.paused = each.paused or each.name == channel
    store.write_state(state)
