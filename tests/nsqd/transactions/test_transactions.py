"""Transactions in a broker on real files: all or nothing, once, in sight at one moment."""

import asyncio
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.nsqd.core.seeking import FutureOffsetError, SeekTarget
from nsqlake.nsqd.draining import undrained
from nsqlake.nsqd.transactions import transactions
from nsqlake.nsqd.transactions.errors import (
    BusyError,
    DecidedError,
    DifferentError,
    ForeignError,
    GapError,
    IncompleteError,
    NoRoomError,
    RefusedError,
    UnknownError,
)
from nsqlake.nsqd.transactions.store import ChosenPart
from nsqlake.topiclog.errors import AppendError
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.nsqd.broker_on_disk import SECOND_NS, BrokerOnDisk
from tests.nsqd.transactions.support import TOPIC, chosen, commit, named, seen, stage, state

HOUR_MS = 3_600_000


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def disk(tmp_path: Path, files: FaultyFiles) -> Iterator[BrokerOnDisk]:
    with BrokerOnDisk(str(tmp_path), files=files, mem_queue_size=100) as broker:
        yield broker


def directories(disk: BrokerOnDisk, producer: str = "q") -> set[str]:
    """What is there of a producer, beside its `done`."""
    path = os.path.join(disk.path, "transactions", producer)
    return {name for name in os.listdir(path) if not name.startswith("done.")}


def damage(disk: BrokerOnDisk, txn: str, number: int, key: tuple[int, int] = (0, 0)) -> None:
    part = disk.broker.transactions.open[named(txn)].parts[key]
    record = part.records[number]
    with open(part.path, "r+b") as file:
        file.seek(record.position + record.nbytes - 1)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def tidy(disk: BrokerOnDisk) -> None:
    """As housekeeping does, until all is done that it began."""

    async def wait() -> None:
        disk.broker.transactions.tidy()
        while disk.broker.transactions.is_busy:
            await asyncio.sleep(0)

    disk.run(wait())
    disk.settle()


# Staging


def test_what_is_staged_is_for_nobody(disk: BrokerOnDisk) -> None:
    disk.publish(b"before")
    assert stage(disk, "q.1", b"a", b"b")

    assert seen(disk) == [b"before"]
    assert state(disk, "q.1") == "open"


def test_a_request_that_was_sent_before_is_kept_once(disk: BrokerOnDisk) -> None:
    assert stage(disk, "q.1", b"a", number=0)
    assert not stage(disk, "q.1", b"a", number=0)
    assert stage(disk, "q.1", b"b", number=1)
    assert not stage(disk, "q.1", b"a", number=0)

    commit(disk, "q.1")
    assert seen(disk) == [b"a", b"b"]


def test_another_content_under_the_same_number_is_refused(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a", number=0)

    for bodies, topic, defer_ms in (((b"b",), TOPIC, 0), ((b"a",), "other", 0), ((b"a",), TOPIC, 1)):
        with pytest.raises(DifferentError):
            stage(disk, "q.1", *bodies, number=0, topic=topic, defer_ms=defer_ms)


def test_a_gap_is_refused_and_leaves_nothing(disk: BrokerOnDisk) -> None:
    with pytest.raises(GapError, match="record 1 came where 0 was expected"):
        stage(disk, "q.1", b"a", number=1)

    assert state(disk, "q.1") == "unknown"


def test_a_later_transaction_drops_what_earlier_ones_of_its_producer_left(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    stage(disk, "r.1", b"x")
    stage(disk, "q.2", b"b")

    assert [state(disk, txn) for txn in ("q.1", "q.2", "r.1")] == ["unknown", "open", "open"]
    assert directories(disk) == {"2"}


def test_staged_bytes_are_limited(tmp_path: Path) -> None:
    with BrokerOnDisk(str(tmp_path), max_txn_bytes=500) as disk:
        stage(disk, "q.1", b"x" * 300)
        with pytest.raises(NoRoomError, match="--max-txn-bytes is 500"):
            stage(disk, "r.1", b"x" * 300)

        commit(disk, "q.1")
        assert stage(disk, "r.1", b"x" * 300)


@pytest.mark.parametrize("limit", ["MAX_RECORDS", "MAX_OPEN", "MAX_PRODUCERS"])
def test_what_is_kept_in_memory_is_limited(
    disk: BrokerOnDisk, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(transactions, limit, 2)
    for txn in ("q.1", "r.1"):
        stage(disk, txn, b"x")
        if limit == "MAX_PRODUCERS":
            commit(disk, txn)

    with pytest.raises(NoRoomError):
        stage(disk, "s.1", b"x")


def test_a_full_disk_refuses_and_loses_nothing(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    stage(disk, "q.1", b"a")
    files.fail("writev", errno.ENOSPC, path=".staged")
    with pytest.raises(OSError, match="No space"):
        stage(disk, "q.1", b"b")
    assert stage(disk, "q.1", b"b")

    commit(disk, "q.1")
    assert seen(disk) == [b"a", b"b"]


def test_free_bytes_are_left_to_what_must_be_written(tmp_path: Path, files: FaultyFiles) -> None:
    with BrokerOnDisk(str(tmp_path), files=files, min_free_bytes=1_000) as disk:
        stage(disk, "q.1", b"a" * 100)
        files.set_space(free=1_050)
        with pytest.raises(OSError, match="No space"):
            stage(disk, "q.1", b"b" * 100)
        with pytest.raises(OSError, match="No space"):
            commit(disk, "q.1")

        assert state(disk, "q.1") == "open"
        files.set_space()
        assert commit(disk, "q.1").messages == 1


def test_files_are_for_the_owner_only(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    commit(disk, "q.1")
    stage(disk, "q.2", b"a")

    for directory, _, names in os.walk(os.path.join(disk.path, "transactions")):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        assert {stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) for name in names} <= {0o600}


# Committing


def test_the_chosen_attempts_come_in_order_of_parts_and_no_other(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"p1", b"mixed size", part=1, attempt=7)
    stage(disk, "q.1", b"failed attempt", part=0, attempt=0)
    stage(disk, "q.1", b"p0", part=0, attempt=1)
    stage(disk, "q.1", b"elsewhere", part=0, attempt=1, topic="other")

    assert commit(disk, "q.1", (1, 7), (0, 1)) == (False, 4, 0)

    assert seen(disk) == [b"p0", b"p1", b"mixed size"]
    assert seen(disk, "other") == [b"elsewhere"]
    assert state(disk, "q.1") == "done"
    assert directories(disk) == set()
    assert disk.broker.transactions.figures == (0, 0, 0, 1, 0, 0)


def test_a_second_commit_does_nothing(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    commit(disk, "q.1")

    assert commit(disk, "q.1") == (True, 0, 0)
    assert not stage(disk, "q.1", b"again")
    assert commit(disk, "q.1").already
    assert commit(disk, "q.0").already
    disk.kill_and_start()
    assert commit(disk, "q.1").already
    assert seen(disk) == [b"a"]


def test_two_commits_at_the_same_time_store_one(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    parts = chosen(disk, "q.1")

    async def both() -> list[bool]:
        commits = [disk.broker.transactions.commit(named("q.1"), parts) for _ in range(2)]
        return [outcome.already for outcome in await asyncio.gather(*commits)]

    assert disk.run(both()) == [False, True]
    assert seen(disk) == [b"a"]


def test_producers_do_not_mind_each_other(disk: BrokerOnDisk) -> None:
    stage(disk, "q.5", b"a")
    stage(disk, "r.3", b"b")

    commit(disk, "r.3")
    commit(disk, "q.5")

    assert sorted(seen(disk)) == [b"a", b"b"]
    assert stage(disk, "r.4", b"c")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ([ChosenPart(0, 0, 2, 3)], "part 0 attempt 0 has 1 records with 2 messages, not 2 with 3"),
        ([ChosenPart(0, 0, 1, 3)], "not 1 with 3"),
        ([ChosenPart(0, 1, 1, 1)], "part 0 attempt 1 has 0 records"),
        ([ChosenPart(0, 0, 1, 2), ChosenPart(0, 0, 1, 2)], "two attempts of one part"),
        ([ChosenPart(0, -1, -1, 0)], "part 0 attempt -1 has 0 records"),
    ],
)
def test_what_is_not_there_whole_is_not_committed(
    disk: BrokerOnDisk, wanted: list[ChosenPart], reason: str
) -> None:
    stage(disk, "q.1", b"a", b"b")

    with pytest.raises(IncompleteError, match=reason):
        disk.run(disk.broker.transactions.commit(named("q.1"), wanted))

    assert state(disk, "q.1") == "open"
    assert commit(disk, "q.1").messages == 2


def test_what_nobody_staged_is_unknown_unless_it_is_empty(disk: BrokerOnDisk) -> None:
    with pytest.raises(UnknownError):
        disk.run(disk.broker.transactions.commit(named("q.1"), [ChosenPart(0, 0, 1, 1)]))

    assert commit(disk, "q.1") == (False, 0, 0)
    assert state(disk, "q.1") == "done"
    disk.kill_and_start()
    assert state(disk, "q.1") == "done"


def test_parts_without_messages_need_not_have_been_staged(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    wanted = [*chosen(disk, "q.1"), ChosenPart(1, 5, 0, 0)]

    assert disk.run(disk.broker.transactions.commit(named("q.1"), wanted)).messages == 1


def test_a_delay_begins_with_the_commit(disk: BrokerOnDisk) -> None:
    channel = disk.channel()
    stage(disk, "q.1", b"later", defer_ms=60_000)
    disk.clock.advance_ms(50_000)
    commit(disk, "q.1")

    assert disk.drained(channel) == []
    disk.clock.advance_ms(59_000)
    channel.core.expire(disk.clock.now_ns())
    assert disk.drained(channel) == []
    disk.clock.advance_ms(2_000)
    channel.core.expire(disk.clock.now_ns())
    assert len(disk.drained(channel)) == 1


def test_an_abort_forgets_and_the_name_can_be_used_again(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"wrong", b"wrong")
    disk.broker.transactions.abort(named("q.1"))
    disk.broker.transactions.abort(named("q.1"))
    assert (state(disk, "q.1"), directories(disk)) == ("unknown", set())

    stage(disk, "q.1", b"right")
    disk.kill_and_start()
    commit(disk, "q.1")

    assert seen(disk) == [b"right"]
    with pytest.raises(DecidedError):
        disk.broker.transactions.abort(named("q.1"))


def test_only_who_staged_it_goes_on_with_it(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a", owner="ann")

    with pytest.raises(ForeignError):
        stage(disk, "q.1", b"b", owner="bob")
    with pytest.raises(ForeignError):
        commit(disk, "q.1", owner="bob")
    with pytest.raises(ForeignError):
        disk.broker.transactions.abort(named("q.1"), "bob")

    assert commit(disk, "q.1", owner="ann").messages == 1


def test_what_nobody_commits_expires(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    disk.clock.advance_ms(HOUR_MS)
    disk.broker.transactions.tidy()
    assert state(disk, "q.1") == "open"
    stage(disk, "q.1", b"b")
    disk.clock.advance_ms(HOUR_MS + 1)
    disk.broker.transactions.tidy()

    assert (state(disk, "q.1"), directories(disk)) == ("unknown", set())
    assert disk.broker.transactions.figures.expired == 1
    assert disk.broker.transactions.figures.staged_bytes == 0


def test_a_producer_is_remembered_for_its_time(tmp_path: Path) -> None:
    with BrokerOnDisk(str(tmp_path), txn_retention_ns=100 * SECOND_NS) as disk:
        for txn in ("q.1", "r.1"):
            stage(disk, txn, b"a")
            commit(disk, txn)
        disk.clock.advance_ms(60_000)
        stage(disk, "r.2", b"a")
        disk.kill_and_start()
        disk.clock.advance_ms(60_000)
        disk.broker.transactions.tidy()

        assert (state(disk, "q.1"), state(disk, "r.1")) == ("unknown", "done")
        assert os.listdir(os.path.join(disk.path, "transactions")) == ["r"]
        assert stage(disk, "q.1", b"as new")


# What others see while a transaction comes into the logs


class Halted:
    """A transaction that is in the log of one topic, and stuck before that of the next: a disk is full."""

    def __init__(self, disk: BrokerOnDisk, files: FaultyFiles) -> None:
        self.disk, self.files = disk, files
        disk.topic("second")
        stage(disk, "q.1", b"h1", b"h2")
        stage(disk, "q.1", b"s", topic="second")
        files.fail("writev", errno.ENOSPC, times=FOREVER, path="/second.topic/")
        with pytest.raises(AppendError):
            commit(disk, "q.1")
        assert state(disk, "q.1") == "committed"
        assert disk.broker.transactions.figures.stalled == 1

    def go_on(self) -> None:
        self.files.heal()
        tidy(self.disk)
        assert state(self.disk, "q.1") == "done"
        assert seen(self.disk, "second") == [b"s"]


def test_nothing_is_seen_before_everything_is_and_others_publish_on(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    channel = disk.channel()
    base = disk.publish(b"before")
    halted = Halted(disk, files)
    disk.publish(b"beside")
    disk.broker.turn.publish_one(disk.topic(), b"\0\0\0\1x")

    assert seen(disk) == [b"before"]
    assert disk.drained(channel) == [base]
    assert (channel.core.depth, disk.topic().core.depth) == (0, 0)

    halted.go_on()
    assert seen(disk) == [b"before", b"h1", b"h2", b"beside", b"x"]
    assert len(disk.drained(channel)) == 4


def test_a_channel_made_meanwhile_gets_all_that_becomes_visible(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    disk.publish(b"for the first channel")
    halted = Halted(disk, files)
    first, late = disk.channel(), disk.channel(name="late")
    assert len(disk.drained(first)) == 1

    halted.go_on()
    assert [len(disk.drained(channel)) for channel in (first, late)] == [2, 2]


def test_positions_end_before_what_is_hidden(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    channel = disk.channel()
    base = disk.publish(b"before")
    halted = Halted(disk, files)
    log = disk.topic().core.log

    assert disk.run(disk.broker.seek(channel, SeekTarget.latest())) == base + 1 == log.next
    with pytest.raises(FutureOffsetError):
        disk.run(disk.broker.seek(channel, SeekTarget.at_offset(base + 2)))
    with pytest.raises(FutureOffsetError):
        disk.run(disk.broker.commit(channel, base + 2))

    halted.go_on()
    assert len(disk.drained(channel)) == 2


def test_emptying_meanwhile_drops_only_what_could_be_seen(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    base = disk.publish(b"before")
    halted = Halted(disk, files)
    disk.run(disk.broker.empty_topic(disk.topic()))

    halted.go_on()
    assert disk.drained(disk.channel()) == [base + 1, base + 2]


def test_emptying_a_channel_meanwhile_drops_only_what_could_be_seen(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    channel = disk.channel()
    disk.publish(b"before")
    halted = Halted(disk, files)
    disk.run(disk.broker.empty_channel(channel))

    halted.go_on()
    assert len(disk.drained(channel)) == 2


def test_a_pause_meanwhile_keeps_it_from_channels(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    channel = disk.channel()
    halted = Halted(disk, files)
    disk.run(disk.broker.set_paused(disk.topic(), True))
    halted.go_on()
    assert (disk.drained(channel), disk.topic().core.depth) == ([], 2)

    disk.run(disk.broker.set_paused(disk.topic(), False))
    assert len(disk.drained(channel)) == 2


def test_a_topic_that_is_deleted_meanwhile_gets_it_anew(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    disk.publish(b"before")
    halted = Halted(disk, files)
    disk.run(disk.broker.delete_topic(disk.topic()))

    halted.go_on()
    assert seen(disk) == [b"h1", b"h2"]


def test_retention_leaves_what_is_hidden(tmp_path: Path, files: FaultyFiles) -> None:
    with BrokerOnDisk(str(tmp_path), files=files, max_bytes_per_file=120) as disk:
        channel = disk.channel()
        disk.publish(b"x" * 100)
        halted = Halted(disk, files)
        disk.publish(b"y" * 100)
        disk.drained(channel)
        assert disk.topic().core.retire()
        disk.topic().core.trim()

        halted.go_on()
        assert seen(disk) == [b"h1", b"h2", b"y" * 100]


@pytest.mark.parametrize("again", ["q.1", "q.2", "r.1"])
def test_who_commits_behind_it_waits_for_it_or_fails_like_it(
    disk: BrokerOnDisk, files: FaultyFiles, again: str
) -> None:
    halted = Halted(disk, files)
    if again != "q.1":
        stage(disk, again, b"next")
    with pytest.raises(AppendError):
        commit(disk, again)
    assert seen(disk) == []
    assert state(disk, again) == ("committed" if again == "q.1" else "open")

    halted.files.heal()
    commit(disk, again)
    assert seen(disk) == [b"h1", b"h2", b"next"][: 3 if again != "q.1" else 2]
    assert state(disk, "q.1") == "done"


def test_others_commit_while_one_is_stuck(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    Halted(disk, files)
    stage(disk, "r.1", b"x", topic="third")

    assert commit(disk, "r.1").messages == 1
    assert seen(disk, "third") == [b"x"]


def test_an_earlier_number_than_one_that_is_stuck_is_over(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    halted = Halted(disk, files)
    assert not stage(disk, "q.0", b"too late")

    halted.files.heal()
    assert commit(disk, "q.0").already
    assert state(disk, "q.1") == "done"


def test_a_kill_while_it_is_stuck_finishes_it_at_the_start(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    disk.channel()
    disk.publish(b"before")
    Halted(disk, files)
    disk.publish(b"beside")
    files.heal()

    disk.kill_and_start()

    assert seen(disk) == [b"before", b"h1", b"h2", b"beside"]
    assert seen(disk, "second") == [b"s"]
    assert commit(disk, "q.1").already
    assert len(disk.drained(disk.channel())) == 4


def test_it_stays_hidden_over_a_kill_until_it_can_be_finished(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    channel = disk.channel()
    disk.publish(b"before")
    halted = Halted(disk, files)
    disk.kill_and_start()
    disk.publish(b"beside")

    assert seen(disk) == [b"before"]
    assert disk.broker.transactions.figures.stalled == 1
    halted.go_on()
    assert seen(disk) == [b"before", b"h1", b"h2", b"beside"]
    channel = disk.channel()
    assert len(disk.drained(channel)) == 4


def test_what_came_between_decision_and_first_block_stays_in_sight(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    disk.channel()
    stage(disk, "q.1", b"a")
    parts = chosen(disk, "q.1")
    files.fail("writev", errno.ENOSPC, path="/orders.topic/log")
    with pytest.raises(AppendError):
        disk.run(disk.broker.transactions.commit(named("q.1"), parts))
    offset = disk.publish(b"visible")
    assert disk.drained(disk.channel()) == [offset]
    files.fail("writev", errno.ENOSPC, times=FOREVER, path="/orders.topic/log")

    disk.kill_and_start()

    assert seen(disk) == [b"visible"]
    files.heal()
    assert commit(disk, "q.1").messages == 1
    assert seen(disk) == [b"visible", b"a"]


def test_a_clean_stop_in_the_middle_is_finished_at_the_next_start(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    Halted(disk, files)
    end = disk.topic().core.log.end  # type: ignore[attr-defined]
    files.heal()
    assert disk.run(disk.broker.close())
    disk.broker._data.mark(clean=True)

    disk.kill_and_start()

    assert seen(disk) == [b"h1", b"h2"]
    assert disk.topic().core.log.next == end


# Draining and stopping


def test_a_node_that_drains_takes_no_new_decision_and_waits_for_old_ones(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    stage(disk, "r.1", b"not decided", topic="third")
    halted = Halted(disk, files)
    disk.broker.start_drain()

    with pytest.raises(RefusedError, match="draining"):
        commit(disk, "r.1")
    assert next(undrained(disk.broker)) == "TXN(q.1)"
    halted.go_on()
    assert list(undrained(disk.broker)) == []


def test_a_node_that_stops_leaves_the_rest_to_the_next_start(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    parts = chosen(disk, "q.1")

    async def commit_and_stop() -> None:
        committing = asyncio.ensure_future(disk.broker.transactions.commit(named("q.1"), parts))
        while state(disk, "q.1") != "committed":
            await asyncio.sleep(0)
        disk.broker.begin_exit()
        with pytest.raises(RefusedError, match="exiting"):
            await committing
        assert not disk.broker.transactions.is_busy

    disk.run(commit_and_stop())
    disk.kill_and_start()
    assert seen(disk) == [b"a"]


def test_whoever_gives_up_waiting_does_not_stop_it(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    parts = chosen(disk, "q.1")

    async def give_up() -> None:
        committing = asyncio.ensure_future(disk.broker.transactions.commit(named("q.1"), parts))
        await asyncio.sleep(0)
        committing.cancel()
        assert disk.broker.transactions.is_busy
        while disk.broker.transactions.is_busy:
            await asyncio.sleep(0)

    disk.run(give_up())
    assert seen(disk) == [b"a"]


def test_nothing_changes_while_it_is_decided(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    parts = chosen(disk, "q.1")
    transaction = disk.broker.transactions.open[named("q.1")]

    async def interfere() -> None:
        committing = asyncio.ensure_future(disk.broker.transactions.commit(named("q.1"), parts))
        while not transaction.is_deciding:
            await asyncio.sleep(0)
        with pytest.raises(BusyError):
            stage(disk, "q.1", b"too late")
        with pytest.raises(BusyError):
            disk.broker.transactions.abort(named("q.1"))
        stage(disk, "q.2", b"the next one")
        disk.clock.advance_ms(2 * HOUR_MS)
        disk.broker.transactions.tidy()
        assert (await committing).messages == 1

    disk.run(interfere())
    assert seen(disk) == [b"a"]


# Disks that fail


async def synced(disk: BrokerOnDisk) -> None:
    waiting = disk.broker.topics[TOPIC].wait_synced()
    assert waiting is not None
    await waiting


def test_a_commit_record_that_cannot_be_written_decides_nothing(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    stage(disk, "q.1", b"a")
    files.fail("write", errno.ENOSPC, path="/q/1/commit")

    with pytest.raises(OSError, match="No space"):
        commit(disk, "q.1")

    assert state(disk, "q.1") == "open"
    disk.broker.transactions.abort(named("q.1"))
    disk.kill_and_start()
    assert seen(disk) == []


def test_a_commit_record_that_may_be_there_decides(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    stage(disk, "q.1", b"a")
    files.fail("sync_dir", errno.EIO, path="/q/1", at=2)

    with pytest.raises(OSError):
        commit(disk, "q.1")

    assert state(disk, "q.1") == "committed"
    with pytest.raises(DecidedError):
        disk.broker.transactions.abort(named("q.1"))
    tidy(disk)
    assert seen(disk) == [b"a"]


def test_what_could_not_be_synced_has_to_be_staged_anew(disk: BrokerOnDisk, files: FaultyFiles) -> None:
    stage(disk, "q.1", b"a")
    files.fail("fsync", errno.EIO, path=".staged")

    with pytest.raises(OSError):
        commit(disk, "q.1")
    with pytest.raises(IncompleteError, match="could not be written"):
        commit(disk, "q.1")

    stage(disk, "q.1", b"b", attempt=1)
    assert commit(disk, "q.1", (0, 1)).messages == 1
    assert seen(disk) == [b"b"]


def test_a_done_record_that_cannot_be_written_is_tried_again_and_nothing_comes_twice(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    stage(disk, "q.1", b"a")
    files.fail("write", errno.ENOSPC, path="/q/done", times=2)
    with pytest.raises(OSError, match="No space"):
        commit(disk, "q.1")
    assert seen(disk) == []

    disk.kill_and_start()
    assert (seen(disk), state(disk, "q.1")) == ([], "committed")
    assert commit(disk, "q.1").messages == 1
    assert seen(disk) == [b"a"]


def test_a_topic_that_takes_no_messages_refuses_before_the_decision(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    disk.publish(b"x")
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError):
        disk.run(synced(disk))
    assert disk.topic().failure
    stage(disk, "q.1", b"a")

    with pytest.raises(RefusedError, match="sync failed"):
        commit(disk, "q.1")
    assert state(disk, "q.1") == "open"


# Damage


def test_damage_found_before_the_decision_refuses_it(disk: BrokerOnDisk) -> None:
    for body in (b"a", b"b", b"c"):
        stage(disk, "q.1", body)
    damage(disk, "q.1", 1)

    with pytest.raises(IncompleteError, match="part 0 attempt 0: record 1 is damaged on the disk"):
        commit(disk, "q.1")

    assert (seen(disk), state(disk, "q.1")) == ([], "open")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_damage_after_the_decision_loses_the_record_and_says_so(
    disk: BrokerOnDisk, files: FaultyFiles, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    for body in (b"a", b"b", b"c"):
        stage(disk, "q.1", body)
    files.fail("writev", errno.ENOSPC, times=FOREVER, path="/orders.topic/log")
    with pytest.raises(AppendError):
        commit(disk, "q.1")
    damage(disk, "q.1", number)
    files.heal()

    assert commit(disk, "q.1") == (False, 2, 1)

    expected = [b"a", b"b", b"c"]
    del expected[number]
    assert seen(disk) == expected
    assert "damaged before it came to the logs, kept aside lost_messages=1" in caplog.text
    assert disk.broker.transactions.figures.lost_messages == 1
    assert directories(disk) == {"1.damaged"}
    disk.kill_and_start()
    assert commit(disk, "q.1") == (True, 0, 1)
    assert directories(disk) == {"1.damaged"}


def test_records_that_a_start_cannot_read_are_not_forgotten_silently(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    for body in (b"a", b"b", b"c"):
        stage(disk, "q.1", body)
    stage(disk, "q.1", b"whole", part=1)
    files.fail("writev", errno.ENOSPC, times=FOREVER, path="/orders.topic/log")
    with pytest.raises(AppendError):
        commit(disk, "q.1")
    damage(disk, "q.1", 1)
    files.heal()

    disk.kill_and_start()

    assert seen(disk) == [b"a", b"whole"]
    assert disk.broker.transactions.figures.lost_messages == 2


def test_a_staged_file_that_stays_unreadable_does_not_block_for_ever(
    disk: BrokerOnDisk, files: FaultyFiles
) -> None:
    stage(disk, "q.1", b"a")
    stage(disk, "q.1", b"b", part=1)
    files.fail("pread", errno.EIO, path="0-0.staged", at=2, times=FOREVER)
    for _ in range(9):
        with pytest.raises(OSError):
            commit(disk, "q.1")

    assert commit(disk, "q.1") == (False, 1, 1)
    assert seen(disk) == [b"b"]


@pytest.mark.parametrize("name", ["done", "1/commit"])
def test_a_damaged_record_of_decisions_stops_its_producer_only(
    disk: BrokerOnDisk, files: FaultyFiles, name: str
) -> None:
    stage(disk, "q.0", b"a")
    commit(disk, "q.0")
    stage(disk, "q.1", b"b")
    files.fail("writev", errno.ENOSPC, times=FOREVER, path="/orders.topic/log")
    with pytest.raises(AppendError):
        commit(disk, "q.1")
    files.heal()
    (path,) = Path(disk.path, "transactions", "q").glob(f"{name}.*")
    path.write_bytes(path.read_bytes()[:-1])

    disk.kill_and_start()

    assert disk.broker.health == "TXN(q): bad message"
    for attempt in (
        lambda: stage(disk, "q.2", b"c"),
        lambda: commit(disk, "q.1"),
        lambda: disk.broker.transactions.abort(named("q.1")),
    ):
        with pytest.raises(OSError, match="Bad message"):
            attempt()
    stage(disk, "r.1", b"other")
    assert commit(disk, "r.1").messages == 1
    assert path.exists()


def test_what_is_no_producer_or_transaction_is_left_alone(disk: BrokerOnDisk) -> None:
    stage(disk, "q.1", b"a")
    base = Path(disk.path, "transactions")
    (base / "a note.txt").write_text("mine")
    (base / "q" / "007").mkdir()
    (base / "q" / "1" / "note").write_text("mine")
    (base / ".removed-1").mkdir()
    (base / "q" / ".removed-2").mkdir()

    disk.kill_and_start()

    assert commit(disk, "q.1").messages == 1
    assert sorted(os.listdir(base)) == ["a note.txt", "q"]
    assert directories(disk) == {"007"}
