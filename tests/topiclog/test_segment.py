import errno
import os
from pathlib import Path

import pytest

from nsqlake.topiclog.errors import AppendError
from nsqlake.topiclog.files import OS_FILES
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.segment import (
    EPOCH_JUMP,
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    index_path,
    parse_segment_name,
    segment_name,
)
from tests.fakes.faulty_files import FaultyFiles
from tests.topiclog.support import SALT, UUID

HEADER = SegmentHeader(UUID, SALT, 3, 1234)


def test_a_header_is_read_back() -> None:
    data = HEADER.encode()

    assert len(data) == SEGMENT_HEADER_BYTES
    assert SegmentHeader.decode(data + b"blocks") == HEADER


def test_every_flipped_bit_of_a_header_is_noticed() -> None:
    for bit in range(SEGMENT_HEADER_BYTES * 8):
        damaged = bytearray(HEADER.encode())
        damaged[bit // 8] ^= 1 << bit % 8
        assert SegmentHeader.decode(bytes(damaged)) is None


def test_a_cut_header_is_refused() -> None:
    assert SegmentHeader.decode(HEADER.encode()[:-1]) is None


def test_a_segment_is_named_by_its_first_offset() -> None:
    assert segment_name(1234) == "00000000000000001234.log"
    assert parse_segment_name(segment_name(2**54)) == 2**54
    assert index_path("/d/00000000000000001234.log") == "/d/00000000000000001234.index"


@pytest.mark.parametrize(
    "name", ["1234.log", "00000000000000001234.index", "0000000000000000123x.log", ".log"]
)
def test_other_files_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


def test_a_new_segment_begins_with_its_header(tmp_path: Path) -> None:
    segment = Segment.create(OS_FILES, str(tmp_path), HEADER)

    assert Path(segment.path).read_bytes() == HEADER.encode()
    assert (segment.base, segment.end, segment.epoch, segment.is_empty) == (1234, 1234, 3, True)
    OS_FILES.close(segment.fd)


def test_an_existing_segment_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / segment_name(1234)).write_bytes(b"precious")

    with pytest.raises(AppendError, match="file exists"):
        Segment.create(OS_FILES, str(tmp_path), HEADER)

    assert (tmp_path / segment_name(1234)).read_bytes() == b"precious"


def test_a_segment_without_room_for_its_header_leaves_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.cut_write("write", 10)
    files.fail("write", errno.ENOSPC, at=2)

    with pytest.raises(AppendError) as caught:
        Segment.create(files, str(tmp_path), HEADER)

    assert caught.value.recoverable
    assert os.listdir(tmp_path) == []
    assert files.open_descriptors == 0


def test_a_half_made_segment_that_cannot_be_removed_is_not_recoverable(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC)
    files.fail("unlink", errno.EIO)

    with pytest.raises(AppendError, match="no space left on device; then unlink: input/output") as caught:
        Segment.create(files, str(tmp_path), HEADER)

    assert not caught.value.recoverable


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    files = FaultyFiles()
    segment = Segment.create(files, str(tmp_path), HEADER)
    files.cut_write("writev", 3)

    segment.append(files, (b"head", b"records"), 11)

    assert Path(segment.path).read_bytes() == HEADER.encode() + b"headrecords"
    assert segment.size == SEGMENT_HEADER_BYTES + 11
    files.close(segment.fd)


def test_a_failed_write_is_cut_back_to_the_last_whole_block(tmp_path: Path) -> None:
    files = FaultyFiles()
    segment = Segment.create(files, str(tmp_path), HEADER)
    files.cut_write("writev", 3)
    files.fail("write", errno.ENOSPC)

    with pytest.raises(AppendError, match="disk full: no space left on device") as caught:
        segment.append(files, (b"head", b"records"), 11)

    assert caught.value.recoverable
    assert Path(segment.path).read_bytes() == HEADER.encode()
    files.close(segment.fd)


def test_a_write_that_cannot_be_cut_back_is_not_recoverable(tmp_path: Path) -> None:
    files = FaultyFiles()
    segment = Segment.create(files, str(tmp_path), HEADER)
    files.fail("writev", errno.ENOSPC)
    files.fail("ftruncate", errno.EIO)

    with pytest.raises(AppendError, match="then ftruncate: input/output error") as caught:
        segment.append(files, (b"head", b"records"), 11)

    assert not caught.value.recoverable
    files.close(segment.fd)


def test_a_reopened_segment_is_written_behind_its_end(tmp_path: Path) -> None:
    segment = Segment.create(OS_FILES, str(tmp_path), HEADER)
    OS_FILES.close(segment.fd)

    segment.reopen(OS_FILES)
    segment.append(OS_FILES, (b"more",), 4)

    assert Path(segment.path).read_bytes() == HEADER.encode() + b"more"
    OS_FILES.close(segment.fd)


@pytest.mark.parametrize(
    ("base", "epoch", "vanished"),
    [(100, 1, 0), (107, 1, 7), (100 + EPOCH_JUMP, 2, 0), (103 + 2 * EPOCH_JUMP, 3, 3), (90, 1, 0)],
)
def test_offsets_that_no_epoch_explains_have_vanished(base: int, epoch: int, vanished: int) -> None:
    before = Segment("a", BlockIndex(100), epoch=1, size=40)
    after = Segment("b", BlockIndex(base), epoch=epoch, size=40)

    assert before.vanished_before(after) == vanished
