"""Seek, commit, channels that begin somewhere and cancelled delays: durable before they are answered."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.nsqd.core.channel import Outcome
from nsqlake.nsqd.core.seeking import FutureOffsetError, RemovedOffsetError, SeekTarget
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.replay import message_id
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.nsqd.broker_on_disk import SECOND_NS, BrokerOnDisk
from tests.nsqd.core.harness import id_of


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[BrokerOnDisk]:
    with BrokerOnDisk(str(tmp_path), max_bytes_per_file=300, mem_queue_size=100) as broker:
        yield broker


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def faulty(tmp_path: Path, files: FaultyFiles) -> Iterator[BrokerOnDisk]:
    with BrokerOnDisk(str(tmp_path), files=files) as broker:
        yield broker


# Seek


@pytest.mark.parametrize(("target", "skipped"), [("earliest", 0), ("latest", 10), ("offset", 4), ("time", 7)])
def test_a_seek_survives_a_kill(disk: BrokerOnDisk, target: str, skipped: int) -> None:
    disk.channel()
    base = disk.publish(*[b"x"] * 7)
    disk.clock.advance_ms(1_000)
    disk.publish(*[b"y"] * 3)
    targets = {
        "earliest": SeekTarget.earliest(),
        "latest": SeekTarget.latest(),
        "offset": SeekTarget.at_offset(base + 4),
        "time": SeekTarget.at_time(disk.clock.now_ns()),
    }
    assert len(disk.drained(disk.channel())) == 10

    assert disk.run(disk.broker.seek(disk.channel(), targets[target])) == base + skipped
    disk.kill_and_start()

    assert disk.drained(disk.channel()) == list(range(base + skipped, base + 10))


def test_consumers_are_sent_what_a_seek_asks_for(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    base = disk.publish(b"a", b"b", b"c")
    sub, consumer = disk.consume(channel, 3)
    assert [message.offset for message in consumer.received] == [base, base + 1, base + 2]

    disk.run(disk.broker.seek(channel, SeekTarget.at_offset(base + 1)))
    disk.settle()

    assert [message.offset for message in consumer.received[3:]] == [base + 1, base + 2]
    assert [message.attempts for message in consumer.received] == [1] * 5
    assert sub.in_flight == 2
    assert channel.core.finish(sub, id_of(base)) is Outcome.NOT_IN_FLIGHT


def test_delayed_messages_behind_a_seek_wait_for_their_time_also_after_a_kill(disk: BrokerOnDisk) -> None:
    disk.channel()
    base = disk.publish(b"now")
    disk.publish(b"later", b"later", delay_ns=3600 * SECOND_NS)

    disk.run(disk.broker.seek(disk.channel(), SeekTarget.earliest()))
    disk.settle()
    assert disk.channel().alarm_ns == disk.clock.now_ns() + 3600 * SECOND_NS
    disk.kill_and_start()
    assert disk.drained(disk.channel()) == [base]
    disk.clock.advance_ms(3600 * 1_000)
    disk.channel().core.expire(disk.clock.now_ns())

    assert disk.drained(disk.channel()) == [base + 1, base + 2]


def test_a_seek_takes_in_what_was_published_just_before(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    topic = channel.topic
    topic.gathering.add_one(b"\0\0\0\1x", Silent())
    disk.broker.turn.gather(topic)

    cursor = disk.run(disk.broker.seek(channel, SeekTarget.latest()))

    assert cursor == topic.core.log.next
    assert channel.core.depth == 0


class Silent:
    def succeed(self) -> None:
        return

    def fail(self, reason: str) -> None:
        raise AssertionError(reason)


def test_a_seek_to_nowhere_changes_nothing(disk: BrokerOnDisk) -> None:
    channel, topic = disk.channel(), disk.topic()
    offsets = [disk.publish(b"x" * 100) for _ in range(10)]
    disk.run(disk.broker.commit(channel, offsets[6]))
    assert topic.core.retire()
    sub, _ = disk.consume(channel, 2)

    with pytest.raises(RemovedOffsetError, match="--retention-time") as removed:
        disk.run(disk.broker.seek(channel, SeekTarget.at_offset(offsets[0])))
    with pytest.raises(FutureOffsetError):
        disk.run(disk.broker.seek(channel, SeekTarget.at_offset(offsets[9] + 2)))
    with pytest.raises(RemovedOffsetError):
        disk.run(disk.broker.seek(channel, SeekTarget.at_time(1)))

    assert removed.value.first == topic.core.log.first <= offsets[6]
    assert (sub.in_flight, channel.core.depth) == (2, 2)
    assert disk.run(disk.broker.seek(channel, SeekTarget.earliest())) == topic.core.log.first


def test_whether_a_log_is_whole_is_known_after_a_restart(disk: BrokerOnDisk) -> None:
    disk.channel()
    base = disk.publish(b"x")

    disk.kill_and_start()

    assert disk.run(disk.broker.seek(disk.channel(), SeekTarget.at_time(1))) == base


@pytest.mark.parametrize("restarts", [1, 3])
def test_restarts_before_the_first_message_are_no_loss(disk: BrokerOnDisk, restarts: int) -> None:
    disk.channel()
    for _ in range(restarts):
        disk.clock.advance_ms(1_000)
        disk.kill_and_start()
    base = disk.publish(b"x")
    disk.run(save_moved_origin(disk.topic()))
    disk.kill_and_start()

    assert disk.run(disk.broker.seek(disk.channel(), SeekTarget.at_time(1))) == base


async def save_moved_origin(topic: LiveTopic) -> None:
    topic.save_moved_origin()
    assert topic.is_busy
    while topic.is_busy:
        await asyncio.sleep(0)


def test_a_seek_that_cannot_be_written_is_an_error_and_may_be_tried_again(
    faulty: BrokerOnDisk, files: FaultyFiles
) -> None:
    channel = faulty.channel()
    base = faulty.publish(b"a", b"b")
    files.fail("write", errno.ENOSPC, times=FOREVER, path=".journal")
    with pytest.raises(OSError, match="No space"):
        faulty.run(faulty.broker.seek(channel, SeekTarget.latest()))

    files.heal()
    faulty.run(faulty.broker.seek(channel, SeekTarget.at_offset(base + 1)))
    faulty.kill_and_start()

    assert faulty.drained(faulty.channel()) == [base + 1]


def test_a_seek_on_an_ephemeral_channel_needs_no_disk(disk: BrokerOnDisk) -> None:
    channel = disk.channel(name="c#ephemeral")
    base = disk.publish(b"a", b"b")

    disk.run(disk.broker.seek(channel, SeekTarget.at_offset(base + 1)))

    assert disk.drained(channel) == [base + 1]


# Channels that begin somewhere


@pytest.mark.parametrize(
    ("start", "skipped"), [(None, 10), (SeekTarget.earliest(), 0), (SeekTarget.latest(), 10)]
)
def test_where_a_channel_begins_survives_a_kill(
    disk: BrokerOnDisk, start: SeekTarget | None, skipped: int
) -> None:
    disk.channel(name="first")
    base = disk.publish(*[b"x"] * 10)

    disk.channel(start=start)
    disk.kill_and_start()

    assert disk.drained(disk.channel()) == list(range(base + skipped, base + 10))


def test_a_channel_that_exists_stays_where_it_is(disk: BrokerOnDisk) -> None:
    disk.channel()
    disk.publish(b"a", b"b")

    channel = disk.channel(start=SeekTarget.latest())

    assert channel.core.depth == 2


def test_a_channel_that_cannot_begin_there_is_not_made(disk: BrokerOnDisk) -> None:
    base = disk.publish(b"a")

    with pytest.raises(FutureOffsetError):
        disk.channel(start=SeekTarget.at_offset(base + 2))

    assert disk.topic().channels == {}
    assert disk.topic().core.depth == 1


# Commit


def test_a_commit_survives_a_kill(disk: BrokerOnDisk) -> None:
    disk.channel()
    base = disk.publish(*[b"x"] * 10)
    disk.publish(*[b"later"] * 2, delay_ns=SECOND_NS)

    assert disk.run(disk.broker.commit(disk.channel(), base + 6)) == base + 6
    disk.kill_and_start()

    channel = disk.channel()
    assert (channel.core.depth, len(channel.core.ledger.deferred)) == (4, 2)
    assert disk.run(disk.broker.commit(channel, base + 11)) == base + 11
    disk.kill_and_start()
    assert len(disk.channel().core.ledger.deferred) == 1


def test_commits_of_what_is_out_are_told_apart_by_owner(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    base = disk.publish(*[b"x"] * 6)
    first, _ = disk.consume(channel, 3)
    second, _ = disk.consume(channel, 3)
    assert (first.in_flight, second.in_flight) == (3, 3)
    channel.core.set_ready(first, 0)
    channel.core.set_ready(second, 0)

    assert disk.run(disk.broker.commit(channel, base + 4)) == base + 6

    assert (first.in_flight, second.in_flight) == (0, 2)
    disk.kill_and_start()
    assert disk.drained(disk.channel()) == [base + 4, base + 5]


def test_a_commit_beyond_the_end_changes_nothing(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    disk.publish(b"a")

    with pytest.raises(FutureOffsetError):
        disk.run(disk.broker.commit(channel, channel.topic.core.log.next + 1))

    assert channel.core.depth == 1


def test_a_commit_that_was_not_written_is_when_it_is_sent_again(
    faulty: BrokerOnDisk, files: FaultyFiles
) -> None:
    channel = faulty.channel()
    base = faulty.publish(b"a", b"b")
    files.fail("write", errno.ENOSPC, times=FOREVER, path=".journal")
    with pytest.raises(OSError, match="No space"):
        faulty.run(faulty.broker.commit(channel, base + 1))

    files.heal()
    faulty.run(faulty.broker.commit(channel, base + 1))
    faulty.kill_and_start()

    assert faulty.drained(faulty.channel()) == [base + 1]


def test_a_commit_is_synced_before_it_is_answered(faulty: BrokerOnDisk, files: FaultyFiles) -> None:
    channel = faulty.channel()
    base = faulty.publish(b"a", b"b")
    before = files.calls["fdatasync"]

    faulty.run(faulty.broker.commit(channel, base + 1))

    assert files.calls["fdatasync"] == before + 1


# Delays


def test_cancelled_delays_stay_cancelled_after_a_kill(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    base = disk.publish(*[b"later"] * 5, delay_ns=SECOND_NS)

    assert disk.run(disk.broker.cancel_deferred(channel, message_id(channel.topic, base + 2))) == 1
    for stranger in (message_id(channel.topic, base + 2), "f" * 16, "nonsense", ""):
        assert disk.run(disk.broker.cancel_deferred(channel, stranger)) == 0
    disk.kill_and_start()

    assert [at for at, _ in disk.channel().core.ledger.deferred.items()] == [
        base,
        base + 1,
        base + 3,
        base + 4,
    ]
    assert disk.run(disk.broker.cancel_deferred(disk.channel())) == 4
    disk.kill_and_start()
    assert len(disk.channel().core.ledger.deferred) == 0


def test_a_hundred_thousand_delayed_messages_survive_a_kill(disk: BrokerOnDisk) -> None:
    month_ns = 30 * 24 * 3600 * SECOND_NS
    disk.channel()
    for number in range(100):
        disk.publish(*[b"%d" % number] * 1_000, delay_ns=month_ns)

    disk.kill_and_start()
    assert len(disk.channel().core.ledger.deferred) == 100_000
    assert disk.drained(disk.channel()) == []
    disk.clock.advance_ns(month_ns)
    disk.channel().core.expire(disk.clock.now_ns())

    assert disk.channel().core.depth == 100_000
