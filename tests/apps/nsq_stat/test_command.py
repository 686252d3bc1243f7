"""The command as it is run."""

import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nsqlake.apps.nsq_stat import main
from nsqlake.apps.nsq_stat.table import HEADER
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.tcp_client import TcpClient

LIMIT_S = 20.0
DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"
CHANNEL = ("--topic=t", "--channel=c")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("nsqlake")
    before = list(root.handlers), root.level, package.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    package.setLevel(before[2])


@pytest.fixture
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        with TcpClient(nsqd.tcp_address) as client:
            client.sub("t", "c")
            client.pub("t", b"x")
        yield nsqd


def test_header_and_as_many_rows_as_wanted(nsqd: NsqdFixture, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*CHANNEL, f"--nsqd-http-address={nsqd.http_address}", "--interval=1ms", "--count=2", "more"])

    output = capsys.readouterr()
    row = "      0       0 |       1       1       0     0     0 |       0       0            1       0"
    assert (code, output.out.splitlines(), output.err) == (0, [*HEADER, row, row], "")


def test_failed_poll_is_one_line_and_no_table(nsqd: NsqdFixture, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--topic=t", "--channel=none", f"--nsqd-http-address={nsqd.http_address}"])

    output = capsys.readouterr()
    text = r"ERROR: failed to find channel\(none\) in stats metadata for topic\(t\)"
    assert (code, output.out) == (1, "")
    assert re.fullmatch(rf"{DATE} {text}\n", output.err)


def test_failed_check_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])

    assert code == 1
    assert re.fullmatch(rf"{DATE} --topic and --channel are required\n", capsys.readouterr().err)


def test_address_that_is_none_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*CHANNEL, "--nsqd-http-address=a:b"])

    assert code == 1
    assert re.fullmatch(rf"{DATE} a:b: invalid host or port\n", capsys.readouterr().err)


def test_bad_flag_is_told_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--count=x"])

    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith(
        'invalid value "x" for flag -count: strconv.ParseInt: parsing "x": invalid syntax\n'
    )
    assert "Usage of nsq_stat:" in error


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--help"])

    output = capsys.readouterr()
    assert (code, output.out) == (0, "")
    assert "nsq_stat --topic=orders --channel=archive --lookupd-http-address=127.0.0.1:4161" in output.err
    assert "--interval duration (default 2s)" in output.err
    assert "--count int\n" in output.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == "nsq_stat v1.3.0\n"


def start(nsqd: NsqdFixture, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nsqlake.apps.nsq_stat", *CHANNEL, *flags]
    command.append(f"--nsqd-http-address={nsqd.http_address}")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_any_of_three_signals_ends_it_at_once(nsqd: NsqdFixture) -> None:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    processes = [start(nsqd, "--interval=1h") for _ in signals]

    for process, number in zip(processes, signals, strict=True):
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)

    for process in processes:
        _, error = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, error) == (0, "")


def test_reader_that_leaves_ends_it_quietly(nsqd: NsqdFixture) -> None:
    process = start(nsqd, "--interval=1ms")
    assert process.stdout is not None
    assert process.stderr is not None

    process.stdout.readline()
    process.stdout.close()

    assert process.wait(LIMIT_S) == 1
    assert process.stderr.read() == ""
    process.stderr.close()
