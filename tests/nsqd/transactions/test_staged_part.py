"""The file of one attempt: whole after every answer, whatever the disk did in between."""

import errno
import os
import stat
from pathlib import Path

import pytest

from nsqlake.nsqd.transactions.staged_part import StagedPart
from nsqlake.topiclog.files import OS_FILES
from tests.fakes.faulty_files import FOREVER, FaultyFiles
from tests.nsqd.transactions.support import messages_of


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def part(files: FaultyFiles, tmp_path: Path) -> StagedPart:
    return StagedPart(files, str(tmp_path / "0-0.staged"))


def read_back(part: StagedPart) -> list[tuple[str, int, bytes]]:
    """As a daemon finds it that is started now."""
    loaded = StagedPart.load(OS_FILES, part.path)
    assert (loaded.records, loaded.nbytes, loaded.message_count, loaded.topics) == (
        part.records,
        part.nbytes,
        part.message_count,
        part.topics,
    )
    found = loaded.read(loaded.records)
    assert all(messages is not None for messages in found)
    return [
        (record.topic, record.message_count, b"" if messages is None else messages.records)
        for record, messages in zip(loaded.records, found, strict=True)
    ]


def test_records_are_read_back_by_the_next_daemon(part: StagedPart) -> None:
    part.append("a", messages_of(b"x", b"yy"), 0)
    part.append("b", messages_of(b"z"), 10)

    assert read_back(part) == [("a", 2, b"\0\0\0\1x\0\0\0\2yy"), ("b", 1, b"\0\0\0\1z")]
    assert stat.S_IMODE(os.stat(part.path).st_mode) == 0o600


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_failed_write_adds_nothing_and_the_next_one_goes_on(
    part: StagedPart, files: FaultyFiles, code: int, is_first: bool
) -> None:
    if not is_first:
        part.append("a", messages_of(b"first"), 0)
    files.cut_write("writev", 7)
    files.fail("write", code)

    with pytest.raises(OSError):
        part.append("a", messages_of(b"second"), 0)
    assert os.path.getsize(part.path) == part.nbytes

    part.append("a", messages_of(b"third"), 0)
    assert [body[4:] for _, _, body in read_back(part)][-1] == b"third"


def test_what_could_not_be_cut_off_at_once_is_cut_off_before_the_next_write(
    part: StagedPart, files: FaultyFiles
) -> None:
    part.append("a", messages_of(b"first"), 0)
    files.cut_write("writev", 7)
    files.fail("write", errno.ENOSPC)
    files.fail("ftruncate", errno.EIO, times=2)

    for _ in range(2):  # the second one may not be written behind the rest of the first
        with pytest.raises(OSError):
            part.append("a", messages_of(b"second"), 0)
    files.heal()

    part.append("a", messages_of(b"third"), 0)
    assert [body[4:] for _, _, body in read_back(part)] == [b"first", b"third"]


def test_a_short_write_is_gone_on_with(part: StagedPart, files: FaultyFiles) -> None:
    files.cut_write("writev", 7)

    part.append("a", messages_of(b"body"), 0)

    assert len(read_back(part)) == 1


def test_a_torn_end_is_overwritten(part: StagedPart) -> None:
    part.append("a", messages_of(b"first"), 0)
    with open(part.path, "ab") as file:
        file.write(b"half of a record")

    again = StagedPart.load(OS_FILES, part.path)
    assert again.cut_bytes == 16
    again.append("a", messages_of(b"second"), 0)

    assert len(read_back(again)) == 2


def test_a_new_part_does_not_go_on_with_a_file_that_is_there(part: StagedPart) -> None:
    Path(part.path).write_bytes(b"left behind")

    part.append("a", messages_of(b"x"), 0)

    assert len(read_back(part)) == 1


def test_damage_is_found(part: StagedPart) -> None:
    for body in (b"a", b"b", b"c"):
        part.append("t", messages_of(body), 0)
    assert part.first_damaged() is None
    with open(part.path, "r+b") as file:
        file.seek(part.records[1].position + part.records[1].nbytes - 1)
        file.write(b"!")

    assert part.first_damaged() == part.records[1]
    assert [found is None for found in part.read(part.records)] == [False, True, False]


def test_a_failed_sync_is_never_made_good(part: StagedPart, files: FaultyFiles) -> None:
    part.append("t", messages_of(b"x"), 0)
    part.sync()
    assert not part.is_lost
    files.fail("fsync", errno.EIO)

    with pytest.raises(OSError):
        part.sync()

    assert part.is_lost
    part.sync()
    assert part.is_lost


def test_no_descriptor_is_left_open(part: StagedPart, files: FaultyFiles) -> None:
    files.fail("writev", errno.ENOSPC, at=2, times=FOREVER)
    part.append("t", messages_of(b"x"), 0)
    with pytest.raises(OSError):
        part.append("t", messages_of(b"x"), 0)
    part.sync()
    part.read(part.records)

    assert files.open_descriptors == 0
