"""The command as an operator runs it: signals, exit codes, crashes."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.testing.nsqlookupd import running_nsqlookupd
from tests.apps.nsq_to_file.process import ToolProcess
from tests.apps.nsq_to_file.support import contents, whole_members
from tests.fakes.nsqd_process import wait_for

CHANNEL = "nsq_to_file"
NEVER = "--sync-interval=1h"
OFTEN = "--sync-interval=20ms"


@pytest.fixture
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


def tool(folder: Path, nsqd: NsqdFixture, *flags: str) -> ToolProcess:
    return ToolProcess(folder, "--topic=t", f"--nsqd-tcp-address={nsqd.tcp_address}", *flags)


def lines_of(folder: Path) -> list[bytes]:
    return [line for data in contents(folder).values() for line in data.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_syncs_finishes_and_closes_everything(
    tmp_path: Path, nsqd: NsqdFixture, number: signal.Signals
) -> None:
    bodies = [b"%d" % n for n in range(100)]
    nsqd.publish("t", bodies[0])
    with tool(tmp_path, nsqd, "--gzip", f"--work-dir={tmp_path / 'work'}", NEVER) as process:
        nsqd.blocking.wait_channel("t", CHANNEL, finished=1)
        nsqd.publish("t", *bodies[1:])
        nsqd.blocking.wait_channel("t", CHANNEL, in_flight=99)

        process.send(number)

        assert process.wait() == 0
    assert contents(process.output) == {"log-000000.gz": b"".join(body + b"\n" for body in bodies)}
    assert contents(tmp_path / "work") == {}
    assert nsqd.unfinished("t", CHANNEL) == []


def test_sighup_ends_the_file_and_the_next_message_begins_another(tmp_path: Path, nsqd: NsqdFixture) -> None:
    """With a work directory the Go tool dies of it."""
    work = tmp_path / "work"
    with tool(tmp_path, nsqd, "--gzip", "--skip-empty-files", f"--work-dir={work}", OFTEN) as process:
        nsqd.publish("t", b"one")
        nsqd.blocking.wait_channel("t", CHANNEL, finished=1)

        process.send(signal.SIGHUP)
        wait_for(lambda: contents(process.output) == {"log-000000.gz": b"one\n"})
        nsqd.publish("t", b"two")
        nsqd.blocking.wait_channel("t", CHANNEL, finished=2)
        process.send(signal.SIGTERM)

        assert process.wait() == 0
    assert contents(process.output) == {"log-000000.gz": b"one\n", "log-000001.gz": b"two\n"}


def test_a_full_disk_ends_the_process_and_nothing_is_finished(tmp_path: Path, nsqd: NsqdFixture) -> None:
    nsqd.publish("t", b"x" * 100_000)
    limited = tool(tmp_path, nsqd, NEVER).limit_file_size(50_000)
    with limited as process:
        assert process.wait() == 1

    assert "FATAL: [t/nsq_to_file] writing message to disk:" in process.log
    assert [message.body for message in nsqd.unfinished("t", CHANNEL)] == [b"x" * 100_000]


def test_an_output_that_cannot_be_made_ends_the_process(tmp_path: Path, nsqd: NsqdFixture) -> None:
    (tmp_path / "out").write_bytes(b"in the way")
    nsqd.publish("t", b"one")

    with tool(tmp_path, nsqd) as process:
        assert process.wait() == 1

    assert "FATAL: [t/nsq_to_file] unable to open" in process.log
    assert len(nsqd.unfinished("t", CHANNEL)) == 1


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a second file system")
def test_a_work_dir_on_another_file_system_is_fatal_and_the_file_stays(
    tmp_path: Path, nsqd: NsqdFixture
) -> None:
    work = Path("/dev/shm") / f"nsq_to_file_{os.getpid()}"
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("needs a second file system")
    nsqd.publish("t", b"one")
    try:
        with tool(tmp_path, nsqd, f"--work-dir={work}", OFTEN) as process:
            nsqd.blocking.wait_channel("t", CHANNEL, finished=1)
            process.send(signal.SIGTERM)
            assert process.wait() == 1
        assert "invalid cross-device link" in process.log
        assert contents(work) == {"log-000000": b"one\n"}
    finally:
        for path in work.iterdir():
            path.unlink()
        work.rmdir()


def test_a_missing_revision_is_an_error_and_the_process_idles(tmp_path: Path, nsqd: NsqdFixture) -> None:
    with tool(tmp_path, nsqd, "--gzip", "--filename-format=fixed", "--topic=also!bad") as process:
        process.wait_log("couldn't create logger for new topic also!bad: invalid topic name")

        assert (
            "ERROR: couldn't create logger for new topic t: missing <REV> in --filename-format" in process.log
        )
        assert process.exit_code is None
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_new_topics_are_found_by_their_pattern(tmp_path: Path) -> None:
    with (
        running_nsqlookupd() as lookupd,
        running_nsqd(lookupd_tcp_addresses=(lookupd.tcp_address,), broadcast_address="127.0.0.1") as nsqd,
        ToolProcess(
            tmp_path,
            "--topic-pattern=^log_",
            "--topic-refresh=50ms",
            f"--lookupd-http-address={lookupd.http_address}",
            "--filename-format=<TOPIC>",
            OFTEN,
        ) as process,
    ):
        nsqd.publish("other", b"not this")
        nsqd.publish("log_a", b"one")
        nsqd.blocking.wait_channel("log_a", CHANNEL, finished=1)
        nsqd.publish("log_b", b"two")
        nsqd.blocking.wait_channel("log_b", CHANNEL, finished=1)
        process.wait_log("WARNING: skipping topic other (doesn't match pattern ^log_)")
        process.send(signal.SIGTERM)

        assert process.wait() == 0
    assert contents(process.output) == {"log_a": b"one\n", "log_b": b"two\n"}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--gzip"], [], ["--gzip", "--rotate-size=20000", "--work-dir=work"]])
def test_kills_at_any_moment_lose_nothing(tmp_path: Path, flags: list[str]) -> None:
    """Everything is in the files in the end, and each can be read up to its last sync at any time."""
    flags = [flag.replace("=work", f"={tmp_path / 'work'}") for flag in flags]
    bodies = [b"%07d " % n + b"x" * (n % 300) for n in range(40_000)]
    with running_nsqd() as nsqd:
        nsqd.create_channel("t", CHANNEL)
        for start in range(0, len(bodies), 1_000):
            nsqd.publish("t", *bodies[start : start + 1_000])
        for step in range(1, 9):
            with tool(tmp_path, nsqd, *flags, "--max-in-flight=50", OFTEN) as process:
                nsqd.blocking.wait_channel("t", CHANNEL, finished=step * 1_500 + 37 * step)
                process.kill()
            written = archived(tmp_path)
            unfinished = {message.body for message in nsqd.unfinished("t", CHANNEL)}
            assert [body for body in bodies if body not in unfinished and body not in written] == []
        with tool(tmp_path, nsqd, *flags, "--max-in-flight=2500", OFTEN) as process:
            nsqd.blocking.wait_empty("t", CHANNEL)
            process.send(signal.SIGTERM)
            assert process.wait() == 0

    assert set(bodies) - set(archived(tmp_path)) == set()


def archived(folder: Path) -> Counter[bytes]:
    """Lines of all files, of those of gzip as far as their members are whole."""
    lines: Counter[bytes] = Counter()
    for name in ("out", "work"):
        for path in (folder / name).rglob("log*"):
            data = path.read_bytes()
            lines.update((whole_members(data) if path.suffix == ".gz" else data).split(b"\n"))
    return lines
