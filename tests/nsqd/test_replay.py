"""What is shown of a log and of a channel's messages."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.nsqd.core.peeking import MessageState
from nsqlake.nsqd.core.seeking import FutureOffsetError, RemovedOffsetError
from nsqlake.nsqd.replay import (
    MAX_PEEK_MESSAGES,
    DeferredMark,
    DeferredMarkError,
    LogOffsets,
    list_deferred,
    log_blocks,
    log_offsets,
    message_id,
    offset_of,
    peek_at_channel,
    peek_at_topic,
)
from nsqlake.runtime import pace
from nsqlake.topiclog.block import BlockFault, decode_block
from tests.fakes.faulty_files import FaultyFiles
from tests.nsqd.broker_on_disk import SECOND_NS, BrokerOnDisk
from tests.nsqd.core.harness import ID_BASE, id_of


@pytest.fixture(params=[0, 100], ids=["read back", "in memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerOnDisk]:
    with BrokerOnDisk(str(tmp_path), max_bytes_per_file=300, mem_queue_size=request.param) as broker:
        yield broker


def test_the_offsets_of_a_log(disk: BrokerOnDisk) -> None:
    topic = disk.topic()
    base = disk.publish(b"a", b"b")
    disk.clock.advance_ms(10)
    disk.publish(b"c")

    offsets = log_offsets(topic, disk.clock.now_ns())

    log = topic.core.log
    assert offsets == LogOffsets(base, base + 3, base, log.uuid.hex(), 1, log.salt, base + 2)
    assert log_offsets(topic).at is None
    assert log_offsets(topic, disk.clock.now_ns() + 1).at == base + 3
    assert log_offsets(topic, 0).at == base


def test_an_epoch_more_after_a_kill(disk: BrokerOnDisk) -> None:
    before = log_offsets(disk.topic())

    disk.kill_and_start()

    after = log_offsets(disk.topic())
    assert (after.uuid, after.epoch) == (before.uuid, before.epoch + 1)
    assert after.next > before.next


@pytest.mark.parametrize("name", ["orders", "orders#ephemeral"])
def test_raw_blocks_can_be_decoded_with_the_salt_of_the_log(tmp_path: Path, name: str) -> None:
    with BrokerOnDisk(str(tmp_path)) as disk:
        base = disk.publish(b"a", b"bb", topic=name)
        topic = disk.topic(name)

        blocks = log_blocks(topic, base + 1, 10)
        fd, position, count = blocks.parts[0] if blocks.parts else (0, 0, 0)
        data = blocks.data or disk.files.pread(fd, count, position)
        blocks.release()

        span = decode_block(data, 0, log_offsets(topic).salt)
        assert not isinstance(span, BlockFault)
        assert (span.base, span.body(1), blocks.next) == (base, b"bb", base + 2)
        assert log_blocks(topic, base + 2, 10).nbytes == 0


def test_blocks_outside_the_log_are_an_error(disk: BrokerOnDisk) -> None:
    topic = disk.topic()
    base = disk.publish(b"a")

    with pytest.raises(RemovedOffsetError):
        log_blocks(topic, base - 1, 100)
    with pytest.raises(FutureOffsetError):
        log_blocks(topic, base + 2, 100)


def test_a_look_at_a_topic_goes_beyond_what_flows(disk: BrokerOnDisk) -> None:
    base = disk.publish(*[b"%d" % number for number in range(5)])

    seen = peek_at_topic(disk.topic(), base + 3, 100, 1000)

    assert [(message.offset, message.body) for message in seen] == [(base + 3, b"3"), (base + 4, b"4")]
    assert disk.topic().core.depth == 5


def test_a_look_is_never_longer_than_the_loop_can_afford(disk: BrokerOnDisk) -> None:
    base = disk.publish(*[b"x"] * (2 * MAX_PEEK_MESSAGES))

    assert len(peek_at_topic(disk.topic(), base, 10**9, 10**9)) == MAX_PEEK_MESSAGES
    disk.channel()
    assert len(peek_at_channel(disk.channel(), 10**9, 10**9)) == MAX_PEEK_MESSAGES


def test_a_look_at_a_channel_begins_at_its_cursor(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    base = disk.publish(b"a", b"b", b"c")
    disk.consume(channel, 1)

    assert [(message.offset, message.state) for message in peek_at_channel(channel, 10, 1000)] == [
        (base + 1, MessageState.FRESH),
        (base + 2, MessageState.FRESH),
    ]
    assert peek_at_channel(channel, 1, 1000, offset=0)[0].state is MessageState.OUT


def test_deferred_messages_are_listed_by_due_time(disk: BrokerOnDisk) -> None:
    channel, now_ns = disk.channel(), disk.clock.now_ns()
    late = disk.publish(b"late!", b"very late", delay_ns=9 * SECOND_NS)
    soon = disk.publish(b"soon", delay_ns=2 * SECOND_NS)
    back = disk.publish(b"back")
    sub, _ = disk.consume(channel, 1)
    channel.core.requeue(sub, id_of(back), 5 * SECOND_NS, now_ns)

    listed = disk.run(list_deferred(channel, 100))

    shown = [
        (message.offset, message.due_ns - now_ns, message.attempts, message.body_bytes) for message in listed
    ]
    assert shown == [
        (soon, 2 * SECOND_NS, 0, 4),
        (back, 5 * SECOND_NS, 1, 4),
        (late, 9 * SECOND_NS, 0, 5),
        (late + 1, 9 * SECOND_NS, 0, 9),
    ]
    assert listed[0].id == f"{ID_BASE + soon:016x}"


def test_a_long_list_of_deferred_messages_is_had_in_pages(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    for seconds in (3, 1, 2):
        disk.publish(*[b"x"] * 5, delay_ns=seconds * SECOND_NS)
    whole, pages, mark = disk.run(list_deferred(channel, 100)), [], None
    assert len(whole) == 15

    while page := disk.run(list_deferred(channel, 4, mark)):
        pages += page
        mark = DeferredMark.parse(str(page[-1].mark))

    assert pages == whole


@pytest.mark.parametrize("text", ["", "5", "5-", "-5", "5-6-7", "x-y", "5-6\n"])
def test_a_text_that_is_no_mark_is_an_error(text: str) -> None:
    with pytest.raises(DeferredMarkError):
        DeferredMark.parse(text)


def test_deferred_messages_that_the_log_lost_have_no_size(tmp_path: Path) -> None:
    with BrokerOnDisk(str(tmp_path), mem_queue_size=2) as disk:
        channel = disk.channel("orders#ephemeral")
        disk.publish(b"x", topic="orders#ephemeral", delay_ns=SECOND_NS)
        disk.publish(b"y", b"z", topic="orders#ephemeral")

        assert [message.body_bytes for message in disk.run(list_deferred(channel, 10))] == [None]


def test_ids_and_offsets(disk: BrokerOnDisk) -> None:
    topic = disk.topic()

    assert offset_of(topic, message_id(topic, 4711)) == 4711
    for text in ("", "xyz", "0" * 15, "A" * 16, "0" * 17):
        assert offset_of(topic, text) == -1


def test_deferred_messages_of_one_block_are_sized_with_one_read(tmp_path: Path) -> None:
    files = FaultyFiles()
    with BrokerOnDisk(str(tmp_path), files=files, mem_queue_size=0) as disk:
        channel = disk.channel()
        disk.publish(*[b"x" * size for size in range(1, 50)], delay_ns=SECOND_NS)
        files.fail("pread", errno.EIO, at=2)

        sizes = [message.body_bytes for message in disk.run(list_deferred(channel, 100))]

        assert sizes == list(range(1, 50))


def test_the_loop_turns_while_deferred_messages_are_listed(
    disk: BrokerOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "SLICE_NS", 0)  # as if every block took long to read
    channel = disk.channel()
    for _ in range(20):
        disk.publish(b"x", delay_ns=SECOND_NS)
    listing = disk.loop.create_task(list_deferred(channel, 100))

    disk.settle()

    assert not listing.done()
    assert len(disk.loop.run_until_complete(listing)) == 20
