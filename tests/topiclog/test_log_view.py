import os
from pathlib import Path

import pytest

from nsqlake.topiclog import TopicLog
from nsqlake.topiclog.log_view import LogView, list_segments
from nsqlake.topiclog.read_only_files import ReadOnlyFiles
from tests.topiclog.support import (
    FIRST,
    append,
    append_bytes,
    crash,
    drain,
    fill,
    flip_bit,
    index_paths,
    open_log,
    overwrite,
    segment_paths,
)

BLOCK_BYTES = 52 + 4 + 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def new_log(path: Path) -> TopicLog:
    return open_log(path, max_bytes_per_file=400)[0]


def view(path: Path) -> LogView:
    return LogView(ReadOnlyFiles(), str(path))


def test_a_view_reads_beside_a_log_that_is_open(path: Path) -> None:
    log = new_log(path)
    messages = fill(log, 7)

    seen = view(path)

    assert drain(seen) == messages
    assert (seen.first, seen.next, seen.read(seen.next)) == (FIRST, FIRST + 7, None)
    seen.close()
    log.close()


def test_a_torn_end_and_a_file_in_the_making_are_left_out_and_left_alone(path: Path) -> None:
    log = new_log(path)
    messages = fill(log, 7)
    crash(log)
    append_bytes(segment_paths(path)[-1], b"torn")
    (path / f"{log.next:020d}.log").touch()

    assert drain(view(path)) == messages

    assert os.path.getsize(segment_paths(path)[-1]) == 0


def test_damage_is_told_whether_an_index_leads_to_it_or_not(path: Path) -> None:
    log = new_log(path)
    messages = fill(log, 6)
    log.close()
    for segment in segment_paths(path)[:2]:
        flip_bit(segment, 8 * (40 + 70))
    os.unlink(index_paths(path)[0])

    seen = view(path)

    assert drain(seen) == [messages[1], *messages[3:]]
    assert [(damage.position, damage.messages) for damage in seen.take_damage()] == [(40, 1), (40, 1)]
    assert len(os.listdir(path)) == 3 + 2 + 1  # segments, indexes, identity: nothing was kept aside


def test_without_identity_the_newest_header_tells_it_and_a_damaged_header_costs_nothing(path: Path) -> None:
    log = new_log(path)
    messages = fill(log, 6)
    log.close()
    for identity in path.glob("identity.*"):
        identity.unlink()
    overwrite(segment_paths(path)[0], 5, b"##")

    assert drain(view(path)) == messages


def test_a_segment_of_another_log_is_left_out(path: Path, tmp_path: Path) -> None:
    log = new_log(path)
    messages = fill(log, 2)
    log.close()
    header = Path(segment_paths(path)[0]).read_bytes()[:40]
    assert view(path).first == FIRST
    foreign = header[:8] + bytes(16) + header[24:]
    (path / f"{FIRST + 50:020d}.log").write_bytes(resealed(foreign))

    assert drain(view(path)) == messages


def resealed(header: bytes) -> bytes:
    import google_crc32c

    return header[:4] + google_crc32c.value(header[8:]).to_bytes(4, "big") + header[8:]


def test_a_time_leads_to_the_segment_that_may_hold_it(path: Path) -> None:
    log = new_log(path)
    for i in range(6):
        append(log, [b"x" * 100], timestamp_ns=100 + i)
    log.close()

    seen = view(path)

    assert [seen.start_at(at) for at in (0, 101, 102, 105, 106)] == [
        FIRST,
        FIRST,
        FIRST + 2,
        FIRST + 4,
        FIRST + 6,
    ]


def test_an_empty_directory_is_an_empty_view(tmp_path: Path) -> None:
    seen = view(tmp_path)

    assert (seen.first, seen.next, seen.read(0)) == (0, 0, None)


def test_a_segment_that_goes_while_one_looks_is_left_out(path: Path) -> None:
    log = new_log(path)
    fill(log, 4)
    log.close()

    class Vanishing(ReadOnlyFiles):
        def listdir(self, path: str) -> list[str]:
            return [*super().listdir(path), f"{7:020d}.log"]

    assert [segment.base for segment in list_segments(Vanishing(), str(path))] == [FIRST, FIRST + 2]
