import errno
import os
import stat
from pathlib import Path

import pytest

from nsqlake.apps.nsq_to_file.errors import ArchiveError
from tests.apps.nsq_to_file.support import ArchiveFixture, contents


def with_work_dir(folder: Path, **options: object) -> ArchiveFixture:
    return ArchiveFixture(folder, work_dir=str(folder / "work"), **options)


def test_a_file_is_in_the_work_dir_until_it_is_finished(tmp_path: Path) -> None:
    given = with_work_dir(tmp_path, filename_format="a/b<REV>")

    given.archive.append([b"one"])
    unfinished = contents(tmp_path)
    given.archive.close()

    assert unfinished == {"work/a/b-000000": b"one\n"}
    assert contents(tmp_path) == {"output/a/b-000000": b"one\n"}


def test_a_relative_work_dir_leaves_no_trace_in_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Go tool makes output/work/log of it."""
    monkeypatch.chdir(tmp_path)
    given = ArchiveFixture(tmp_path, work_dir="./work", output_dir="output")

    given.archive.append([b"one"])
    given.archive.close()

    assert contents(tmp_path) == {"output/log-000000": b"one\n"}


def test_a_name_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = with_work_dir(tmp_path)
    given.archive.append([b"one"])
    for number in (0, 1):
        (given.output / f"log-00000{number}").write_bytes(b"of another")

    given.archive.close()

    assert contents(given.output) == {
        "log-000000": b"of another",
        "log-000001": b"of another",
        "log-000002": b"one\n",
    }
    assert "destination file already exists" in caplog.text


def test_a_revision_that_is_in_the_output_is_not_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = with_work_dir(tmp_path)
    given.output.mkdir()
    (given.output / "log-000000").write_bytes(b"of another")

    given.archive.append([b"one"])

    assert list(contents(tmp_path / "work")) == ["log-000001"]
    assert "output file already exists" in caplog.text


def test_an_unfinished_file_of_another_run_is_continued_and_moved(tmp_path: Path) -> None:
    given = with_work_dir(tmp_path)
    given.archive.append([b"one"])

    again = given.new_archive()
    again.append([b"two"])
    again.close()

    assert contents(tmp_path) == {"output/log-000000": b"one\ntwo\n"}


def test_existing_revisions_are_skipped_with_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = ArchiveFixture(tmp_path, rotate_interval_ns=1)
    given.output.mkdir()
    for number in (0, 1):
        (given.output / f"log-00000{number}").write_bytes(b"of another")

    given.archive.append([b"one"])

    assert contents(given.output)["log-000002"] == b"one\n"
    assert caplog.text.count("working file already exists") == 2


def test_another_file_system_is_an_error_and_the_file_stays(tmp_path: Path) -> None:
    given = with_work_dir(tmp_path)
    given.disk.fail("link", errno.EXDEV)
    given.archive.append([b"one"])

    with pytest.raises(ArchiveError, match="invalid cross-device link"):
        given.archive.close()

    assert contents(tmp_path) == {"work/log-000000": b"one\n"}


@pytest.mark.parametrize("call", ["sync_dir", "unlink"])
def test_a_move_that_fails_half_way_leaves_the_file_under_a_name(tmp_path: Path, call: str) -> None:
    given = with_work_dir(tmp_path)
    given.archive.append([b"one"])
    given.disk.fail(call, errno.EIO)

    with pytest.raises(ArchiveError, match="unable to move"):
        given.archive.close()

    assert set(contents(tmp_path).values()) == {b"one\n"}


def test_names_are_made_durable_before_the_old_ones_go(tmp_path: Path) -> None:
    given = with_work_dir(tmp_path)
    given.archive.append([b"one"])
    given.disk.fail("sync_dir", errno.EIO, path="output")

    with pytest.raises(ArchiveError):
        given.archive.close()

    assert (tmp_path / "work" / "log-000000").exists()


def test_directories_and_files_have_the_modes_of_nsq(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, filename_format="a/b/log")
    before = os.umask(0o027)
    try:
        given.archive.append([b"one"])
    finally:
        os.umask(before)

    modes = [stat.S_IMODE((given.output / name).stat().st_mode) for name in (".", "a", "a/b", "a/b/log")]
    assert modes == [0o750, 0o750, 0o750, 0o640]


@pytest.mark.parametrize(
    ("call", "text"),
    [("mkdir", "unable to create dir"), ("open", "unable to open"), ("sync_dir", "unable to")],
)
def test_what_cannot_be_made_is_an_error(tmp_path: Path, call: str, text: str) -> None:
    given = ArchiveFixture(tmp_path)
    given.disk.fail(call, errno.EACCES)

    with pytest.raises(ArchiveError, match=f"{text}.*permission denied"):
        given.archive.append([b"one"])


def test_a_file_in_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)
    given.output.write_bytes(b"")

    with pytest.raises(ArchiveError, match="not a directory"):
        given.archive.append([b"one"])


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)
    given.output.mkdir()
    (tmp_path / "elsewhere").write_bytes(b"")
    (given.output / "log").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ArchiveError, match="unable to open"):
        given.archive.append([b"one"])

    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_new_file_is_durable_before_anything_is_written(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)
    given.output.mkdir()

    given.archive.tick()

    assert given.disk.calls["sync_dir"] == 1


def test_files_that_are_too_large_already_are_closed_again(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, rotate_size_bytes=3)
    given.output.mkdir()
    for number in range(5):
        (given.output / f"log-00000{number}").write_bytes(b"abc\n")

    given.archive.append([b"one"])

    assert given.disk.open_descriptors == 1
    assert contents(given.output)["log-000005"] == b"one\n"


def test_a_torn_line_is_ended_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = ArchiveFixture(tmp_path)
    given.output.mkdir()
    (given.output / "log").write_bytes(b"torn")

    given.archive.append([b"one"])

    assert contents(given.output) == {"log": b"torn\none\n"}
    assert "unfinished line" in caplog.text
