import errno
import gzip
import os
from pathlib import Path

import pytest

from nsqlake.apps.nsq_to_file.errors import ArchiveError
from nsqlake.apps.nsq_to_file.files.archive_file import FLUSH_BYTES, ArchiveFile, open_flags
from nsqlake.apps.nsq_to_file.files.disk import OS_DISK
from nsqlake.apps.nsq_to_file.files.encodings import Encoding, GzipMembers, Plain
from nsqlake.apps.nsq_to_file.files.rotation import FileState
from tests.apps.nsq_to_file.support import whole_members
from tests.fakes.faulty_files import FaultyFiles


def open_file(path: Path, encoding: Encoding, disk: FaultyFiles | None = None) -> ArchiveFile:
    disk = disk or FaultyFiles(OS_DISK)
    fd = disk.open(str(path), open_flags(is_exclusive=False))
    state = FileState("log", 0, disk.size(fd))
    return ArchiveFile(disk, fd, str(path), state, encoding, 0)  # type: ignore[arg-type]


def test_lines_are_with_the_system_after_a_flush(tmp_path: Path) -> None:
    file = open_file(tmp_path / "log", Plain())

    file.add(b"one")
    before = (tmp_path / "log").read_bytes()
    file.flush()

    assert (before, (tmp_path / "log").read_bytes()) == (b"", b"one\n")
    file.close()


def test_much_is_not_gathered_until_the_flush(tmp_path: Path) -> None:
    file = open_file(tmp_path / "log", Plain())

    file.add(b"x" * FLUSH_BYTES)

    assert (tmp_path / "log").stat().st_size == FLUSH_BYTES + 1
    file.close()


def test_gzip_can_be_read_up_to_the_last_sync_at_any_time(tmp_path: Path) -> None:
    file = open_file(tmp_path / "log", GzipMembers(1))
    noise = [os.urandom(100_000) for _ in range(3)]

    for number, body in enumerate(noise):
        file.add(body)
        file.flush()
        assert whole_members((tmp_path / "log").read_bytes()) == b"".join(
            part + b"\n" for part in noise[:number]
        )
        file.sync()
        assert gzip.decompress((tmp_path / "log").read_bytes()) == b"".join(
            part + b"\n" for part in noise[: number + 1]
        )
    file.close()


def test_a_sync_syncs_what_was_written_and_nothing_twice(tmp_path: Path) -> None:
    disk = FaultyFiles(OS_DISK)
    file = open_file(tmp_path / "log", Plain(), disk)

    counts = []
    for body in (b"one", b"", None):
        if body is not None:
            file.add(body)
        file.sync()
        counts.append(disk.calls["fsync"])

    assert counts == [1, 2, 2]
    file.close()


def test_a_write_that_takes_only_a_part_is_continued(tmp_path: Path) -> None:
    disk = FaultyFiles(OS_DISK)
    file = open_file(tmp_path / "log", Plain(), disk)
    disk.cut_write("write", 2)

    file.add(b"one")
    file.close()

    assert (tmp_path / "log").read_bytes() == b"one\n"


@pytest.mark.parametrize("call", ["write", "fsync", "close"])
def test_failures_name_the_file(tmp_path: Path, call: str) -> None:
    disk = FaultyFiles(OS_DISK)
    file = open_file(tmp_path / "log", Plain(), disk)
    file.add(b"one")
    disk.fail(call, errno.EIO)

    with pytest.raises(ArchiveError) as caught:
        file.close()

    assert (caught.value.path, caught.value.reason) == (str(tmp_path / "log"), "input/output error")


@pytest.mark.parametrize(
    ("before", "is_torn", "after"),
    [(b"", False, b"two\n"), (b"one\n", False, b"one\ntwo\n"), (b"on", True, b"on\ntwo\n")],
)
def test_a_torn_line_never_becomes_part_of_the_next(
    tmp_path: Path, before: bytes, is_torn: bool, after: bytes
) -> None:
    (tmp_path / "log").write_bytes(before)
    file = open_file(tmp_path / "log", Plain())

    assert file.end_torn_line() is is_torn
    file.add(b"two")
    file.close()

    assert (tmp_path / "log").read_bytes() == after
    assert file.size_bytes == len(after)
