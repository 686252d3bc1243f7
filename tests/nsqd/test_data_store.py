"""The data path as a whole."""

import errno
import os
from pathlib import Path

import pytest

from nsqlake.nsqd.data_store import DataStore
from nsqlake.topiclog import OS_FILES, write_atomic
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import flip_bit


def reopened(path: Path) -> tuple[DataStore, bool, list[str]]:
    data = DataStore(OS_FILES, str(path))
    clean, names = data.open()
    return data, clean, names


def make_topic(data: DataStore, name: str) -> None:
    data.store(name).prepare()


def test_new_data_path_is_clean_and_empty(tmp_path: Path) -> None:
    _, clean, names = reopened(tmp_path)

    assert (clean, names) == (True, [])


def test_data_path_is_unclean_until_it_is_marked(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    data.mark(clean=False)
    assert reopened(tmp_path)[1] is False

    data.mark(clean=True)

    assert reopened(tmp_path)[1] is True


def test_topics_without_a_mark_were_not_stopped_cleanly(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    make_topic(data, "orders")

    _, clean, names = reopened(tmp_path)

    assert (clean, names) == (False, ["orders"])


def test_mark_that_may_be_an_old_one_is_not_believed(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    data.mark(clean=False)
    data.mark(clean=True)
    data.mark(clean=False)
    assert (tmp_path / "boot.0").exists()

    flip_bit(str(tmp_path / "boot.0"), 200)

    assert reopened(tmp_path)[1] is False


def test_mark_of_another_kind_is_none(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    make_topic(data, "orders")
    for _ in range(2):
        write_atomic(OS_FILES, str(tmp_path / "boot"), b"not json")

    assert reopened(tmp_path)[1] is False


def test_only_topics_are_listed(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    for name in ["b", "a.b", "c#ephemeral"]:
        make_topic(data, name)
    for entry in ["stray", "bad name.topic", ".topic", os.fsdecode(b"\xff.topic")]:
        os.mkdir(os.path.join(data.topics_path, entry))

    assert reopened(tmp_path)[2] == ["a.b", "b", "c#ephemeral"]


def test_new_log_begins_beyond_everything_that_was_given_out(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    data.high_water = 5_000

    assert data.first_offset(now_ns=1_000_000) == 5_001
    assert data.first_offset(now_ns=9_000_000) == 9_001


def test_deleted_topic_is_gone_and_its_offsets_stay_used(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    make_topic(data, "orders")

    hidden = data.hide("orders", "tag", 7_000)
    again, clean, names = reopened(tmp_path)

    assert (clean, names) == (False, [])
    assert again.first_offset(0) == 7_001
    assert not os.path.exists(hidden)


def test_hidden_topic_is_removed(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    make_topic(data, "orders")
    hidden = data.hide("orders", "tag", 1)
    assert os.path.exists(hidden)

    data.remove(hidden)
    data.remove(hidden)

    assert os.listdir(data.topics_path) == []


def test_topic_that_cannot_be_hidden_stays(tmp_path: Path) -> None:
    files = FaultyFiles()
    data = DataStore(files, str(tmp_path))
    data.open()
    make_topic(data, "orders")
    files.fail("rename", errno.EIO, path="topic")

    with pytest.raises(OSError, match="Input/output error"):
        data.hide("orders", "tag", 7_000)

    assert reopened(tmp_path)[2] == ["orders"]


def test_start_that_cannot_be_recorded_withdraws_the_mark_of_the_clean_stop(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    data.mark(clean=False)
    data.mark(clean=True)
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC)

    error = DataStore(files, str(tmp_path)).mark_start()

    assert error is not None
    assert reopened(tmp_path)[1] is False


def test_start_that_can_neither_be_recorded_nor_the_mark_withdrawn_fails(tmp_path: Path) -> None:
    reopened(tmp_path)[0].mark(clean=True)
    files = FaultyFiles()
    files.fail("write", errno.EIO)
    files.fail("ftruncate", errno.EIO)

    with pytest.raises(OSError, match="Input/output error"):
        DataStore(files, str(tmp_path)).mark_start()


def test_start_that_was_not_recorded_is_before_a_new_topic(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC)
    data = DataStore(files, str(tmp_path))
    data.mark_start()

    data.require_mark()
    data.require_mark()

    assert files.calls["rename"] == 1


def test_topic_whose_hiding_was_not_synced_can_be_hidden_again(tmp_path: Path) -> None:
    files = FaultyFiles()
    data = DataStore(files, str(tmp_path))
    data.open()
    make_topic(data, "orders")
    files.fail("sync_dir", errno.EIO, path="topics")
    with pytest.raises(OSError, match="Input/output error"):
        data.hide("orders", "first", 7)

    data.hide("orders", "second", 7)

    assert reopened(tmp_path)[2] == []


def test_start_is_recorded(tmp_path: Path) -> None:
    data, _, _ = reopened(tmp_path)
    data.mark(clean=True)

    assert data.mark_start() is None
    assert reopened(tmp_path)[1] is False
