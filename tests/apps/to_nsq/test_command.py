import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.apps.to_nsq.command import main
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.apps.tools import LIMIT_S, Ran, run_in_process, tool_process
from tests.fakes.nsqd_process import wait_for

DEAD = "127.0.0.1:1"


def publish(folder: Path, stdin: bytes, *addresses: str, flags: tuple[str, ...] = ()) -> Ran:
    to = [f"--nsqd-tcp-address={address}" for address in addresses]
    return run_in_process(main, "--topic=orders", *to, *flags, folder=folder, stdin=stdin)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([], "--topic required"),
        (["--delimiter=ab"], "--topic required"),
        (["--topic=t", "--delimiter=ab"], "--delimiter must be a single byte"),
        (["--topic=t", "--delimiter="], "--delimiter must be a single byte"),
        (["--topic=t", "--delimiter=ü"], "--delimiter must be a single byte"),
        (["--topic=t", r"--delimiter=\n"], "--delimiter must be a single byte"),
        (["--topic=t"], "--nsqd-tcp-address required"),
        (
            ["--topic=t", "--nsqd-tcp-address=a:1", "--producer-opt=heartbeat_interval,90s"],
            "HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(flags: list[str], reason: str, tmp_path: Path) -> None:
    ran = run_in_process(main, *flags, folder=tmp_path)

    assert (ran.code, ran.lines) == (1, [reason])


def test_it_has_no_version_flag(tmp_path: Path) -> None:
    ran = run_in_process(main, "--version", folder=tmp_path)

    assert ran.code == 2
    assert ran.err.startswith("flag provided but not defined: -version\nUsage of to_nsq:\n")


def test_records_are_published_in_order_and_none_loses_a_byte(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        ran = publish(tmp_path, b"one\n\ntwo\nthree", nsqd.tcp_address)

        assert ran.code == 0
        assert nsqd.bodies("orders") == [b"one", b"two", b"three"]


def test_every_nsqd_gets_every_record_once(tmp_path: Path) -> None:
    with running_nsqd() as first, running_nsqd() as second:
        ran = publish(
            tmp_path,
            b"a,b",
            first.tcp_address,
            second.tcp_address,
            first.tcp_address,
            flags=("--delimiter=,",),
        )

        assert ran.code == 0
        assert (first.bodies("orders"), second.bodies("orders")) == ([b"a", b"b"], [b"a", b"b"])


def test_more_than_may_be_unanswered_is_all_published(tmp_path: Path) -> None:
    records = [b"%d" % number for number in range(25_000)]
    with running_nsqd() as nsqd:
        ran = publish(tmp_path, b"\n".join(records), nsqd.tcp_address)

        assert ran.code == 0
        assert nsqd.bodies("orders") == records
    assert re.fullmatch(r"published 25,000 messages \(.*\), .*/s", ran.lines[-1])


def test_an_invalid_topic_is_refused(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        ran = publish(tmp_path, b"a", nsqd.tcp_address, flags=("--topic=b d!",))

        assert ran.code == 1
        assert nsqd.bodies("b") == []
    assert "topic='b d!': must be" in ran.lines[-1]


def test_the_first_refused_record_ends_it_and_the_count_is_told(tmp_path: Path) -> None:
    with running_nsqd(max_msg_size=10) as nsqd:
        ran = publish(tmp_path, b"a\nb\n" + b"x" * 11 + b"\nc\nd", nsqd.tcp_address)

        assert ran.code == 1
        assert nsqd.bodies("orders") == [b"a", b"b"]
    assert "E_BAD_MESSAGE PUB message too big 11 > 10" in ran.lines[-1]
    assert ran.lines[-1].endswith(" (2 of 5 messages were acknowledged)")


def test_an_nsqd_that_is_not_there_is_fatal_with_the_first_record(tmp_path: Path) -> None:
    ran = publish(tmp_path, b"a", DEAD)

    assert ran.code == 1
    assert ran.lines[-1].endswith("connection refused")


def test_without_a_record_nothing_is_connected(tmp_path: Path) -> None:
    ran = publish(tmp_path, b"\n\n", DEAD)

    assert (ran.code, ran.lines) == (0, [])


def test_a_rate_is_kept_and_told(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        began_s = time.monotonic()
        ran = publish(tmp_path, b"a\nb\n\nc", nsqd.tcp_address, flags=("--rate=50",))

        assert time.monotonic() - began_s >= 3 / 50
        assert nsqd.bodies("orders") == [b"a", b"b", b"c"]
    assert (ran.code, ran.lines[0]) == (0, "Throttling messages rate to max:50/second")


@contextlib.contextmanager
def fed(nsqd: NsqdFixture, line: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has got one line, and waits for more."""
    flags = ["--topic=orders", f"--nsqd-tcp-address={nsqd.tcp_address}"]
    with tool_process("to_nsq", *flags) as process:
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()
        yield process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, -1)])
def test_a_signal_ends_the_wait_for_input(number: signal.Signals, code: int) -> None:
    with running_nsqd() as nsqd, fed(nsqd, b"a\n") as process:
        wait_for(lambda: nsqd.bodies("orders") == [b"a"])
        process.send_signal(number)

        assert process.wait(LIMIT_S) == code


def test_a_failure_does_not_wait_for_more_input(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    os.write(writable, b"too long\n")

    with running_nsqd(max_msg_size=3) as nsqd:
        flags = ["--topic=orders", f"--nsqd-tcp-address={nsqd.tcp_address}"]
        ran = run_in_process(main, *flags, folder=tmp_path, stdin=readable)

    os.close(writable)
    assert ran.code == 1
