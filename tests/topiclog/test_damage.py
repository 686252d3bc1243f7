"""What damage on disk may cost: rows 19 to 25 of the reliability page, for the log alone."""

import os
import random
import shutil
from pathlib import Path

import pytest

from nsqlake.topiclog import Damage
from nsqlake.topiclog.damage import DamageCounter, set_aside
from nsqlake.topiclog.files import OS_FILES
from nsqlake.topiclog.segment import SegmentHeader
from tests.topiclog.support import (
    Message,
    append,
    append_bytes,
    block,
    crash,
    drain,
    fill,
    flip_bit,
    index_paths,
    open_log,
    overwrite,
    segment_paths,
    truncate_by,
)

HEADER_BYTES = 40
BLOCK_BYTES = 52 + 4 + 100  # as `fill` makes them


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def closed_log(path: Path, blocks: int = 60, max_bytes_per_file: int = 10**6) -> list[Message]:
    log, _report = open_log(path, max_bytes_per_file=max_bytes_per_file)
    messages = fill(log, blocks)
    log.close()
    return messages


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("nbytes", [1, 2, 51, 155, 156, 157, 312, 1000, 4999, 5000])
def test_a_truncated_tail_costs_the_blocks_it_touched_and_they_are_counted(
    path: Path, nbytes: int, clean: bool
) -> None:
    messages = closed_log(path)
    truncate_by(segment_paths(path)[-1], nbytes)
    touched = -(-nbytes // BLOCK_BYTES)

    log, report = open_log(path, clean=clean)

    assert drain(log) == messages[:-touched]
    assert report.torn_messages == touched
    assert report.torn_bytes == -nbytes % BLOCK_BYTES
    assert log.next > messages[-1][0]
    log.close()


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(bytes(1), id="a zero"),
        pytest.param(bytes(10_000), id="zeros"),
        pytest.param(random.Random(1).randbytes(10_000), id="garbage"),
        pytest.param(b"NQB1" * 500, id="magics"),
        pytest.param(block([b"half" * 50], 1060)[:120], id="half a block"),
        pytest.param(block([b"ours"], 0), id="a block of the past"),
    ],
)
def test_what_was_appended_behind_the_log_costs_nothing(path: Path, tail: bytes) -> None:
    messages = closed_log(path)
    (segment,) = segment_paths(path)
    append_bytes(segment, tail)

    log, report = open_log(path, clean=False)

    assert drain(log) == messages
    assert (report.torn_blocks, report.torn_bytes, report.lost_messages) == (1, len(tail), 0)
    position = HEADER_BYTES + 60 * BLOCK_BYTES
    assert Path(f"{segment}.torn-{position}").read_bytes() == tail
    assert os.path.getsize(segment) == position
    log.close()


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_zeroed_page_costs_the_blocks_in_it(path: Path, is_indexed: bool) -> None:
    messages = closed_log(path, blocks=200)
    (segment,) = segment_paths(path)
    overwrite(segment, 4096, bytes(4096))
    first = (4096 - HEADER_BYTES) // BLOCK_BYTES
    last = (8191 - HEADER_BYTES) // BLOCK_BYTES

    log, report = open_log(path, clean=is_indexed)

    assert drain(log) == messages[:first] + messages[last + 1 :]
    assert report.lost_messages + log.damaged_messages == last + 1 - first
    assert log.count(0, log.next) == len(messages) - (last + 1 - first)
    log.close()


def test_hundreds_of_flipped_bits_are_each_found_and_cost_their_block_at_most(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    log, _report = open_log(original, max_bytes_per_file=3000)
    chosen = random.Random(22)
    blocks = []
    for _ in range(40):
        bodies = [chosen.randbytes(chosen.choice([5, 5, 80])) for _ in range(chosen.choice([1, 1, 7]))]
        base = append(log, bodies)
        blocks.append([(base + i, body) for i, body in enumerate(bodies)])
    log.close()
    everything = {message for each in blocks for message in each}

    for run in range(300):
        shutil.copytree(original, copy)
        victim = chosen.choice(segment_paths(copy))
        flip_bit(victim, chosen.randrange(os.path.getsize(victim) * 8))
        log, report = open_log(copy, clean=run % 2 == 0)
        left = set(drain(log))
        lost = [each for each in blocks if not left.issuperset(each)]
        found = report.torn_blocks + report.damaged_headers + len(report.damage) + log.damaged_blocks
        assert left <= everything
        assert len(lost) <= 1
        assert not any(left.intersection(each) for each in lost)
        assert found == 1
        crash(log)
        shutil.rmtree(copy)


def test_a_missing_segment_is_reported_and_the_rest_delivered(path: Path) -> None:
    messages = closed_log(path, blocks=10, max_bytes_per_file=400)
    os.unlink(segment_paths(path)[2])

    log, report = open_log(path, max_bytes_per_file=400)

    assert report.missing == [(messages[4][0], messages[6][0])]
    assert report.lost_messages == 2
    assert drain(log) == messages[:4] + messages[6:]
    assert log.count(0, log.next) == 8
    log.close()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_segment_header_costs_nothing(path: Path, number: int) -> None:
    messages = closed_log(path, blocks=6, max_bytes_per_file=400)
    overwrite(segment_paths(path)[number], 0, bytes(HEADER_BYTES))

    for _ in range(2):
        log, report = open_log(path, clean=False, max_bytes_per_file=400)
        assert report.damaged_headers == 1
        assert drain(log) == messages
        crash(log)


def test_all_headers_may_be_damaged_while_the_identity_is_whole(path: Path) -> None:
    messages = closed_log(path, blocks=6, max_bytes_per_file=400)
    for segment in segment_paths(path):
        overwrite(segment, 0, bytes(HEADER_BYTES))

    log, report = open_log(path, clean=False, max_bytes_per_file=400)

    assert report.damaged_headers == 3
    assert drain(log) == messages
    log.close()


@pytest.mark.parametrize("content", [None, b"", b"garbage", bytes(500)])
@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_index_is_rebuilt(path: Path, content: bytes | None, clean: bool) -> None:
    messages = closed_log(path, blocks=6, max_bytes_per_file=400)
    for index in index_paths(path):
        os.unlink(index) if content is None else Path(index).write_bytes(content)

    log, report = open_log(path, clean=clean, max_bytes_per_file=400)

    assert drain(log) == messages
    assert (report.rebuilt_indexes, report.lost_messages, report.torn_blocks) == (3, 0, 0)
    log.close()
    _log, report = open_log(path, max_bytes_per_file=400)
    assert report.rebuilt_indexes == 0


def test_an_index_of_another_segment_is_not_believed(path: Path) -> None:
    messages = closed_log(path, blocks=6, max_bytes_per_file=400)
    first, second, _third = index_paths(path)
    shutil.copy(first, second)

    log, report = open_log(path, max_bytes_per_file=400)

    assert drain(log) == messages
    assert report.rebuilt_indexes == 1
    log.close()


def test_an_index_without_its_segment_is_removed(path: Path) -> None:
    closed_log(path, blocks=6, max_bytes_per_file=400)
    os.unlink(segment_paths(path)[0])

    open_log(path, max_bytes_per_file=400)[0].close()

    assert len(index_paths(path)) == len(segment_paths(path)) == 2


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_a_lost_identity_is_taken_from_the_segments(path: Path, content: bytes | None) -> None:
    messages = closed_log(path)
    for identity in path.glob("identity.*"):
        identity.unlink() if content is None else identity.write_bytes(content)

    log, report = open_log(path)

    assert report.rebuilt_identity
    assert drain(log) == messages
    log.close()
    assert not open_log(path)[1].rebuilt_identity


def test_with_all_identity_lost_the_old_file_is_kept_and_a_new_log_begins(path: Path) -> None:
    messages = closed_log(path)
    (segment,) = segment_paths(path)
    overwrite(segment, 0, bytes(HEADER_BYTES))
    for identity in path.glob("identity.*"):
        identity.unlink()

    log, report = open_log(path)

    assert report.set_aside == [segment + ".bad"]
    assert os.path.exists(segment + ".bad")
    assert drain(log) == []
    assert append(log, [b"new"]) >= messages[0][0]
    log.close()


def test_a_segment_of_another_log_is_set_aside(tmp_path: Path) -> None:
    messages = closed_log(tmp_path / "mine")
    other, _report = open_log(tmp_path / "other")
    fill(other, 3)
    other.close()
    stranger = Path(segment_paths(tmp_path / "other")[0])
    data = bytearray(stranger.read_bytes())
    header = SegmentHeader(b"another log's id", 99, 1, 5)
    data[:HEADER_BYTES] = header.encode()
    (tmp_path / "mine" / f"{5:020d}.log").write_bytes(bytes(data))

    log, report = open_log(tmp_path / "mine")

    assert [os.path.basename(name) for name in report.set_aside] == [f"{5:020d}.log.bad"]
    assert drain(log) == messages
    log.close()


def test_counters_add_up_and_damage_is_taken_once() -> None:
    counter = DamageCounter()
    counter.add(Damage("a", 40, 100, "checksum failed", messages=3, blocks=2))
    counter.add(Damage("a", 400, 100, "checksum failed", messages=1))

    assert (counter.blocks, counter.messages) == (3, 4)
    assert [damage.position for damage in counter.take()] == [40, 400]
    assert counter.take() == []


def test_bytes_are_set_aside_beside_their_segment(tmp_path: Path) -> None:
    segment = str(tmp_path / "a.log")

    assert set_aside(OS_FILES, segment, "bad", 40, [b"one", b"two"])
    assert (tmp_path / "a.log.bad-40").read_bytes() == b"onetwo"
    assert not set_aside(OS_FILES, str(tmp_path / "missing" / "a.log"), "bad", 40, [b"x"])
