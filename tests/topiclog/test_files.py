import errno
import os
import stat
from pathlib import Path

import pytest

from nsqlake.topiclog.files import OS_FILES, read_all, remove_tree, write_all
from tests.fakes.faulty_files import FaultyFiles


def test_files_are_private_and_not_inherited(tmp_path: Path) -> None:
    path = str(tmp_path / "file")

    fd = OS_FILES.open(path, os.O_WRONLY | os.O_CREAT)

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not os.get_inheritable(fd)
    OS_FILES.close(fd)


def test_directories_are_private(tmp_path: Path) -> None:
    path = str(tmp_path / "directory")

    OS_FILES.mkdir(path)

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(OSError) as caught:
        OS_FILES.open(str(tmp_path / "link"), os.O_WRONLY | os.O_TRUNC)

    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "target").read_bytes() == b"precious"


def test_all_is_written_however_short_the_writes_are(tmp_path: Path) -> None:
    files = FaultyFiles()
    for call in range(1, 4):
        files.cut_write("write", 3, at=call)
    fd = files.open(str(tmp_path / "file"), os.O_WRONLY | os.O_CREAT)

    write_all(files, fd, b"0123456789abc")

    assert (tmp_path / "file").read_bytes() == b"0123456789abc"
    files.close(fd)


def test_a_write_that_takes_nothing_is_an_error_and_not_a_loop(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.cut_write("write", 0)
    fd = files.open(str(tmp_path / "file"), os.O_WRONLY | os.O_CREAT)

    with pytest.raises(OSError) as caught:
        write_all(files, fd, b"abc")

    assert caught.value.errno == errno.EIO
    files.close(fd)


def test_a_file_is_read_whole_and_its_descriptor_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    files = FaultyFiles()

    assert read_all(files, str(tmp_path / "file")) == b"content"
    assert files.open_descriptors == 0


def test_the_rest_of_the_calls_do_what_their_names_say(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    fd = OS_FILES.open(old, os.O_RDWR | os.O_CREAT)
    OS_FILES.writev(fd, [b"ab", b"cdef"])
    OS_FILES.ftruncate(fd, 4)
    OS_FILES.fdatasync(fd)
    OS_FILES.fsync(fd)

    assert (OS_FILES.size(fd), OS_FILES.pread(fd, 2, 1)) == (4, b"bc")
    OS_FILES.close(fd)
    OS_FILES.rename(old, new)
    OS_FILES.sync_dir(str(tmp_path))
    assert OS_FILES.listdir(str(tmp_path)) == ["new"]
    OS_FILES.unlink(new)
    assert not OS_FILES.exists(new)
    OS_FILES.mkdir(new)
    OS_FILES.rmdir(new)
    assert 0 <= OS_FILES.free_bytes(str(tmp_path)) <= OS_FILES.total_bytes(str(tmp_path))


def test_a_tree_is_removed_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").touch()
    (tree / "inner" / "file").touch()
    (tree / "link").symlink_to(outside)

    remove_tree(OS_FILES, str(tree))

    assert not tree.exists()
    assert (outside / "kept").exists()


def test_what_cannot_be_removed_from_a_tree_stays_and_the_rest_goes(tmp_path: Path) -> None:
    files = FaultyFiles()
    (tmp_path / "stays").touch()
    (tmp_path / "goes").touch()
    files.fail("unlink", errno.EIO, path="stays")

    remove_tree(files, str(tmp_path))

    assert os.listdir(tmp_path) == ["stays"]
