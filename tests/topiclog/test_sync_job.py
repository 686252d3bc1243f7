import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog.files import OS_FILES, read_all
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.segment import Segment, SegmentHeader, index_path
from nsqlake.topiclog.sync_job import SyncState, write_index
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import SALT, UUID


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def state(files: FaultyFiles, tmp_path: Path) -> SyncState:
    return SyncState(files, str(tmp_path), synced=0)


def segment(files: FaultyFiles, tmp_path: Path, base: int) -> Segment:
    return Segment.create(files, str(tmp_path), SegmentHeader(UUID, SALT, 1, base))


def test_nothing_dirty_is_nothing_to_do(state: SyncState) -> None:
    assert state.begin(None, 10) is None


def test_a_sync_makes_everything_before_it_durable(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    active = segment(files, tmp_path, 0)
    state.dirty_messages = 5
    job = state.begin(active, 5)
    assert job is not None
    state.dirty_messages += 2

    job.run()
    state.end(job, None)

    assert (state.synced, state.dirty_messages) == (5, 2)
    assert (files.calls["fdatasync"], files.calls["sync_dir"]) == (1, 0)
    assert active.fd >= 0


def test_only_one_job_runs_at_a_time(state: SyncState, files: FaultyFiles, tmp_path: Path) -> None:
    active = segment(files, tmp_path, 0)
    state.dirty_messages = 1
    state.begin(active, 1)
    state.dirty_messages = 1

    assert state.begin(active, 2) is None


def test_a_closed_segment_is_synced_indexed_and_then_let_go(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    closed = segment(files, tmp_path, 0)
    state.closed.append(closed)
    state.directory_changed = True
    job = state.begin(None, 9)
    assert job is not None

    job.run()
    state.end(job, None)

    assert closed.fd == -1
    assert files.open_descriptors == 0
    assert files.calls["sync_dir"] == 1
    assert BlockIndex.decode(read_all(OS_FILES, index_path(closed.path))) is not None


def test_a_segment_without_descriptor_is_synced_by_its_path(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    closed, gone = segment(files, tmp_path, 0), segment(files, tmp_path, 5)
    for each in (closed, gone):
        state.release(each)
    os.unlink(gone.path)
    state.closed += [closed, gone]
    job = state.begin(None, 9)
    assert job is not None

    job.run()

    assert files.calls["fdatasync"] == 1
    assert files.open_descriptors == 0


def test_a_failed_sync_makes_nothing_durable_and_is_never_tried_again(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    closed = segment(files, tmp_path, 0)
    state.closed.append(closed)
    job = state.begin(None, 9)
    assert job is not None
    files.fail("fdatasync", errno.EIO)

    with pytest.raises(OSError) as caught:
        job.run()
    state.end(job, caught.value)

    assert state.synced == 0
    state.dirty_messages = 1
    assert state.begin(None, 10) is None
    assert not os.path.exists(index_path(closed.path))
    assert files.open_descriptors == 0


def test_a_descriptor_that_a_job_uses_is_closed_after_the_job(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    active = segment(files, tmp_path, 0)
    state.dirty_messages = 1
    job = state.begin(active, 1)
    assert job is not None

    state.release(active)

    assert files.open_descriptors == 1
    job.run()
    state.end(job, None)
    assert files.open_descriptors == 0


def test_a_segment_that_is_released_needs_no_sync(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    closed = segment(files, tmp_path, 0)
    state.closed.append(closed)

    state.release(closed)

    assert state.begin(None, 1) is None


def test_an_index_that_cannot_be_written_is_not_left_in_part(files: FaultyFiles, tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000000.log")
    files.cut_write("write", 10)
    files.fail("write", errno.ENOSPC, at=2)

    assert not write_index(files, path, BlockIndex(0), 40)
    assert os.listdir(tmp_path) == []


def test_a_segment_is_the_anchor_once_its_name_is_durable(
    state: SyncState, files: FaultyFiles, tmp_path: Path
) -> None:
    state.directory_changed = True
    job = state.begin(segment(files, tmp_path, 7), 9)
    assert job is not None
    assert state.anchor is None

    job.run()
    state.end(job, None)

    assert state.anchor == 7
    assert not state.is_needed


def test_a_sync_without_an_active_segment_leaves_the_anchor(state: SyncState) -> None:
    state.anchor, state.directory_changed = 7, True
    job = state.begin(None, 9)
    assert job is not None

    state.end(job, None)

    assert state.anchor == 7
