"""A small disk that fills up: publishers are told, nothing acknowledged is lost, and space is used again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nsqlake.wire.received_message import Message
from tests.crash.bodies import Content
from tests.crash.book import Book, Outcome
from tests.crash.client import Client, RefusedError, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.harness import Nsqd
from tests.crash.load import drain

pytestmark = pytest.mark.slow

TOPIC = "orders"
BODY_BYTES = 2_000
BATCH = 20
RESUME_LIMIT_S = 5.0
POLICIES = pytest.mark.parametrize("policy", ["--ack-after=write", "--ack-after=sync"])

Mount = Callable[[str], Path]
PublisherTo = Callable[..., "Publisher"]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """`mount("size=16m")` makes a small disk."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    with contextlib.ExitStack() as mounted:

        def make(options: str) -> Path:
            place = tmp_path / "disk"
            place.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
            mounted.callback(subprocess.run, ["umount", "-l", str(place)], check=True)
            return place

        yield make


@pytest.fixture
def disk(mount: Mount) -> Path:
    return mount("size=16m")


class Filler:
    """A file of somebody else that takes all the room there is."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "filler"
        piece = bytes(64 * 1024)
        with self._path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(piece)

    def remove(self) -> None:
        self._path.unlink()


@pytest.fixture
def publisher_to() -> Iterator[PublisherTo]:
    """`publisher_to(nsqd, book)` connects a publisher."""
    with contextlib.ExitStack() as connected:

        def connect(nsqd: Nsqd, book: Book, number: int = 1, topic: str = TOPIC) -> Publisher:
            client = connected.enter_context(Client(nsqd.port))
            return Publisher(client, book, number, topic)

        yield connect


class Publisher:
    """Publishes batch after batch on one connection and keeps the book."""

    def __init__(self, client: Client, book: Book, number: int, topic: str) -> None:
        self.client = client
        self._book, self._number, self._topic, self._sequence = book, number, topic, 0

    def publish(self, count: int = BATCH) -> str:
        """ "" if it was taken, else the refusal."""
        numbers = range(self._sequence, self._sequence + count)
        self._sequence += count
        contents = [Content(self._number, number) for number in numbers]
        self._book.attempt(contents)
        try:
            self.client.publish_many(self._topic, [content.encode(BODY_BYTES) for content in contents])
        except RefusedError as error:
            self._book.answer(contents, Outcome.REFUSED)
            return str(error)
        self._book.answer(contents, Outcome.ACKNOWLEDGED)
        return ""

    def fill_disk(self) -> str:
        """Publish until that is refused; returns the refusal."""
        while not (refusal := self.publish()):
            pass
        return refusal

    def wait_until_taken(self) -> float:
        """Seconds until a publish is taken again."""
        began = time.monotonic()
        while self.publish() and time.monotonic() - began < 3 * RESUME_LIMIT_S:
            time.sleep(0.05)
        return time.monotonic() - began


def free_bytes(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


@POLICIES
def test_a_full_disk_refuses_publishes_and_loses_nothing(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path, policy: str
) -> None:
    book = Book()
    nsqd = start_nsqd(policy, data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher = publisher_to(nsqd, book)

    refusal = publisher.fill_disk()

    assert refusal.startswith("E_MPUB_FAILED MPUB failed disk full: ")
    with pytest.raises(RefusedError, match="E_PUB_FAILED PUB failed disk full: "):
        publisher.client.publish(TOPIC, bytes(300_000))
    with pytest.raises(RefusedError, match="E_DPUB_FAILED DPUB failed disk full: "):
        publisher.client.publish_deferred(TOPIC, 10, bytes(300_000))
    drain(nsqd.port, book, TOPIC, "worked")
    assert publisher.wait_until_taken() < RESUME_LIMIT_S
    drain(nsqd.port, book, TOPIC, "worked")
    assert book.faults == {}
    assert book.count(Outcome.ACKNOWLEDGED) > 5_000


@POLICIES
def test_a_kill_on_a_full_disk_loses_nothing(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path, policy: str
) -> None:
    book = Book()
    nsqd = start_nsqd(policy, "--min-free-bytes=0", data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher = publisher_to(nsqd, book)
    publisher.fill_disk()
    for _ in range(20):
        publisher.publish()

    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}
    assert publisher_to(nsqd, book, 2).wait_until_taken() < RESUME_LIMIT_S


def test_messages_come_back_on_a_full_disk(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path
) -> None:
    book = Book()
    nsqd = start_nsqd("--msg-timeout=1s", data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher_to(nsqd, book).publish(300)
    Filler(disk)

    with Client(nsqd.port) as consumer:
        consumer.subscribe(TOPIC, "worked", ready=300)
        held = consumer.gather(300)
        for message in held[:150]:
            consumer.requeue(message, 0)
        again = consumer.gather(150)
        consumer.finish(*again)
        again += consumer.gather(150, limit_s=10)

    assert {message.id for message in again} == {message.id for message in held}
    assert {message.attempts for message in again} == {2}


def test_delays_are_kept_on_a_full_disk(start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path) -> None:
    nsqd = start_nsqd(data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher_to(nsqd, Book()).publish(10)
    Filler(disk)

    with Client(nsqd.port) as consumer:
        consumer.subscribe(TOPIC, "worked", ready=10)
        for message in consumer.gather(10):
            consumer.requeue(message, 500)
        too_early = consumer.messages(0.45)
        again = consumer.gather(10, limit_s=5)

    assert too_early == []
    assert len(again) == 10


def test_finishes_on_a_full_disk_are_written_once_there_is_room(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path
) -> None:
    book = Book()
    nsqd = start_nsqd("--max-bytes-per-file=100000000", data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher_to(nsqd, book).publish(1_000)
    filler = Filler(disk)
    drain(nsqd.port, book, TOPIC, "worked")

    filler.remove()
    time.sleep(1.5)
    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}


def test_publishing_goes_on_when_space_is_freed(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path
) -> None:
    book = Book()
    nsqd = start_nsqd(data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher = publisher_to(nsqd, book)
    publisher.publish()
    filler = Filler(disk)
    assert "disk full" in publisher.fill_disk()

    filler.remove()

    assert publisher.wait_until_taken() < RESUME_LIMIT_S
    drain(nsqd.port, book, TOPIC, "worked")
    assert book.faults == {}


@pytest.mark.parametrize("end", [Nsqd.kill, Nsqd.stop])
def test_a_daemon_starts_on_a_full_disk(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path, end: Callable[[Nsqd], object]
) -> None:
    book = Book()
    nsqd = start_nsqd(data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher_to(nsqd, book).publish(1_000)
    end(nsqd)
    book.interrupted()
    filler = Filler(disk)

    nsqd.restart()

    publisher = publisher_to(nsqd, book, 2)
    assert "disk full" in publisher.publish()
    drain(nsqd.port, book, TOPIC, "worked")
    filler.remove()
    assert publisher.wait_until_taken() < RESUME_LIMIT_S
    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    book.channel("worked").forget_settled()
    drain(nsqd.port, book, TOPIC, "worked")
    assert book.faults == {}


def test_a_new_topic_or_channel_is_refused_on_a_full_disk_and_made_later(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path
) -> None:
    nsqd = start_nsqd(data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    filler = Filler(disk)
    publisher = publisher_to(nsqd, Book(), topic="new")

    assert "disk full" in publisher.publish()
    with Client(nsqd.port) as consumer, pytest.raises(RefusedError, match=r"E_SUB_FAILED .*disk full"):
        consumer.subscribe(TOPIC, "another")
    filler.remove()

    assert publisher.wait_until_taken() < RESUME_LIMIT_S
    create_channels(nsqd.port, TOPIC, "another")
    nsqd.kill()
    nsqd.restart()
    with Client(nsqd.port) as consumer:
        consumer.subscribe("new", "first", ready=BATCH)
        assert len(consumer.gather(BATCH, limit_s=5)) == BATCH


def test_a_lack_of_inodes_is_a_full_disk(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, mount: Mount
) -> None:
    disk, book = mount("size=64m,nr_inodes=24"), Book()
    nsqd = start_nsqd("--max-bytes-per-file=500000", data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "worked")
    publisher = publisher_to(nsqd, book)

    refusal = publisher.fill_disk()

    assert refusal == "E_MPUB_FAILED MPUB failed disk full: no space left on device"
    assert "disk full" in publisher_to(nsqd, Book(), topic="new").publish()
    drain(nsqd.port, book, TOPIC, "worked")
    assert publisher.wait_until_taken() < RESUME_LIMIT_S
    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")
    assert book.faults == {}


def test_space_returns_while_all_channels_pass(
    start_nsqd: StartNsqd, publisher_to: PublisherTo, disk: Path
) -> None:
    book = Book()
    nsqd = start_nsqd(data_path=disk / "data")
    create_channels(nsqd.port, TOPIC, "first", "second")
    publisher_to(nsqd, book).fill_disk()
    full_bytes = free_bytes(disk)

    with Client(nsqd.port) as consumer:
        consumer.subscribe(TOPIC, "first", ready=1_000)
        finish(consumer, 4_000)
    time.sleep(1.5)
    assert free_bytes(disk) < full_bytes + 100_000
    with Client(nsqd.port) as consumer:
        consumer.subscribe(TOPIC, "second", ready=1_000)
        finish(consumer, 2_000)
        wait_until(lambda: free_bytes(disk) > full_bytes + 2_000_000)
        finish(consumer, 2_000)
        wait_until(lambda: free_bytes(disk) > full_bytes + 6_000_000)


def finish(consumer: Client, count: int) -> list[Message]:
    finished: list[Message] = []
    while len(finished) < count:
        messages = consumer.messages(10)
        assert messages
        consumer.finish(*messages)
        finished += messages
    consumer.barrier()
    return finished


def wait_until(condition: Callable[[], bool], limit_s: float = RESUME_LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
