"""Journals on disk: whatever is torn or fails, the last whole state is read back."""

import errno
import os
from pathlib import Path

import pytest

from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.journal_file import JournalFile, journal_channels, lost_bytes, read_journal
from nsqlake.topiclog import OS_FILES
from nsqlake.topiclog.files import Files
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.topiclog.support import append_bytes, flip_bit, truncate_by

SALT, ID_BASE, BASE = 0x5A17, 5 << 54, 40_960


class Place:
    """A directory with the journal of one channel."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.files = files or OS_FILES
        self.path = str(path)
        self.ledger = Ledger(ID_BASE, BASE)
        self.journal = self.open()

    def open(self, salt: int = SALT) -> JournalFile:
        found = read_journal(OS_FILES, self.path, "c", self.generations, salt)
        read = 0 if found is None else found[0]
        return JournalFile(self.files, self.path, "c", salt=salt, old=self.generations, read=read)

    @property
    def generations(self) -> list[int]:
        return journal_channels(OS_FILES, self.path).get("c", [])

    def deliver(self, count: int = 1) -> None:
        self.ledger.deliver_fresh(self.ledger.cursor, count, 7)

    def cursor_on_disk(self, salt: int | None = SALT) -> int | None:
        found = read_journal(OS_FILES, self.path, "c", self.generations, salt)
        if found is None:
            return None
        ledger = Ledger(ID_BASE, 0)
        assert ledger.replay(found[2])
        return ledger.cursor - BASE

    def file(self, generation: int) -> str:
        return os.path.join(self.path, f"c.{generation:08d}.journal")

    def sync(self, error: OSError | None = None) -> None:
        job = self.journal.begin_sync()
        assert job is not None
        job.run()
        self.journal.end_sync(job, error)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_journal_begins_with_a_snapshot(place: Place) -> None:
    place.deliver(3)

    assert place.journal.write(place.ledger)

    assert place.generations == [1]
    assert place.cursor_on_disk() == 3
    assert not place.ledger.pending


def test_what_happens_later_is_appended(place: Place) -> None:
    for _ in range(5):
        place.deliver()
        assert place.journal.write(place.ledger)

    assert place.generations == [1]
    assert place.cursor_on_disk() == 5


def test_later_process_begins_a_new_generation(place: Place) -> None:
    place.journal.write(place.ledger)
    place.journal.close()
    place.journal = place.open()
    place.deliver()

    place.journal.write(place.ledger)

    assert place.generations == [2, 1]
    assert place.cursor_on_disk() == 1


def test_journal_that_has_grown_begins_a_new_generation(place: Place) -> None:
    place.journal.write(place.ledger)
    while place.generations == [1]:
        for _ in range(2000):
            place.deliver()
            place.ledger.put_back(place.ledger.cursor - 1)
            place.ledger.deliver_again(place.ledger.requeued.popleft(), 7, now_ns=0, deadline_ns=1)
        place.deliver()
        place.journal.write(place.ledger)
        assert os.path.getsize(place.file(1)) < 2 * 1024 * 1024

    assert place.cursor_on_disk() == place.ledger.cursor - BASE


def test_torn_batch_is_left_out(place: Place) -> None:
    place.journal.write(place.ledger)
    place.deliver()
    place.journal.write(place.ledger)
    place.deliver()
    place.journal.write(place.ledger)

    truncate_by(place.file(1), 5)

    assert place.cursor_on_disk() == 1
    assert lost_bytes(OS_FILES, place.path, "c", 1) == 8 + 25 - 5


def test_torn_snapshot_falls_back_to_the_generation_before(place: Place) -> None:
    place.deliver()
    place.journal.write(place.ledger)
    place.deliver()
    place.journal.write_snapshot(place.ledger)

    truncate_by(place.file(2), 1)

    assert place.cursor_on_disk() == 1


@pytest.mark.parametrize("bit", [0, 40, 70])
def test_damaged_header_falls_back_to_the_generation_before(place: Place, bit: int) -> None:
    place.deliver()
    place.journal.write(place.ledger)
    place.deliver()
    place.journal.write_snapshot(place.ledger)

    flip_bit(place.file(2), bit)

    assert place.cursor_on_disk() == 1
    assert lost_bytes(OS_FILES, place.path, "c", 2) == os.path.getsize(place.file(2))


def test_empty_file_and_unreadable_file_fall_back_too(place: Place) -> None:
    place.deliver()
    place.journal.write(place.ledger)
    Path(place.file(2)).touch()
    os.mkdir(place.file(3))

    assert place.cursor_on_disk() == 1
    assert lost_bytes(OS_FILES, place.path, "c", 2) == 0


def test_lost_bytes_of_a_missing_file_are_none(place: Place) -> None:
    assert lost_bytes(OS_FILES, place.path, "c", 9) == 0


def test_whole_journal_has_lost_nothing(place: Place) -> None:
    place.deliver()
    place.journal.write(place.ledger)

    assert lost_bytes(OS_FILES, place.path, "c", 1) == 0


def test_garbage_behind_the_last_batch_does_not_matter(place: Place) -> None:
    place.deliver()
    place.journal.write(place.ledger)

    append_bytes(place.file(1), os.urandom(100))

    assert place.cursor_on_disk() == 1


def test_journal_of_a_deleted_channel_is_not_taken_for_its_successors(place: Place) -> None:
    place.deliver()
    place.journal.write(place.ledger)

    assert place.cursor_on_disk(salt=SALT + 1) is None
    assert place.cursor_on_disk(salt=None) == 1


def test_channels_are_found_by_their_files(tmp_path: Path) -> None:
    names = ["a.00000001.journal", "a.00000012.journal", "a.b.00000002.journal"]
    others = [".00000001.journal", "a.x.journal", "a.²1.journal", "journal", "a.00000001.log"]
    for name in [*names, *others]:
        (tmp_path / name).touch()

    assert journal_channels(OS_FILES, str(tmp_path)) == {"a": [12, 1], "a.b": [2]}


# Failures


@pytest.mark.parametrize(("call", "at"), [("open", 1), ("write", 1)])
def test_failed_snapshot_is_tried_again(tmp_path: Path, call: str, at: int) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    files.fail(call, errno.ENOSPC, at=at)
    place.deliver()

    assert not place.journal.write(place.ledger)
    assert place.journal.failure is not None
    assert place.journal.failure.errno == errno.ENOSPC
    assert place.cursor_on_disk() is None

    assert place.journal.write(place.ledger)
    assert place.journal.failure is None
    assert place.cursor_on_disk() == 1
    assert files.open_descriptors == 1


def test_failed_batch_is_answered_by_a_whole_new_generation(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    place.journal.write(place.ledger)
    place.deliver()
    files.cut_write("write", 10)
    files.fail("write", errno.EIO, at=2)

    assert not place.journal.write(place.ledger)
    assert place.cursor_on_disk() == 0

    place.deliver()
    assert place.journal.write(place.ledger)
    assert place.generations == [2, 1]
    assert place.cursor_on_disk() == 2
    assert files.open_descriptors == 1


def test_short_writes_are_continued(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    files.cut_write("write", 3)
    place.deliver()

    assert place.journal.write(place.ledger)
    assert place.cursor_on_disk() == 1


def test_file_that_cannot_be_removed_is_left_for_the_next_start(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    files.fail("write", errno.EIO)
    files.fail("unlink", errno.EIO)

    assert not place.journal.write(place.ledger)

    assert place.generations == [1]
    assert place.cursor_on_disk() is None


# Syncing


def test_only_what_was_written_since_is_synced(place: Place) -> None:
    assert place.journal.begin_sync() is None
    place.journal.write(place.ledger)
    place.sync()

    assert place.journal.begin_sync() is None
    place.deliver()
    place.journal.write(place.ledger)
    assert place.journal.begin_sync() is not None


def test_one_sync_runs_at_a_time(place: Place) -> None:
    place.journal.write(place.ledger)
    job = place.journal.begin_sync()
    place.journal.write(place.ledger)

    assert place.journal.begin_sync() is None
    assert place.journal.is_syncing

    assert job is not None
    place.journal.end_sync(job, None)
    assert not place.journal.is_syncing
    assert place.journal.begin_sync() is not None


def test_older_generations_go_once_a_newer_one_is_safe_and_one_stays(place: Place) -> None:
    for _ in range(4):
        place.deliver()
        place.journal.write_snapshot(place.ledger)
    assert place.generations == [4, 3, 2, 1]

    place.sync()

    assert place.generations == [4, 3]
    os.unlink(place.file(4))
    assert place.cursor_on_disk() == 3


def test_torn_generation_is_not_kept_as_the_fall_back(place: Place) -> None:
    place.deliver()
    place.journal.write(place.ledger)
    place.journal.write_snapshot(place.ledger)
    place.journal.close()
    truncate_by(place.file(2), 1)
    place.journal = place.open()

    place.deliver()
    place.journal.write(place.ledger)
    place.sync()

    assert place.generations == [3, 1]
    os.unlink(place.file(3))
    assert place.cursor_on_disk() == 1


def test_generation_begun_during_a_sync_protects_nothing_yet(place: Place) -> None:
    for _ in range(3):
        place.journal.write_snapshot(place.ledger)
    job = place.journal.begin_sync()
    assert job is not None
    place.journal.write_snapshot(place.ledger)

    job.run()
    place.journal.end_sync(job, None)

    assert place.generations == [4, 3, 2]


def test_descriptor_that_a_sync_uses_is_closed_after_it(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    place.journal.write(place.ledger)
    job = place.journal.begin_sync()
    assert job is not None

    place.journal.write_snapshot(place.ledger)
    assert files.open_descriptors == 2
    job.run()
    place.journal.end_sync(job, None)

    assert files.open_descriptors == 1


def test_after_a_failed_sync_only_a_new_generation_is_trusted(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    place.journal.write(place.ledger)
    job = place.journal.begin_sync()
    assert job is not None
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error") as caught:
        job.run()

    place.journal.end_sync(job, caught.value)
    assert place.journal.failure is caught.value
    assert place.journal.begin_sync() is None
    place.journal.write(place.ledger)

    assert place.generations == [2, 1]
    place.sync()


# The end


def test_closed_journal_holds_no_descriptor(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    place.journal.write(place.ledger)

    place.journal.close()
    place.journal.close()

    assert files.open_descriptors == 0


def test_deleted_journal_leaves_no_file(place: Place) -> None:
    for _ in range(3):
        place.journal.write_snapshot(place.ledger)

    place.journal.delete()

    assert os.listdir(place.path) == []


def test_deleting_on_a_failing_disk_does_not_raise(tmp_path: Path) -> None:
    files = FaultyFiles()
    place = Place(tmp_path, files)
    place.journal.write(place.ledger)
    files.fail("unlink", errno.EIO, times=FOREVER)

    place.journal.delete()

    assert files.open_descriptors == 0


def test_generation_that_a_killed_process_left_is_synced_once(tmp_path: Path) -> None:
    Place(tmp_path).journal.write_snapshot(Ledger(ID_BASE, BASE))
    files = FaultyFiles()
    journal = JournalFile(files, str(tmp_path), "c", salt=SALT, old=[1], read=1, is_read_synced=False)

    job = journal.begin_sync()
    assert job is not None
    job.run()
    journal.end_sync(job, None)

    assert (files.calls["fdatasync"], files.calls["sync_dir"], files.open_descriptors) == (1, 1, 0)
    assert journal.begin_sync() is None


def test_new_generation_replaces_the_one_that_a_killed_process_left(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.journal.write_snapshot(place.ledger)
    journal = JournalFile(OS_FILES, str(tmp_path), "c", salt=SALT, old=[1], read=1, is_read_synced=False)
    journal.write(place.ledger)

    job = journal.begin_sync()

    assert job is not None
    assert job.generation == 2
    journal.end_sync(job, None)
    assert journal.begin_sync() is None
    journal.close()
