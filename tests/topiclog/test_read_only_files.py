import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nsqlake.topiclog.files import read_all
from nsqlake.topiclog.read_only_files import ReadOnlyFiles


def test_reading_works_and_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    counts: list[int] = []

    assert read_all(ReadOnlyFiles(counts.append), str(tmp_path / "a")) == b"12345"

    assert sum(counts) == 5


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT, os.O_TRUNC, os.O_APPEND])
def test_a_file_cannot_be_opened_to_be_changed(tmp_path: Path, flags: int) -> None:
    with pytest.raises(OSError) as refused:
        ReadOnlyFiles().open(str(tmp_path / "new"), flags)

    assert refused.value.errno == errno.EROFS
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda files, path: files.write(1, b"x"),
        lambda files, path: files.writev(1, [b"x"]),
        lambda files, path: files.ftruncate(1, 0),
        lambda files, path: files.rename(path, f"{path}2"),
        lambda files, path: files.unlink(path),
        lambda files, path: files.mkdir(f"{path}3"),
        lambda files, path: files.rmdir(os.path.dirname(path)),
    ],
)
def test_nothing_can_be_changed(tmp_path: Path, change: Callable[[ReadOnlyFiles, str], None]) -> None:
    (tmp_path / "a").write_bytes(b"12345")

    with pytest.raises(OSError) as refused:
        change(ReadOnlyFiles(), str(tmp_path / "a"))

    assert refused.value.errno == errno.EROFS
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"12345")]
