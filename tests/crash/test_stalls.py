"""A daemon that is frozen, and a disk that is slow or fails under it."""

from __future__ import annotations

import errno
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.crash.bodies import Content
from tests.crash.book import Book, Outcome
from tests.crash.client import Client, RefusedError, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.launcher import fault, faulty
from tests.crash.load import Consumer, Habit, drain, producers, working

pytestmark = pytest.mark.slow

TOPIC = "orders"
OTHER = "other"
OF_TOPIC = f"{TOPIC}.topic/log/"
AFTER_SYNC = "--ack-after=sync"
STALL_S = 2.0


@pytest.fixture
def switch(tmp_path: Path) -> Path:
    return tmp_path / "switch"


def publish(client: Client, book: Book, producer: int, count: int, topic: str = TOPIC) -> list[str]:
    """One MPUB of two messages after the other; returns what was refused, and why."""
    refusals = []
    for number in range(count):
        contents = [Content(producer, 2 * number + each, number + 1, 2) for each in range(2)]
        book.attempt(contents)
        try:
            client.publish_many(topic, [content.encode(300) for content in contents])
        except RefusedError as error:
            refusals.append(str(error))
            book.answer(contents, Outcome.REFUSED)
        else:
            book.answer(contents, Outcome.ACKNOWLEDGED)
    return refusals


# Frozen ---------------------------------------------------------------------------------------------------


def test_a_frozen_daemon_times_messages_out_once(start_nsqd: StartNsqd) -> None:
    nsqd = start_nsqd("--msg-timeout=1s")
    create_channels(nsqd.port, TOPIC, "worked")
    with Client(nsqd.port) as consumer, Client(nsqd.port) as producer:
        producer.publish_many(TOPIC, [b"%d" % number for number in range(100)])
        consumer.subscribe(TOPIC, "worked", ready=100)
        held = consumer.gather(100)

        nsqd.signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        nsqd.signal(signal.SIGCONT)
        again = consumer.gather(100, limit_s=5)
        consumer.finish(*again)
        consumer.barrier()

        assert sorted(message.id for message in again) == sorted(message.id for message in held)
        assert {message.attempts for message in again} == {2}
        assert consumer.messages(1.2) == []


def test_a_daemon_frozen_under_load_loses_nothing(start_nsqd: StartNsqd) -> None:
    book = Book()
    nsqd = start_nsqd()
    create_channels(nsqd.port, TOPIC, "worked", "idle")
    consumers = [Consumer(nsqd.port, book, TOPIC, "worked", habit, 43) for habit in Habit]

    with working(*consumers, *producers(nsqd.port, book, TOPIC, 43)):
        time.sleep(0.2)
        nsqd.signal(signal.SIGSTOP)
        time.sleep(1.5)
        nsqd.signal(signal.SIGCONT)
        time.sleep(0.3)
    drain(nsqd.port, book, TOPIC, "worked", "idle")

    assert book.faults == {}
    assert book.count(Outcome.UNANSWERED) == 0


# Slow -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_slow_sync_stalls_nobody_else(start_nsqd: StartNsqd, switch: Path, call: str) -> None:
    book = Book()
    nsqd = start_nsqd(AFTER_SYNC, program=faulty(fault(switch, call, path=TOPIC, delay_s=STALL_S)))
    if call == "fdatasync":
        create_channels(nsqd.port, TOPIC, "worked")
    create_channels(nsqd.port, OTHER, "worked")
    switch.touch()
    with Client(nsqd.port) as slow, Client(nsqd.port) as quick, Client(nsqd.port) as idle:
        idle.identify(heartbeat_interval=1_000)
        waiting = threading.Thread(target=publish, args=(slow, book, 1, 1))
        began = time.monotonic()
        waiting.start()
        longest_s = 0.0
        while time.monotonic() - began < STALL_S - 0.1:
            asked = time.monotonic()
            quick.publish(OTHER, b"hello")
            longest_s = max(longest_s, time.monotonic() - asked)
            idle.wait_closed(0.05)
        assert waiting.is_alive()
        waiting.join()

    assert longest_s < 0.5
    assert idle.heartbeat_count >= 1
    assert book.count(Outcome.ACKNOWLEDGED) == 2


def test_a_slow_sync_does_not_delay_answers_that_need_none(start_nsqd: StartNsqd, switch: Path) -> None:
    book = Book()
    program = faulty(fault(switch, "fdatasync", delay_s=STALL_S))
    nsqd = start_nsqd("--sync-every=1", program=program)
    create_channels(nsqd.port, TOPIC, "worked")
    switch.touch()

    with Client(nsqd.port) as client:
        began = time.monotonic()
        publish(client, book, 1, 100)
        took_s = time.monotonic() - began
    nsqd.kill()
    book.interrupted()
    switch.unlink()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert took_s < STALL_S
    assert book.faults == {}


# Failing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(AFTER_SYNC,), ("--sync-every=1",)])
def test_after_a_failed_sync_nothing_is_acknowledged_until_restart(
    start_nsqd: StartNsqd, switch: Path, flags: tuple[str, ...]
) -> None:
    book = Book()
    nsqd = start_nsqd(*flags, program=faulty(fault(switch, "fdatasync", path=OF_TOPIC, code=errno.EIO)))
    create_channels(nsqd.port, TOPIC, "worked")
    create_channels(nsqd.port, OTHER, "worked")
    with Client(nsqd.port) as client:
        assert publish(client, book, 1, 20) == []
        switch.touch()
        unsynced = publish(client, Book(), 2, 1)
        nsqd.wait_for_log("sync failed, takes no more messages until the daemon restarts")
        switch.unlink()

        assert unsynced == (
            ["E_MPUB_FAILED MPUB failed sync failed: input/output error"] if AFTER_SYNC in flags else []
        )
        refusals = publish(client, book, 3, 10)
        assert refusals == ["E_MPUB_FAILED MPUB failed sync failed: input/output error"] * 10
        client.publish(OTHER, b"unaffected")
    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    with Client(nsqd.port) as client:
        assert publish(client, book, 4, 5) == []
    # A publish whose sync failed may come all the same: its outcome is unknown.
    book.attempt(Content(2, number, 1, 2) for number in range(2))
    drain(nsqd.port, book, TOPIC, "worked")
    assert book.faults == {}


def test_consumers_go_on_after_a_failed_sync(start_nsqd: StartNsqd, switch: Path) -> None:
    book = Book()
    nsqd = start_nsqd("--sync-every=1", program=faulty(fault(switch, "fdatasync", code=errno.EIO)))
    create_channels(nsqd.port, TOPIC, "worked")
    switch.touch()
    with Client(nsqd.port) as client:
        publish(client, book, 1, 50)
    nsqd.wait_for_log("sync failed")

    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}
    assert book.count(Outcome.ACKNOWLEDGED) > 0


@pytest.mark.parametrize(
    "calls",
    [{"writev": None}, {"writev": 100, "write": None}, {"writev": 100, "write": None, "ftruncate": None}],
    ids=["at once", "in the middle of a block", "and cannot be cut off"],
)
def test_a_failed_write_is_refused_and_leaves_nothing_torn(
    start_nsqd: StartNsqd, switch: Path, calls: dict[str, int | None]
) -> None:
    book, other = Book(), Book()
    faults = [
        fault(switch, call, path=OF_TOPIC, allowed=allowed, code=0 if allowed else errno.EIO)
        for call, allowed in calls.items()
    ]
    nsqd = start_nsqd(program=faulty(*faults))
    create_channels(nsqd.port, TOPIC, "worked")
    create_channels(nsqd.port, OTHER, "worked")
    with Client(nsqd.port) as client:
        assert publish(client, book, 1, 20) == []
        switch.touch()
        refusals = publish(client, book, 2, 10)
        assert publish(client, other, 3, 10, OTHER) == []
    switch.unlink()

    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    with Client(nsqd.port) as client:
        assert publish(client, book, 4, 10) == []
    drain(nsqd.port, book, TOPIC, "worked")
    drain(nsqd.port, other, OTHER, "worked")

    assert len(refusals) == 10
    assert all("E_MPUB_FAILED MPUB failed input/output error" in refusal for refusal in refusals)
    assert book.faults == other.faults == {}


def test_short_writes_are_completed(start_nsqd: StartNsqd, switch: Path) -> None:
    book = Book()
    faults = [fault(switch, call, allowed=100) for call in ("write", "writev")]
    nsqd = start_nsqd(program=faulty(*faults))
    switch.touch()
    create_channels(nsqd.port, TOPIC, "worked")
    with Client(nsqd.port) as client:
        assert publish(client, book, 1, 50) == []

    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}


@pytest.mark.parametrize(
    "calls", [{"writev": None}, {"writev": 100, "write": None}], ids=["at once", "in the middle"]
)
def test_publishing_goes_on_after_a_write_without_room(
    start_nsqd: StartNsqd, switch: Path, calls: dict[str, int | None]
) -> None:
    book = Book()
    faults = [
        fault(switch, call, path=OF_TOPIC, allowed=allowed, code=0 if allowed else errno.ENOSPC)
        for call, allowed in calls.items()
    ]
    nsqd = start_nsqd(program=faulty(*faults))
    create_channels(nsqd.port, TOPIC, "worked")
    with Client(nsqd.port) as client:
        for producer in (1, 3):
            assert publish(client, book, producer, 10) == []
            switch.touch()
            refusals = publish(client, book, producer + 1, 5)
            assert refusals == ["E_MPUB_FAILED MPUB failed disk full: no space left on device"] * 5
            switch.unlink()
        assert publish(client, book, 5, 10) == []

    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}


def test_a_journal_that_cannot_be_written_is_written_later(start_nsqd: StartNsqd, switch: Path) -> None:
    book = Book()
    nsqd = start_nsqd(program=faulty(fault(switch, "write", path=".journal", code=errno.EIO)))
    create_channels(nsqd.port, TOPIC, "worked")
    with Client(nsqd.port) as client:
        publish(client, book, 1, 20)
    switch.touch()
    drain(nsqd.port, book, TOPIC, "worked")
    nsqd.wait_for_log("journal not written, will be tried again")

    switch.unlink()
    time.sleep(1.5)
    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "worked")

    assert book.faults == {}


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_a_segment_that_cannot_be_opened_is_read_later(
    start_nsqd: StartNsqd, switch: Path, code: int
) -> None:
    book, other = Book(), Book()
    nsqd = start_nsqd(program=faulty(fault(switch, "open", path=OF_TOPIC, code=code)))
    create_channels(nsqd.port, TOPIC, "worked", "second")
    create_channels(nsqd.port, OTHER, "worked")
    with Client(nsqd.port) as client:
        publish(client, book, 1, 20)
        publish(client, other, 2, 20, OTHER)
    nsqd.kill()
    book.interrupted()
    nsqd.restart()
    switch.touch()

    with Client(nsqd.port) as consumer:
        consumer.subscribe(TOPIC, "worked", ready=10)
        assert consumer.messages(0.3) == []
        drain(nsqd.port, other, OTHER, "worked")
        switch.unlink()
        assert consumer.gather(10, limit_s=5)
    drain(nsqd.port, book, TOPIC, "worked", "second")

    assert book.faults == other.faults == {}
