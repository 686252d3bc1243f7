import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog.atomic_file import (
    read_atomic,
    read_newest,
    remove_atomic,
    remove_stale_temps,
    spoil_atomic,
    write_atomic,
)
from nsqlake.topiclog.files import OS_FILES
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import flip_bit


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def test_the_last_content_is_read_back(path: str) -> None:
    for content in (b"one", b"two", b"", b"four"):
        write_atomic(OS_FILES, path, content)

        assert read_atomic(OS_FILES, path) == content


def test_nothing_is_read_where_nothing_was_written(path: str) -> None:
    assert read_atomic(OS_FILES, path) is None


def test_two_generations_are_kept(path: str) -> None:
    for content in (b"one", b"two", b"three"):
        write_atomic(OS_FILES, path, content)

    assert sorted(os.listdir(os.path.dirname(path))) == ["state.0", "state.1"]


@pytest.mark.parametrize("bit", range(0, (20 + 3) * 8, 5))
def test_a_flipped_bit_falls_back_to_the_content_before(path: str, bit: int) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")

    flip_bit(f"{path}.1", bit)

    assert read_atomic(OS_FILES, path) == b"old"


@pytest.mark.parametrize("content", [b"", b"short", bytes(100)])
def test_an_emptied_or_garbled_file_falls_back_to_the_content_before(path: str, content: bytes) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")

    Path(f"{path}.1").write_bytes(content)

    assert read_atomic(OS_FILES, path) == b"old"


def test_two_damaged_generations_read_as_none(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")

    for name in (f"{path}.0", f"{path}.1"):
        Path(name).write_bytes(b"garbage")

    assert read_atomic(OS_FILES, path) is None


def test_a_write_replaces_the_damaged_generation_first(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")
    flip_bit(f"{path}.1", 99)

    write_atomic(OS_FILES, path, b"newest")

    flip_bit(f"{path}.1", 99)
    assert read_atomic(OS_FILES, path) == b"old"


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_a_failed_write_leaves_the_old_content_and_no_temporary_file(path: str, call: str) -> None:
    files = FaultyFiles()
    write_atomic(files, path, b"old")

    files.fail(call, errno.ENOSPC, path=".tmp")
    with pytest.raises(OSError, match="No space left"):
        write_atomic(files, path, b"new")

    assert read_atomic(files, path) == b"old"
    assert os.listdir(os.path.dirname(path)) == ["state.0"]
    assert files.open_descriptors == 0


def test_a_short_write_is_continued(path: str) -> None:
    files = FaultyFiles()
    files.cut_write("write", 5)

    write_atomic(files, path, b"content")

    assert read_atomic(files, path) == b"content"


def test_content_is_synced_before_it_is_renamed_and_the_directory_after(path: str) -> None:
    files = FaultyFiles()

    write_atomic(files, path, b"content")

    assert (files.calls["fsync"], files.calls["rename"], files.calls["sync_dir"]) == (1, 1, 1)


def test_stale_temporary_files_are_removed(path: str) -> None:
    directory = os.path.dirname(path)
    files = FaultyFiles()
    files.fail("rename", errno.EIO)
    files.fail("unlink", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        write_atomic(files, path, b"content", temp_tag="stale")

    assert remove_stale_temps(OS_FILES, directory) == ["state.stale.tmp"]
    assert os.listdir(directory) == []


def test_both_generations_can_be_removed(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")

    remove_atomic(OS_FILES, path)
    remove_atomic(OS_FILES, path)

    assert read_atomic(OS_FILES, path) is None


def test_an_unreadable_generation_is_the_one_that_is_replaced(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")
    files = FaultyFiles()
    files.fail("pread", errno.EIO, path="state.1")

    write_atomic(files, path, b"newest")

    assert read_atomic(OS_FILES, path) == b"newest"
    flip_bit(f"{path}.1", 99)
    assert read_atomic(OS_FILES, path) == b"old"


def test_nothing_is_written_while_no_generation_can_be_read(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")
    files = FaultyFiles()
    files.fail("pread", errno.EIO, times=2)

    with pytest.raises(OSError, match="Input/output"):
        write_atomic(files, path, b"newest")

    assert read_atomic(OS_FILES, path) == b"new"


def test_the_newest_content_is_certain_only_while_both_generations_are_whole(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    assert read_newest(OS_FILES, path) == (b"old", False)
    write_atomic(OS_FILES, path, b"new")
    assert read_newest(OS_FILES, path) == (b"new", True)

    flip_bit(f"{path}.1", 99)

    assert read_newest(OS_FILES, path) == (b"old", False)


def test_an_unwanted_generation_is_spoiled_and_the_other_one_left(path: str) -> None:
    write_atomic(OS_FILES, path, b"old")
    write_atomic(OS_FILES, path, b"new")

    spoil_atomic(OS_FILES, path, lambda payload: payload == b"new")

    assert read_newest(OS_FILES, path) == (b"old", False)


def test_spoiling_needs_no_generation(path: str) -> None:
    spoil_atomic(OS_FILES, path, lambda _payload: True)

    assert read_atomic(OS_FILES, path) is None
