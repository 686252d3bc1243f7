"""`LogWatch`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.nsqd.http import log_watch
from nsqlake.nsqd.http.log_watch import LogWatch
from tests.nsqd.broker_on_disk import BrokerOnDisk

LONG_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[BrokerOnDisk]:
    with BrokerOnDisk(str(tmp_path)) as broker:
        yield broker


def waiting(disk: BrokerOnDisk, offset: int, limit_s: float = LONG_S) -> "asyncio.Task[None]":
    task = disk.loop.create_task(LogWatch(disk.broker).wait(disk.topic(), offset, limit_s))
    disk.settle()
    return task


def wait_for(disk: BrokerOnDisk, task: "asyncio.Task[None]") -> None:
    disk.run(asyncio.wait_for(task, 10.0))


def test_a_log_that_has_the_offset_is_not_waited_for(disk: BrokerOnDisk) -> None:
    offset = disk.publish(b"x")

    assert waiting(disk, offset).done()


def test_waiting_ends_with_the_message(disk: BrokerOnDisk) -> None:
    task = waiting(disk, disk.topic().core.log.next)
    assert not task.done()

    disk.publish(b"x")

    wait_for(disk, task)


def test_waiting_ends_with_its_time(disk: BrokerOnDisk) -> None:
    wait_for(disk, waiting(disk, disk.topic().core.log.next, 0.01))


def test_waiting_ends_with_the_topic(disk: BrokerOnDisk) -> None:
    task = waiting(disk, disk.topic().core.log.next)

    disk.run(disk.broker.delete_topic(disk.topic()))

    wait_for(disk, task)


def test_waiting_ends_with_the_daemon(disk: BrokerOnDisk) -> None:
    task = waiting(disk, disk.topic().core.log.next)

    disk.broker.begin_exit()

    wait_for(disk, task)


def test_a_reader_that_left_is_forgotten_and_others_wait_on(disk: BrokerOnDisk) -> None:
    watch, topic = LogWatch(disk.broker), disk.topic()
    tasks = [disk.loop.create_task(watch.wait(topic, topic.core.log.next, LONG_S)) for _ in range(2)]
    disk.settle()

    tasks[0].cancel()
    disk.publish(b"x")

    wait_for(disk, tasks[1])
    assert tasks[0].cancelled()


def test_too_many_readers_need_not_wait(disk: BrokerOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_watch, "MAX_WAITING", 0)

    assert waiting(disk, disk.topic().core.log.next).done()


def test_those_who_wait_at_one_place_are_asked_about_once(disk: BrokerOnDisk) -> None:
    watch, topic = LogWatch(disk.broker), disk.topic()
    tasks = [disk.loop.create_task(watch.wait(topic, topic.core.log.next, LONG_S)) for _ in range(100)]
    disk.settle()
    assert len(watch._crowds) == 1

    disk.publish(b"x")

    disk.run(asyncio.wait_for(asyncio.gather(*tasks), 10.0))
    assert (len(watch._crowds), watch._count) == (0, 0)
