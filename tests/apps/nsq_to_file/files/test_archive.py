import errno
from pathlib import Path

import pytest

from nsqlake.apps.nsq_to_file.errors import ArchiveError
from nsqlake.runtime.durations import HOUR_NS, SECOND_NS
from tests.apps.nsq_to_file.support import ArchiveFixture, contents


def test_every_body_becomes_a_line(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)

    given.archive.append([b"one", b"", b"two\nlines", b"\x00\xff"])
    given.archive.sync()

    assert contents(given.output) == {"log": b"one\n\ntwo\nlines\n\x00\xff\n"}


def test_the_first_file_asks_for_a_sync_and_the_next_lines_do_not(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)

    assert [given.archive.append([b"one"]), given.archive.append([b"two"])] == [True, False]


def test_without_messages_nothing_happens(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)

    assert given.archive.append([]) is False
    given.archive.sync()
    given.archive.close()

    assert not given.output.exists()


def test_files_exceed_the_size_by_less_than_one_message(tmp_path: Path) -> None:
    """NSQ: the size is tested before a message is written."""
    given = ArchiveFixture(tmp_path, rotate_size_bytes=10)

    given.archive.append([b"aaa%d" % number for number in range(7)])
    given.archive.close()

    sizes = {name: len(data) for name, data in contents(given.output).items()}
    assert sizes == {"log-000000": 15, "log-000001": 15, "log-000002": 5}


def test_gzip_counts_bytes_before_compression(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, rotate_size_bytes=1_000, gzip=True)

    given.archive.append([b"a" * 999, b"b", b"c"])
    given.archive.close()

    assert contents(given.output) == {
        "log-000000.gz": b"a" * 999 + b"\nb\n",
        "log-000001.gz": b"c\n",
    }


def test_a_new_hour_is_a_new_file_from_revision_0(tmp_path: Path) -> None:
    given = ArchiveFixture(
        tmp_path, rotate_size_bytes=1, filename_format="log<REV>.<DATETIME>", datetime_format="%S"
    )
    second = given.clock.timestamp_ns() // SECOND_NS % 60

    given.archive.append([b"one", b"two"])
    given.clock.advance_ns(SECOND_NS)
    given.archive.append([b"three"])
    given.archive.close()

    assert contents(given.output) == {
        f"log-000000.{second:02d}": b"one\n",
        f"log-000001.{second:02d}": b"two\n",
        f"log-000000.{(second + 1) % 60:02d}": b"three\n",
    }


def test_a_file_that_is_older_than_the_interval_ends(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, rotate_interval_ns=HOUR_NS)

    given.archive.append([b"one"])
    given.clock.advance_ns(HOUR_NS)
    given.archive.append([b"two"])
    given.clock.advance_ns(1)
    given.archive.append([b"three"])
    given.archive.close()

    assert contents(given.output) == {"log-000000": b"one\ntwo\n", "log-000001": b"three\n"}


def test_setting_the_wall_clock_makes_no_file_older(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, rotate_interval_ns=HOUR_NS)
    given.archive.append([b"one"])

    given.clock.set_wall_forward_ms(10 * 3600 * 1000)
    given.archive.append([b"two"])

    assert contents(given.output) == {"log-000000": b"one\ntwo\n"}


def test_the_reasons_of_rotation_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nsqlake")
    given = ArchiveFixture(
        tmp_path, rotate_size_bytes=3, rotate_interval_ns=SECOND_NS // 2, filename_format="<DATETIME><REV>",
        datetime_format="at%S",
    )  # fmt: skip
    second = given.clock.timestamp_ns() // SECOND_NS % 60

    given.archive.append([b"one", b"two"])
    given.clock.advance_ns(SECOND_NS * 6 // 10)
    given.archive.append([b"three"])
    given.clock.advance_ns(SECOND_NS * 4 // 10)
    given.archive.append([b"four"])

    told = [record.getMessage() for record in caplog.records if "rotating" in record.getMessage()]
    assert told == [
        f"[orders/nsq_to_file] {given.output}/at{second}-000000 currently 4 bytes (> 3), rotating...",
        "[orders/nsq_to_file] 600ms since last open, rotating...",
        f"[orders/nsq_to_file] new filename at{second + 1}<REV>, rotating...",
    ]


def test_a_tick_begins_a_file_before_there_is_a_message(tmp_path: Path) -> None:
    plain, compressed = ArchiveFixture(tmp_path), ArchiveFixture(tmp_path, gzip=True)

    plain.archive.tick()
    compressed.archive.tick()

    assert contents(plain.output) == {"log": b"", "log-000000.gz": b""}
    assert (plain.output / "log-000000.gz").stat().st_size > 0


def test_with_skip_empty_files_a_tick_only_ends_what_is_due(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, skip_empty_files=True, rotate_interval_ns=HOUR_NS, gzip=True)

    given.archive.tick()
    before = contents(tmp_path)
    given.archive.append([b"one"])
    given.clock.advance_ns(HOUR_NS + 1)
    given.archive.tick()

    assert before == {}
    assert contents(given.output) == {"log-000000.gz": b"one\n"}
    assert given.disk.open_descriptors == 0


def test_a_tick_leaves_a_file_alone_that_is_not_due(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, rotate_size_bytes=100)
    given.archive.append([b"one"])

    given.archive.tick()
    given.archive.append([b"two"])

    assert contents(given.output) == {"log-000000": b"one\ntwo\n"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"log": b"one\ntwo\n"}),
        ({"gzip": True}, {"log-000000.gz": b"one\n", "log-000001.gz": b"two\n"}),
        ({"rotate_interval_ns": HOUR_NS}, {"log-000000": b"one\n", "log-000001": b"two\n"}),
        ({"rotate_size_bytes": 100}, {"log-000000": b"one\n", "log-000001": b"two\n"}),
    ],
)
def test_after_a_close_the_next_file_begins(
    tmp_path: Path, options: dict[str, object], expected: dict[str, bytes]
) -> None:
    """What SIGHUP does."""
    given = ArchiveFixture(tmp_path, **options)

    given.archive.append([b"one"])
    given.archive.close()
    given.archive.append([b"two"])
    given.archive.close()

    assert contents(given.output) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"log": b"one\ntwo\n"}),
        ({"gzip": True}, {"log-000000.gz": b"one\n", "log-000001.gz": b"two\n"}),
        ({"rotate_interval_ns": HOUR_NS}, {"log-000000": b"one\n", "log-000001": b"two\n"}),
        ({"rotate_size_bytes": 4}, {"log-000000": b"one\ntwo\n"}),
        ({"rotate_size_bytes": 3}, {"log-000000": b"one\n", "log-000001": b"two\n"}),
    ],
)
def test_what_another_run_left_is_continued_or_left_alone(
    tmp_path: Path, options: dict[str, object], expected: dict[str, bytes]
) -> None:
    given = ArchiveFixture(tmp_path, **options)
    given.archive.append([b"one"])
    given.archive.close()

    again = given.new_archive()
    again.append([b"two"])
    again.close()

    assert contents(given.output) == expected


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("is_gzip", [False, True])
def test_with_a_work_dir_every_close_moves_and_the_next_file_begins(
    tmp_path: Path, skips: bool, is_gzip: bool
) -> None:
    """The Go tool keeps a closed handle here and dies."""
    given = ArchiveFixture(tmp_path, work_dir=str(tmp_path / "work"), skip_empty_files=skips, gzip=is_gzip)

    given.archive.append([b"one"])
    given.archive.close()
    given.archive.tick()
    given.archive.append([b"two"])
    given.archive.close()

    lines = [data for data in contents(given.output).values() if data]
    assert lines == [b"one\n", b"two\n"]
    assert contents(tmp_path / "work") == {}


@pytest.mark.parametrize("call", ["write", "fsync", "close"])
@pytest.mark.parametrize("is_gzip", [False, True])
def test_no_failure_of_the_disk_goes_unseen(tmp_path: Path, call: str, is_gzip: bool) -> None:
    given = ArchiveFixture(tmp_path, gzip=is_gzip)
    given.disk.fail(call, errno.ENOSPC, path="log" if call != "close" else "")

    with pytest.raises(ArchiveError, match="no space left on device") as caught:
        _ = given.archive.append([b"one"]), given.archive.close()  # type: ignore[func-returns-value]

    assert caught.value.path == str(given.output / ("log-000000.gz" if is_gzip else "log"))


def test_the_old_file_is_synced_before_the_next_begins(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path, rotate_size_bytes=1)
    given.archive.append([b"one"])
    given.disk.fail("fsync", errno.EIO, path="log-000000")

    with pytest.raises(ArchiveError, match="input/output error"):
        given.archive.append([b"two"])

    assert list(contents(given.output)) == ["log-000000"]


def test_an_idle_archive_is_not_synced_again(tmp_path: Path) -> None:
    given = ArchiveFixture(tmp_path)
    given.archive.append([b"one"])
    given.archive.sync()
    before = given.disk.calls["fsync"]

    given.archive.tick()
    given.archive.sync()

    assert given.disk.calls["fsync"] == before
