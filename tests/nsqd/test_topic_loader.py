"""Opening topics: what the disk says is what comes back, however it was left."""

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

from nsqlake.nsqd.core.journal import encode_batch
from nsqlake.nsqd.topic_loader import describe_report, describe_totals
from nsqlake.topiclog import Damage, LogOptions, RecoveryReport
from tests.fakes.faulty_files import FaultyFiles
from tests.nsqd.core.harness import SECOND_NS, START_NS, TOPIC, DiskTopic, id_of
from tests.nsqd.core.support import consumer, offsets_of, publish, publish_many, receive_all
from tests.topiclog.support import flip_bit


def new_disk(path: Path, files: FaultyFiles | None = None) -> DiskTopic:
    disk = DiskTopic(str(path), log_options=LogOptions(mem_messages=5), files=files)
    disk.open(START_NS)
    return disk


def restart(disk: DiskTopic, *, clean: bool = True) -> None:
    if clean:
        disk.stop()
    else:
        disk.kill()
    disk.open(START_NS)


@pytest.mark.parametrize("clean", [True, False])
def test_messages_without_a_channel_wait_for_the_first_one(tmp_path: Path, clean: bool) -> None:
    disk = new_disk(tmp_path)
    publish_many(disk.core, 10)

    restart(disk, clean=clean)

    assert disk.core.depth == 10
    assert disk.add_channel("c", START_NS).depth == 10
    assert disk.core.depth == 0


@pytest.mark.parametrize("clean", [True, False])
def test_channels_and_pauses_come_back(tmp_path: Path, clean: bool) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("a", START_NS)
    disk.add_channel("b", START_NS).is_paused = True
    disk.core.pause()
    disk.save_state()
    publish_many(disk.core, 3)

    restart(disk, clean=clean)

    channels = disk.core.channels
    assert {name: channel.is_paused for name, channel in channels.items()} == {"a": False, "b": True}
    assert disk.core.is_paused
    assert (disk.core.depth, channels["a"].depth) == (3, 0)
    disk.core.unpause(START_NS)
    assert channels["a"].depth == 3


def test_messages_published_after_the_state_was_written_flow_to_their_channels(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("c", START_NS)
    publish_many(disk.core, 3)
    publish(disk.core, b"later", due_ns=START_NS + SECOND_NS)

    restart(disk, clean=False)

    channel = disk.core.channels["c"]
    assert (channel.depth, len(channel.ledger.deferred)) == (3, 1)
    assert disk.loaded.report.is_unclean


def test_next_offset_jumps_after_a_crash_only(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    base = publish_many(disk.core, 3)
    restart(disk)
    assert disk.log.next == base + 3

    restart(disk, clean=False)

    assert disk.log.next == base + 3 + 2**30


def test_new_topic_begins_beyond_the_clock(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)

    assert disk.log.next == START_NS // 1000 + 1
    assert disk.loaded.report.is_new


# Files that are lost or damaged


def test_lost_journal_begins_again_at_the_start_of_its_channel(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("early", START_NS)
    publish_many(disk.core, 4)
    channel = disk.add_channel("late", START_NS)
    publish_many(disk.core, 3)
    consumer(channel)
    receive_all(channel)
    disk.stop()
    for path in disk.journal_paths("late"):
        os.unlink(path)

    disk.open(START_NS)

    assert disk.core.channels["late"].depth == 3
    assert "CHANNEL(orders/late): journal lost" in caplog.text


def test_journal_of_another_channel_of_that_name_is_not_used(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    channel = disk.add_channel("c", START_NS)
    publish_many(disk.core, 3)
    consumer(channel)
    receive_all(channel)
    disk.loaded.channels["c"][0].salt += 1
    disk.save_state()

    restart(disk)

    assert disk.core.channels["c"].depth == 3
    assert disk.core.channels["c"].ledger.attempts == {}


def test_torn_journal_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("c", START_NS)
    disk.kill()
    with open(disk.journal_paths("c")[-1], "ab") as file:
        file.write(b"torn")

    disk.open(START_NS)

    assert "CHANNEL(orders/c): journal torn or damaged, some messages come again bytes=4" in caplog.text


def test_journal_without_a_beginning_counts_as_lost(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    channel = disk.add_channel("c", START_NS)
    publish_many(disk.core, 3)
    disk.kill()
    path = Path(disk.journal_paths("c")[-1])
    header, snapshot = path.read_bytes()[:12], path.read_bytes()[12:]
    consumer(channel)
    receive_all(channel)
    salt = disk.loaded.channels["c"][0].salt
    path.write_bytes(header + encode_batch(channel.ledger.pending.take(), salt) + snapshot)

    disk.open(START_NS)

    assert disk.core.channels["c"].depth == 3


def test_lost_state_is_rebuilt_from_the_journals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk(tmp_path)
    channel = disk.add_channel("c", START_NS)
    sub = consumer(channel, 2)
    publish_many(disk.core, 5)
    first = offsets_of(receive_all(channel))[0]
    channel.finish(sub, b"%016x" % (channel.ledger.out.id_base + first))
    disk.stop()
    for name in ("state.0", "state.1"):
        os.unlink(os.path.join(disk.loaded.store.path, name))

    disk.open(START_NS)

    assert disk.core.channels["c"].depth == 4
    assert "TOPIC(orders): state file lost" in caplog.text
    restart(disk)
    assert disk.core.channels["c"].depth == 4


def test_lost_state_and_lost_journal_begin_again_with_everything(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("c", START_NS)
    publish_many(disk.core, 5)
    disk.stop()
    for name in ("state.0", "state.1"):
        os.unlink(os.path.join(disk.loaded.store.path, name))
    for path in disk.journal_paths("c"):
        Path(path).write_bytes(b"")

    disk.open(START_NS)

    assert disk.core.channels["c"].depth == 5
    assert disk.loaded.channels["c"][0].salt >= 0


def test_file_that_is_no_journal_of_a_channel_is_not_made_one(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    disk.stop()
    for name in ("state.0", "state.1"):
        Path(disk.loaded.store.path, name).unlink(missing_ok=True)
    Path(disk.loaded.store.channels_path, "bad name.00000001.journal").touch()

    disk.open(START_NS)

    assert disk.core.channels == {}


def test_channel_that_only_an_uncertain_state_does_not_know_is_kept(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("first", START_NS)
    disk.add_channel("second", START_NS)
    publish_many(disk.core, 5)
    disk.kill()
    Path(disk.loaded.store.channels_path, "bad name.00000001.journal").touch()
    flip_bit(os.path.join(disk.loaded.store.path, "state.0"), 300)

    disk.open(START_NS)

    assert {name: channel.depth for name, channel in disk.core.channels.items()} == {"first": 5, "second": 5}


def test_journal_of_a_deleted_channel_is_removed(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("kept", START_NS)
    disk.add_channel("gone", START_NS)
    disk.core.remove_channel("gone")
    disk.loaded.channels.pop("gone")[1].close()
    disk.save_state()

    restart(disk, clean=False)

    assert set(disk.core.channels) == {"kept"}
    assert disk.journal_paths("gone") == []


# Creating


@pytest.mark.parametrize("call", ["fsync", "sync_dir"])
def test_topic_that_could_not_be_created_can_be_created_again(tmp_path: Path, call: str) -> None:
    files = FaultyFiles()
    disk = DiskTopic(str(tmp_path), log_options=LogOptions(), files=files)
    loader, _, _ = disk._loader()
    files.fail(call, errno.EIO, path="orders.topic/state" if call == "fsync" else "orders.topic/channels")

    with pytest.raises(OSError, match="Input/output error"):
        loader.create(TOPIC, START_NS)
    assert files.open_descriptors == 0

    loaded = loader.create(TOPIC, START_NS)
    assert loaded.core.depth == 0
    publish(loaded.core, b"x")
    loaded.log.close()


# What is said in the log


def test_spotless_report_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    describe_report("orders", RecoveryReport())

    assert caplog.text == ""


def test_everything_that_recovery_found_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    report = RecoveryReport(
        torn_blocks=1,
        torn_bytes=70,
        torn_messages=2,
        damage=[Damage("/x/1.log", 130, 60, "bad checksum", messages=3)],
        missing=[(10, 20)],
        rebuilt_indexes=1,
        rebuilt_identity=True,
    )

    describe_report("orders", report)

    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "LOG(orders): torn block cut off and kept aside bytes=70 messages=2",
        "LOG(orders): damaged block skipped and kept aside file=1.log position=130 bytes=60: bad checksum",
        "LOG(orders): segment missing first=10 end=20 messages=10",
        "LOG(orders): header or identity damaged",
        "LOG(orders): indexes rebuilt count=1",
        "LOG(orders): damage in all: blocks=1 bytes=60 missing=1 lost_messages=13",
    ]


def test_channel_survives_a_state_file_that_could_not_be_read_for_a_moment(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk = new_disk(tmp_path, files)
    disk.add_channel("a", START_NS)
    disk.add_channel("b", START_NS)
    disk.kill()
    files.fail("open", errno.EIO, path="state.0")

    disk.open(START_NS)

    assert set(disk.core.channels) == {"a", "b"}
    disk.kill()


def small_segments(path: Path) -> DiskTopic:
    disk = DiskTopic(str(path), log_options=LogOptions(mem_messages=0, max_bytes_per_file=100))
    disk.open(START_NS)
    disk.add_channel("c", START_NS)
    for i in range(4):
        publish(disk.core, b"%060d" % i)
    return disk


def test_a_lost_beginning_of_the_log_is_told_by_the_indexes_it_left(tmp_path: Path) -> None:
    disk = small_segments(tmp_path)
    first = disk.log.oldest
    disk.stop()
    log_path = Path(disk.loaded.store.log_path)
    for lost in sorted(log_path.glob("*.log"))[:2]:
        lost.unlink()

    disk.open(START_NS)

    assert disk.loaded.report.missing == [(first, first + 2)]
    assert disk.core.channels["c"].depth == 2


def test_nothing_is_said_of_segments_that_all_channels_had_passed(tmp_path: Path) -> None:
    disk = small_segments(tmp_path)
    channel = disk.core.channels["c"]
    sub = consumer(channel)
    for message in receive_all(channel):
        channel.finish(sub, id_of(message.offset))
    assert len(disk.core.retire()) >= 3
    restart(disk, clean=False)
    publish(disk.core, b"in a new epoch")

    restart(disk)

    assert disk.loaded.report.missing == []
    assert disk.core.channels["c"].depth == 1


def test_a_channel_that_waits_over_restarts_of_an_empty_topic_has_lost_nothing(tmp_path: Path) -> None:
    disk = new_disk(tmp_path)
    disk.add_channel("c", START_NS)
    for second in range(1, 4):
        disk.stop()
        disk.open(START_NS + second * SECOND_NS)
        assert disk.loaded.report.missing == []
        publish(disk.core, b"x")
    assert disk.core.channels["c"].depth == 3


def test_a_topic_whose_whole_log_is_gone_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = small_segments(tmp_path)
    first = disk.log.oldest
    disk.add_channel("late", START_NS)
    disk.stop()
    shutil.rmtree(disk.loaded.store.log_path)

    disk.open(START_NS + SECOND_NS)
    describe_report("orders", disk.loaded.report)

    assert disk.loaded.report.missing == [(first, first + 4)]
    assert "LOG(orders): all segments missing, a new log begins" in caplog.text


def test_what_the_first_of_two_openings_found_is_not_forgotten(tmp_path: Path) -> None:
    disk = small_segments(tmp_path)
    disk.add_channel("at the end", START_NS)
    first = disk.log.oldest
    disk.stop()
    log_path = Path(disk.loaded.store.log_path)
    segments = sorted(log_path.glob("*.log"))
    for lost in (segments[0], segments[-1], segments[-1].with_suffix(".index")):
        lost.unlink()

    disk.open(START_NS)

    assert disk.loaded.report.missing == [(first, first + 1), (first + 3, first + 4)]


def test_damage_of_all_topics_is_summed_up_and_silence_means_none(caplog: pytest.LogCaptureFixture) -> None:
    bad = RecoveryReport(damage=[Damage("1.log", 130, 60, "bad checksum", messages=3, blocks=2)])

    describe_totals([RecoveryReport(), RecoveryReport(torn_blocks=1)])
    describe_totals([bad, RecoveryReport(), RecoveryReport(missing=[(10, 20)])])

    assert [record.getMessage() for record in caplog.records] == [
        "NSQ: damage found at the start topics=2 blocks=2 lost_messages=13"
    ]
