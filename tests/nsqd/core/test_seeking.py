"""Positions: how they are written and what they mean in a log."""

from pathlib import Path

import pytest

from nsqlake.nsqd.core.seeking import (
    FutureOffsetError,
    RemovedOffsetError,
    SeekKind,
    SeekTarget,
    SeekTargetError,
    check_offset,
    resolve,
)
from nsqlake.topiclog import EPOCH_JUMP, LogOptions, MemoryLog
from tests.topiclog.support import FIRST, append, crash, open_log

SECOND_NS = 1_000_000_000
MOMENT_NS = 1_794_765_600 * SECOND_NS  # 2026-11-15T18:00:00Z


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", SeekTarget.earliest()),
        ("latest", SeekTarget.latest()),
        ("0", SeekTarget.at_offset(0)),
        ("1763246410123457", SeekTarget.at_offset(1763246410123457)),
        ("@1794765600", SeekTarget.at_time(MOMENT_NS)),
        ("@1794765600.5", SeekTarget.at_time(MOMENT_NS + SECOND_NS // 2)),
        ("@1794765600.000000001", SeekTarget.at_time(MOMENT_NS + 1)),
        ("2026-11-15T18:00:00Z", SeekTarget.at_time(MOMENT_NS)),
        ("2026-11-15t18:00:00.000000001z", SeekTarget.at_time(MOMENT_NS + 1)),
        ("2026-11-15 20:00:00+02:00", SeekTarget.at_time(MOMENT_NS)),
        ("2026-11-15T20:00:00 02:00", SeekTarget.at_time(MOMENT_NS)),
        ("2026-11-15T12:30:00.25-05:30", SeekTarget.at_time(MOMENT_NS + SECOND_NS // 4)),
    ],
)
def test_a_position_is_read_in_each_of_its_spellings(text: str, target: SeekTarget) -> None:
    assert SeekTarget.parse(text) == target


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "Earliest",
            " latest",
            "-1",
            "+5",
            "1.5",
            "0x10",
            "١٢",
            "1" * 20,
            "@",
            "@-1",
            "@1.",
            "@1.1234567890",
        ),
        *(
            "2026-11-15",
            "2026-11-15T18:00:00",
            "2026-13-15T18:00:00Z",
            "2026-11-15T25:00:00Z",
            "@1794765600\n",
        ),
    ],
)
def test_any_other_text_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(SeekTargetError, match=r"earliest, latest, .*2026-11-15T18:00:00Z") as caught:
        SeekTarget.parse(text)

    assert caught.value.text == text


def test_a_refusal_repeats_no_long_text() -> None:
    assert len(str(SeekTargetError("x" * 10_000))) < 300


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (SeekTarget.earliest(), "earliest"),
        (SeekTarget.at_offset(7), "offset 7"),
        (SeekTarget.at_time(MOMENT_NS + 5), "time @1794765600.000000005"),
    ],
)
def test_a_target_says_what_it_is(target: SeekTarget, text: str) -> None:
    assert str(target) == text
    assert isinstance(target.kind, SeekKind)


def test_the_ends_of_the_log_and_what_lies_between(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    append(log, [b"a", b"b", b"c"])

    assert resolve(SeekTarget.earliest(), log, FIRST) == FIRST
    assert resolve(SeekTarget.latest(), log, FIRST) == FIRST + 3
    assert resolve(SeekTarget.at_offset(FIRST + 1), log, FIRST) == FIRST + 1
    assert resolve(SeekTarget.at_offset(FIRST + 3), log, FIRST) == FIRST + 3
    log.close()


def test_an_offset_that_was_not_given_out_is_an_error(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    append(log, [b"a"])

    with pytest.raises(FutureOffsetError, match="beyond the end") as caught:
        check_offset(log, FIRST + 2)

    assert (caught.value.offset, caught.value.first, caught.value.next) == (FIRST + 2, FIRST, FIRST + 1)
    log.close()


def test_an_offset_that_is_no_longer_kept_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", max_bytes_per_file=200)
    offsets = [append(log, [b"x" * 100], timestamp_ns=number) for number in range(1, 5)]
    log.retire(lambda base, end: base > offsets[1])

    with pytest.raises(RemovedOffsetError, match="--retention-time") as caught:
        resolve(SeekTarget.at_offset(offsets[0]), log, FIRST)

    assert (caught.value.offset, caught.value.first, caught.value.next) == (FIRST, offsets[2], log.next)
    assert resolve(SeekTarget.earliest(), log, FIRST) == offsets[2]
    log.close()


def test_a_time_is_the_first_message_of_that_time_or_later(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    offsets = [append(log, [b"x", b"y"], timestamp_ns=stamp) for stamp in (100, 200, 300)]

    found = [resolve(SeekTarget.at_time(stamp), log, FIRST) for stamp in (1, 100, 101, 300, 301)]

    assert found == [offsets[0], offsets[0], offsets[1], offsets[2], log.next]
    log.close()


def test_a_time_before_what_is_kept_is_an_error(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", max_bytes_per_file=200)
    offsets = [append(log, [b"x" * 100], timestamp_ns=stamp) for stamp in (100, 200, 300)]
    log.retire(lambda base, end: base > offsets[0])

    with pytest.raises(RemovedOffsetError, match=r"time @0\.000000150.*--retention-time") as caught:
        resolve(SeekTarget.at_time(150), log, FIRST)

    assert (caught.value.offset, caught.value.first) == (None, offsets[1])
    assert resolve(SeekTarget.at_time(200), log, FIRST) == offsets[1]
    log.close()


def test_a_time_in_a_log_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", max_bytes_per_file=200)
    append(log, [b"x" * 100], timestamp_ns=100)
    log.retire(lambda base, end: False)
    assert log.first == log.next

    with pytest.raises(RemovedOffsetError):
        resolve(SeekTarget.at_time(100), log, FIRST)
    log.close()


def test_a_time_in_a_log_that_never_held_anything_is_its_end(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")

    assert resolve(SeekTarget.at_time(5), log, FIRST) == FIRST
    log.close()


def test_the_jump_of_a_new_epoch_is_no_loss(tmp_path: Path) -> None:
    for _ in range(2):
        crash(open_log(tmp_path / "log", clean=False)[0])
    log, _ = open_log(tmp_path / "log", clean=False)
    base = append(log, [b"x"], timestamp_ns=100)
    assert base == FIRST + 2 * EPOCH_JUMP

    assert resolve(SeekTarget.at_time(5), log, FIRST) == base
    with pytest.raises(RemovedOffsetError):
        resolve(SeekTarget.at_time(5), log, FIRST - 1)
    log.close()


def test_a_time_in_a_log_in_memory() -> None:
    log = MemoryLog(uuid=bytes(16), first_offset=FIRST, options=LogOptions(mem_messages=2))
    offsets = [append(log, [b"x"], timestamp_ns=stamp) for stamp in (100, 200)]
    assert resolve(SeekTarget.at_time(1), log, FIRST) == offsets[0]

    append(log, [b"x"], timestamp_ns=300)

    assert resolve(SeekTarget.at_time(200), log, FIRST) == offsets[1]
    with pytest.raises(RemovedOffsetError):
        resolve(SeekTarget.at_time(1), log, FIRST)
