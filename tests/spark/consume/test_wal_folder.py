"""The write-ahead folder of mode=consume: what is written is whole, read as it was, and removed in time."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from nsqlake.spark.consume.wal_folder import WalFolder
from nsqlake.spark.errors import OptionError


def rows(*ids: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"node": ["n1"] * len(ids), "id": list(ids)})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[WalFolder]:
    folder = WalFolder(str(tmp_path / "wal"))
    folder.open()
    yield folder
    folder.close()


def test_what_was_written_is_read_again_batch_by_batch(folder: WalFolder) -> None:
    folder.write(7, [rows("a", "b"), rows("c")])

    assert list(folder.read(7)) == [rows("a", "b"), rows("c")]
    assert list(folder.read(7)) == [rows("a", "b"), rows("c")]
    assert list(folder.read_keys(7)) == [("n1", "a"), ("n1", "b"), ("n1", "c")]
    assert folder.numbers() == [7]


def test_tasks_read_through_a_copy_that_was_sent_to_them(folder: WalFolder) -> None:
    folder.write(1, [rows("a")])

    copied: WalFolder = pickle.loads(pickle.dumps(folder))

    assert list(copied.read(1)) == [rows("a")]


def test_files_that_no_batch_had_go_and_so_do_torn_ones(folder: WalFolder, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        folder.write(number, [rows(str(number))])
    torn = tmp_path / "wal" / f"{4:020d}.arrow.tmp"
    torn.write_bytes(b"ARROW")

    folder.remove_after(2)

    assert folder.numbers() == [1, 2]
    assert not torn.exists()


def test_a_file_that_is_gone_already_is_removed_without_complaint(folder: WalFolder) -> None:
    folder.write(1, [rows("a")])

    folder.remove([1, 2])
    folder.remove([1])

    assert folder.numbers() == []


def test_a_file_that_is_not_seen_here_is_an_error_that_says_why(folder: WalFolder) -> None:
    with pytest.raises(OptionError, match="has no file 9 here; do driver and executors see the same folder"):
        list(folder.read(9))


def test_a_folder_belongs_to_one_query_at_a_time(folder: WalFolder) -> None:
    other = WalFolder(folder.path)

    with pytest.raises(OptionError, match="is used by another query that runs"):
        other.open(wait_s=0)

    folder.close()
    other.open(wait_s=0)
    folder._lock = other._lock


def test_the_folder_can_be_named_as_a_url(tmp_path: Path) -> None:
    assert WalFolder(f"file://{tmp_path}").path == str(tmp_path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("", "is needed for mode=consume"), ("s3://bucket/wal", "must be a folder of a file system")],
)
def test_other_places_are_refused(path: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        WalFolder(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OptionError, match=r"option walDir '.*file/wal': cannot be used: Not a directory"):
        WalFolder(str(tmp_path / "file" / "wal")).open()


def test_a_file_that_cannot_be_written_is_an_error_of_the_folder(folder: WalFolder, tmp_path: Path) -> None:
    (tmp_path / "wal" / f"{1:020d}.arrow.tmp").mkdir()

    with pytest.raises(OptionError, match="cannot be written: Is a directory"):
        folder.write(1, [rows("a")])
