import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nsqlake.nsqd.data_path import open_data_path
from nsqlake.runtime.errors import StartupError

NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Iterator[int]:
    """Root may write everywhere, so tests run by root step down for a moment."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield os.geteuid()
    finally:
        os.seteuid(before)


def refusal(path: object) -> str:
    with pytest.raises(StartupError) as caught:
        open_data_path(str(path))
    return str(caught.value)


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "none"

    assert refusal(path) == f"failed to lock data-path: open {path}: no such file or directory"
    assert not path.exists()


def test_a_file_is_no_data_path(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    assert refusal(path) == f"failed to lock data-path: open {path}: not a directory"


def test_a_second_daemon_on_the_same_path_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    with open_data_path(str(tmp_path)):
        assert refusal(tmp_path) == (
            f"failed to lock data-path: cannot flock directory {tmp_path} - resource temporarily unavailable"
            " (possibly in use by another instance of nsqd)"
        )

    open_data_path(str(tmp_path)).close()


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    lock = open_data_path(str(tmp_path))

    lock.close()
    lock.close()

    open_data_path(str(tmp_path)).close()


def test_an_empty_path_is_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with open_data_path("") as lock:
        assert lock.path == "."
        assert "cannot flock directory" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["nsqd.dat", "nsqd.617.dat", "orders.diskqueue.000000.dat", "orders:archive.diskqueue.meta.dat",
     "orders.diskqueue.000001.dat.bad"],
)  # fmt: skip
def test_files_of_the_go_nsqd_are_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"theirs")
    (tmp_path / "state.0").touch()
    (tmp_path / "state.77.tmp").touch()

    text = refusal(tmp_path)

    assert text == (
        f"--data-path {tmp_path} holds files of the Go nsqd ({name}), which this nsqd cannot read;"
        " drain them with the Go nsqd and nsq_to_nsq, or choose an empty --data-path"
    )
    assert sorted(os.listdir(tmp_path)) == sorted([name, "state.0", "state.77.tmp"])
    assert (tmp_path / name).read_bytes() == b"theirs"


def test_a_refused_path_is_not_kept_locked(tmp_path: Path) -> None:
    (tmp_path / "nsqd.dat").touch()
    refusal(tmp_path)

    (tmp_path / "nsqd.dat").unlink()

    open_data_path(str(tmp_path)).close()


def test_a_topic_may_be_called_like_a_file_of_the_go_nsqd(tmp_path: Path) -> None:
    (tmp_path / "a.diskqueue.b").mkdir()

    open_data_path(str(tmp_path)).close()


def test_what_an_interrupted_write_of_ours_left_is_removed(tmp_path: Path) -> None:
    for name in ("state.0", "state.4711.tmp", "other.1", "other.x.tmp"):
        (tmp_path / name).touch()

    open_data_path(str(tmp_path)).close()

    assert sorted(os.listdir(tmp_path)) == ["other.1", "state.0"]


def test_temporary_files_of_others_stay(tmp_path: Path) -> None:
    names = ["notes.tmp", "nsqd.dat.123.tmp", "report.1.tmp", "state.0"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "state.1.tmp").mkdir()

    open_data_path(str(tmp_path)).close()

    assert sorted(os.listdir(tmp_path)) == sorted([*names, "state.1.tmp"])


def test_a_path_that_cannot_be_written_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o555)
    monkeypatch.chdir(tmp_path)

    with as_ordinary_user() as user_id:
        text = refusal(".")
    tmp_path.chmod(0o700)

    assert text == f"--data-path . is not writable by user id {user_id}: permission denied"
