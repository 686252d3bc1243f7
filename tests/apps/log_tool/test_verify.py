import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nsqlake.apps.nsqlake import main
from nsqlake.nsqd.data_path import open_data_path
from nsqlake.topiclog import EPOCH_JUMP
from tests.apps.log_tool.support import BLOCK_BYTES, BODIES, fingerprint, make_data, segments
from tests.nsqd.core.harness import START_NS
from tests.topiclog.support import append_bytes, flip_bit, overwrite, truncate_by


def verify(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str, str]:
    code = main(["log", "verify", str(path), *flags])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def verify_json(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code, out, _err = verify(path, capsys, "--json")
    return code, json.loads(out)


def damages(document: dict[str, Any]) -> list[str]:
    found = [*document["findings"], *(each for topic in document["topics"] for each in topic["findings"])]
    return [finding["reason"] for finding in found if finding["is_damage"]]


@pytest.mark.parametrize("clean", [True, False])
def test_a_good_path_is_counted_and_nothing_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], clean: bool
) -> None:
    first = make_data(tmp_path, clean=clean).log.oldest
    before = fingerprint(tmp_path)

    code, out, err = verify(tmp_path, capsys)

    assert (code, err) == (0, "")
    nbytes = sum(path.stat().st_size for path in segments(tmp_path))
    assert out.splitlines()[0] == (
        f"orders: good  messages=12 blocks=12 bytes={nbytes} segments=4"
        f" first={first} next={first + 12} channels=1"
    )
    assert out.splitlines()[-1] == "all good"
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("inside", [".", "topics/orders.topic", "topics/orders.topic/log"])
def test_one_topic_can_be_verified_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], inside: str
) -> None:
    make_data(tmp_path)

    code, out, _err = verify(tmp_path / inside, capsys)

    assert code == 0
    assert out.startswith("orders: good  messages=12 ")


def test_a_topic_copied_alone_is_verified_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path / "data")
    shutil.copytree(tmp_path / "data/topics/orders.topic", tmp_path / "copy/orders.topic")

    code, out, _err = verify(tmp_path / "copy/orders.topic", capsys)

    assert code == 0
    assert "last stop: unknown" in out


def test_a_flipped_bit_in_any_segment_is_found_with_file_and_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make_data(tmp_path).log.oldest
    victim = segments(tmp_path)[1]
    flip_bit(str(victim), 8 * (40 + BLOCK_BYTES + 70))
    before = fingerprint(tmp_path)

    code, out, _err = verify(tmp_path, capsys)

    assert code == 1
    assert "orders: DAMAGED  messages=11 blocks=11" in out
    name = victim.relative_to(tmp_path)
    position = f"position={40 + BLOCK_BYTES} bytes={BLOCK_BYTES} messages=1"
    assert f"  damaged: {name} {position}: checksum failed\n" in out
    assert f"  gap [{first + 4}, {first + 5}) 1 offsets: damaged\n" in out
    assert "lost=1 " in out
    assert out.endswith("damage found\n")
    assert fingerprint(tmp_path) == before


def spoil_header(path: Path) -> None:
    overwrite(str(segments(path)[0]), 10, b"##")


def cut_the_middle(path: Path) -> None:
    truncate_by(str(segments(path)[1]), BLOCK_BYTES + 10)


def cut_the_end_at_a_block(path: Path) -> None:
    truncate_by(str(segments(path)[-1]), BLOCK_BYTES)


def cut_the_end_in_a_block(path: Path) -> None:
    truncate_by(str(segments(path)[-1]), 10)


def cut_to_nothing(path: Path) -> None:
    segments(path)[0].write_bytes(b"")


def lose_the_first(path: Path) -> None:
    segments(path)[0].unlink()


def lose_the_second(path: Path) -> None:
    segments(path)[1].unlink()
    segments(path)[1].with_suffix(".index").unlink()


def lose_the_last(path: Path) -> None:
    segments(path)[-1].unlink()


def lose_all(path: Path) -> None:
    shutil.rmtree(path / "topics/orders.topic/log")


def spoil_identity(path: Path) -> None:
    (path / "topics/orders.topic/log/identity.0").write_bytes(b"garbage")


def spoil_state(path: Path) -> None:
    for generation in path.glob("topics/orders.topic/state.*"):
        generation.write_bytes(b"")


def spoil_journal(path: Path) -> None:
    for journal in path.glob("topics/orders.topic/channels/*.journal"):
        overwrite(str(journal), 0, b"####")


def spoil_end_of_journal(path: Path) -> None:
    newest = max(path.glob("topics/orders.topic/channels/*.journal"))
    append_bytes(str(newest), b"torn")


def mix_in_another_log(path: Path) -> None:
    make_data(path / "other")
    shutil.copy(segments(path / "other")[0], segments(path)[0].with_name("00000000000000000007.log"))


def spoil_boot(path: Path) -> None:
    for generation in path.glob("boot.*"):
        generation.write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "reason", "messages"),
    [
        (spoil_header, "segment header damaged; no message is lost by it", 12),
        (cut_the_middle, "cut short", 10),
        (cut_the_end_at_a_block, "cut short", 11),
        (cut_the_end_in_a_block, "cut short", 11),
        (cut_to_nothing, "cut to less than a header", 9),
        (lose_the_first, "segment missing", 9),
        (lose_the_second, "segment missing", 9),
        (lose_the_last, "segment missing", 9),
        (lose_all, "the log is missing", 0),
        (spoil_identity, "damaged; the other generation is used", 12),
        (spoil_state, "no state file; channels are found by their journals", 12),
        (spoil_journal, "no journal; the channel begins again at its start", 12),
        (spoil_end_of_journal, "journal torn or damaged at its end; some messages come again", 12),
        (mix_in_another_log, "a segment of another log", 12),
        (spoil_boot, "damaged; counts as an unclean stop", 12),
    ],
)
def test_every_kind_of_damage_has_its_words(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    reason: str,
    messages: int,
) -> None:
    make_data(tmp_path)
    spoil(tmp_path)
    before = fingerprint(tmp_path)

    code, document = verify_json(tmp_path, capsys)

    assert code == 1
    assert reason in damages(document)
    assert document["topics"][0]["messages"] == messages
    assert fingerprint(tmp_path) == before


def test_a_torn_end_after_a_kill_is_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path, clean=False)
    append_bytes(str(segments(tmp_path)[-1]), b"NQB1 a block that was being written")
    append_bytes(str(max(tmp_path.glob("topics/orders.topic/channels/*.journal"))), b"torn")

    code, out, _err = verify(tmp_path, capsys)

    assert code == 0
    assert "note: topics/orders.topic/log/" in out
    assert "torn end, as a kill leaves it" in out
    assert "journal torn or damaged at its end" in out


def test_a_log_shorter_than_what_was_delivered_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = make_data(tmp_path, clean=False)
    disk.open(START_NS)
    disk.core.channels["archive"].empty()
    disk.write_journal("archive", force=True)
    disk.kill()
    for generation in tmp_path.glob("topics/orders.topic/log/identity.*"):
        generation.unlink()
    for lost in segments(tmp_path)[-1:] + list(tmp_path.glob("topics/orders.topic/log/*.index")):
        lost.unlink()

    code, document = verify_json(tmp_path, capsys)

    assert code == 1
    assert any(reason.startswith("sent up to offset") for reason in damages(document))


def test_a_topic_that_stays_empty_over_restarts_is_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = make_data(tmp_path, bodies=[])
    for second in range(1, 3):
        disk.open(START_NS + second * 1_000_000_000)
        disk.core.channels["archive"].empty()
        disk.stop()

    code, out, _err = verify(tmp_path, capsys)

    assert code == 0, out


def test_gaps_of_epochs_and_retired_segments_are_told_and_are_no_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = make_data(tmp_path, clean=False)
    first = disk.log.oldest
    disk.open(START_NS)
    disk.log.append(b"\0\0\0\1x", 1, timestamp_ns=1, record_size=5)
    disk.log.retire(lambda base, _end: base in (first, first + 9) or base > first + 12)
    disk.stop()

    code, document = verify_json(tmp_path, capsys)

    assert code == 0
    assert document["topics"][0]["gaps"] == [
        {"start": first + 3, "end": first + 9, "reason": "retired"},
        {"start": first + 12, "end": first + 12 + EPOCH_JUMP, "reason": "new epoch after an unclean stop"},
    ]


def test_a_damaged_index_is_only_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path)
    segments(tmp_path)[0].with_suffix(".index").write_bytes(b"garbage")

    code, out, _err = verify(tmp_path, capsys)

    assert code == 0
    assert "index damaged; nsqd rebuilds it" in out


def test_a_path_in_use_is_refused_with_the_process_unless_it_is_to_be_looked_at_live(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_data(tmp_path)
    with open_data_path(str(tmp_path)):
        code, out, err = verify(tmp_path, capsys)
        live_code, live_out, live_err = verify(tmp_path, capsys, "--live")

    assert (code, out) == (2, "")
    assert f"in use by an nsqd (process {os.getpid()})" in err
    assert (live_code, "files may change" in live_err) == (0, True)
    assert live_out.endswith("all good\n")
    assert verify(tmp_path, capsys)[0] == 0


@pytest.mark.parametrize(
    ("name", "reason"), [("nothing", "no such file or directory"), ("empty", "neither a data path")]
)
def test_a_path_without_a_log_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    (tmp_path / "empty").mkdir()

    code, out, err = verify(tmp_path / name, capsys)

    assert (code, out) == (2, "")
    assert err.startswith(f"nsqlake log verify: {tmp_path / name}: {reason}")


def test_a_file_that_cannot_be_read_is_neither_good_nor_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_data(tmp_path)
    victim = segments(tmp_path)[0]
    victim.unlink()
    victim.symlink_to("/etc/hostname")  # links are not followed

    code, out, _err = verify(tmp_path, capsys)

    assert code == 2
    assert f"  cannot be read: {victim}: " in out
    assert out.endswith("not everything could be read\n")


def test_files_that_nsqd_kept_aside_are_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path)
    segments(tmp_path)[0].with_suffix(".log.bad-40").write_bytes(b"x")

    _code, out, _err = verify(tmp_path, capsys)

    assert "note: nsqd kept damaged or torn bytes aside earlier, in 1 files" in out


def test_a_terminal_gets_a_bar_and_then_the_lines(tmp_path: Path) -> None:
    make_data(tmp_path)
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "nsqlake.apps.nsqlake", "log", "verify", str(tmp_path)]

    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, timeout=60, check=False)

    os.close(slave)
    shown = os.read(master, 100_000).decode()
    os.close(master)
    assert done.returncode == 0
    assert "━" in shown
    assert done.stdout.decode().startswith(f"orders: good  messages={len(BODIES)} ")
