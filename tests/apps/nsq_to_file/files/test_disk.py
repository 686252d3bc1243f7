import errno
from pathlib import Path

import pytest

from nsqlake.apps.nsq_to_file.files.disk import OS_DISK, make_directory
from tests.fakes.faulty_files import FaultyFiles


def test_all_that_is_missing_is_made_and_synced(tmp_path: Path) -> None:
    disk = FaultyFiles(OS_DISK)

    make_directory(disk, str(tmp_path / "a" / "b"))  # type: ignore[arg-type]
    make_directory(disk, str(tmp_path / "a" / "b"))  # type: ignore[arg-type]

    assert (tmp_path / "a" / "b").is_dir()
    assert (disk.calls["mkdir"], disk.calls["sync_dir"]) == (2, 2)


def test_a_directory_that_somebody_else_makes_meanwhile_is_fine(tmp_path: Path) -> None:
    class Racing(FaultyFiles):
        def mkdir(self, path: str, mode: int) -> None:
            Path(path).mkdir()
            raise OSError(errno.EEXIST, "File exists")

    make_directory(Racing(OS_DISK), str(tmp_path / "a"))  # type: ignore[arg-type]

    assert (tmp_path / "a").is_dir()


def test_a_link_is_a_second_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")

    OS_DISK.link(str(tmp_path / "a"), str(tmp_path / "b"))

    assert (tmp_path / "b").samefile(tmp_path / "a")
    with pytest.raises(FileExistsError):
        OS_DISK.link(str(tmp_path / "a"), str(tmp_path / "b"))
