import base64
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nsqlake.apps.log_tool.bounds import Bound, parse_bound
from nsqlake.apps.log_tool.dump import FORMATS
from nsqlake.apps.log_tool.parsers import FORMAT_NAMES
from nsqlake.apps.nsqlake import main
from nsqlake.nsqd.data_path import open_data_path
from tests.apps.log_tool.support import BLOCK_BYTES, BODIES, fingerprint, make_data, segments
from tests.nsqd.core.support import NOW_NS
from tests.topiclog.support import flip_bit

SECOND_NS = 1_000_000_000


def dump(path: Path, capfdbinary: pytest.CaptureFixture[bytes], *flags: str) -> tuple[int, bytes, str]:
    code = main(["log", "dump", str(path), *flags])
    sys.stdout.flush()
    printed = capfdbinary.readouterr()
    return code, printed.out, printed.err.decode()


def dumped(path: Path, capfdbinary: pytest.CaptureFixture[bytes], *flags: str) -> list[bytes]:
    """The bodies."""
    code, out, _err = dump(path, capfdbinary, "--format=json", *flags)
    assert code == 0
    return [json.loads(line)["body"].encode() for line in out.splitlines()]


@pytest.mark.parametrize("clean", [True, False])
def test_all_messages_are_dumped_in_order_and_nothing_is_changed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], clean: bool
) -> None:
    make_data(tmp_path, clean=clean)
    before = fingerprint(tmp_path)

    assert dumped(tmp_path, capfdbinary) == BODIES

    assert fingerprint(tmp_path) == before


def test_json_has_offset_id_time_and_body(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    first = make_data(tmp_path, bodies=["grün".encode(), b"\xff\0"]).log.oldest

    _code, out, _err = dump(tmp_path, capfdbinary, "--topic=orders", "--format=json", "--node-id=5")

    text, binary = (json.loads(line) for line in out.splitlines())
    assert text == {"offset": first, "id": f"{5 << 54 | first:016x}", "timestamp": NOW_NS, "body": "grün"}
    assert base64.b64decode(binary["body_base64"]) == b"\xff\0"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", [rb"two\nlines\x1b[2J", rb"\xff"]),
        ("hex", [b"two\nlines\x1b[2J".hex().encode(), b"ff"]),
    ],
)
def test_lines_have_offset_and_time_and_cannot_be_forged(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], form: str, expected: list[bytes]
) -> None:
    first = make_data(tmp_path, bodies=[b"two\nlines\x1b[2J", b"\xff"]).log.oldest

    _code, out, _err = dump(tmp_path, capfdbinary, f"--format={form}")

    lines = [line.split(b" ", 2) for line in out.splitlines()]
    assert [int(line[0]) for line in lines] == [first, first + 1]
    assert lines[0][1].decode() == f"{datetime.fromtimestamp(NOW_NS // SECOND_NS, UTC):%FT%T}.000000000Z"
    assert [line[2] for line in lines] == expected


def test_raw_is_size_and_body(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    make_data(tmp_path, bodies=[b"one", b"\n\0"])

    _code, out, _err = dump(tmp_path, capfdbinary, "--format=raw")

    assert out == b"\0\0\0\3one\0\0\0\2\n\0"


def test_a_range_is_chosen_by_offset_time_and_count(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = make_data(tmp_path).log.oldest
    moments = [datetime.fromtimestamp(NOW_NS // SECOND_NS + i, UTC).isoformat() for i in range(12)]

    assert dumped(tmp_path, capfdbinary, f"--from={first + 4}", f"--to={first + 7}") == BODIES[4:7]
    assert dumped(tmp_path, capfdbinary, f"--from={moments[4]}", f"--to={moments[7]}") == BODIES[4:7]
    assert dumped(tmp_path, capfdbinary, f"--from={first + 4}", "--limit=2") == BODIES[4:6]
    assert dumped(tmp_path, capfdbinary, "--from=1s") == []
    assert dumped(tmp_path, capfdbinary, "--limit=0") == []


def test_damaged_blocks_are_left_out_and_told(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_data(tmp_path)
    flip_bit(str(segments(tmp_path)[0]), 8 * (40 + BLOCK_BYTES + 70))
    flip_bit(str(segments(tmp_path)[1]), 8 * (40 + 70))
    segments(tmp_path)[1].with_suffix(".index").unlink()
    before = fingerprint(tmp_path)

    code, out, err = dump(tmp_path, capfdbinary, "--format=text")

    assert code == 1
    assert len(out.splitlines()) == 10
    assert err.count("left out 1 messages") == 2
    assert f"position={40 + BLOCK_BYTES} bytes={BLOCK_BYTES}: checksum failed" in err
    assert fingerprint(tmp_path) == before


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    make_data(tmp_path, bodies=[b"x" * 10_000 for _ in range(100)])
    command = [sys.executable, "-m", "nsqlake.apps.nsqlake", "log", "dump", str(tmp_path)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 0

    assert errors == b""


def test_the_topic_has_to_be_named_when_there_are_several(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_data(tmp_path)
    (tmp_path / "topics/more.topic/log").mkdir(parents=True)

    code, _out, err = dump(tmp_path, capfdbinary)
    wrong_code, _out, wrong_err = dump(tmp_path, capfdbinary, "--topic=nobody")

    assert (code, wrong_code) == (2, 2)
    assert "say which --topic; there are: more, orders" in err
    assert "no topic nobody here; there are: more, orders" in wrong_err


def test_a_path_in_use_is_dumped_only_when_told_so(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_data(tmp_path)
    with open_data_path(str(tmp_path)):
        code, _out, err = dump(tmp_path, capfdbinary)

        assert (code, "in use by an nsqd" in err) == (2, True)
        assert dumped(tmp_path, capfdbinary, "--live") == BODIES


def test_a_topic_without_messages_dumps_nothing(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_data(tmp_path, bodies=[])

    assert dump(tmp_path, capfdbinary) == (0, b"", "")


def test_bounds_are_offsets_times_or_ages() -> None:
    now_ns = 1_000_000 * SECOND_NS

    assert parse_bound("123", now_ns) == Bound(offset=123)
    assert parse_bound("90m", now_ns) == Bound(time_ns=now_ns - 5400 * SECOND_NS)
    assert parse_bound("1970-01-02T00:00:00.5Z", now_ns) == Bound(time_ns=86_400 * SECOND_NS + 500_000_000)
    local = datetime(2026, 11, 15, 18, 47).astimezone()
    assert parse_bound("2026-11-15T18:47", now_ns) == Bound(time_ns=int(local.timestamp()) * SECOND_NS)
    with pytest.raises(ValueError, match="neither an offset, nor a time like"):
        parse_bound("yesterday", now_ns)


def test_the_formats_of_the_help_are_those_there_are() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES


@pytest.mark.parametrize("flags", [["--from=soon"], ["--limit=-1"], ["--limit=few"], ["--format=xml"]])
def test_a_wrong_argument_ends_with_code_2(
    tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["log", "dump", str(tmp_path), *flags])

    assert stopped.value.code == 2
    assert "usage: nsqlake log dump" in capsys.readouterr().err
