import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from nsqlake import __version__
from nsqlake.apps.demo.traffic import CHANNEL, TOPIC
from nsqlake.apps.nsqlake import main
from tests.fakes.http_connection import HttpConnection
from tests.fakes.tcp_client import TcpClient
from tests.integration.support import eventually

STOP_LIMIT_S = 30
COMMANDS = (
    "nsqd",
    "nsqlookupd",
    "nsq_tail",
    "nsq_stat",
    "nsq_to_file",
    "nsq_to_http",
    "nsq_to_nsq",
    "to_nsq",
)


@contextmanager
def running_demo(data_path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "nsqlake.apps.nsqlake", "demo", f"--data-path={data_path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(STOP_LIMIT_S)


def read_until(process: "subprocess.Popen[str]", pattern: str) -> re.Match[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"the demo did not print {pattern!r}")


def has_finished_some(http: HttpConnection) -> bool:
    topics = http.get_json(f"/stats?format=json&topic={TOPIC}&channel={CHANNEL}")["topics"] or []
    clients = [client for topic in topics for channel in topic["channels"] for client in channel["clients"]]
    return any(client["finish_count"] for client in clients)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_messages_flow_in_the_demo_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    with running_demo(tmp_path / "new") as demo:
        guide = r"listens on (127\.0\.0\.1:\d+) \(process (\d+)\), its HTTP API on (127\.0\.0\.1:\d+)\."
        address, pid, api = read_until(demo, guide).groups()
        with TcpClient(address) as client, HttpConnection(api) as http:
            client.sub(TOPIC, "test#ephemeral", rdy=1)
            line = client.message().body
            eventually(lambda: has_finished_some(http))

        demo.send_signal(number)
        output, errors = demo.communicate(timeout=STOP_LIMIT_S)

    assert (demo.returncode, errors) == (0, "")
    assert len(line.split(b",")) >= 14
    published, finished = re.findall(r"^published (\d+), finished (\d+)$", output, re.MULTILINE)[0]
    assert int(published) >= int(finished) > 0
    assert "stopped; what is not finished yet is kept" in output
    assert "NSQ: bye" in (tmp_path / "new" / "nsqd.log").read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_what_the_demo_tells_to_try_works(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        commands = [read_until(demo, r"^  \w+ +(curl .*)\n").group(1) for _ in range(5)]

        for command in commands:
            curl, *flags, url = shlex.split(command)
            address, _, target = url.removeprefix("http://").partition("/")
            with HttpConnection(address) as http:
                asking = partial(http.ask, "POST" if flags else "GET", f"/{target}", b"world")
                eventually(lambda: asking().status == 200)  # noqa: B023 - asked before the next one
            assert curl == "curl"


def test_a_demo_whose_nsqd_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "nsqd").mkdir()
    (tmp_path / "nsqd" / "nsqd.dat").write_text("{}")

    with running_demo(tmp_path) as demo:
        _, errors = demo.communicate(timeout=STOP_LIMIT_S)

    assert demo.returncode == 1
    assert errors.startswith("nsqlake demo: nsqd stopped with exit code 1: ")
    assert "holds files of the Go nsqd" in errors


def test_a_demo_whose_nsqd_is_killed_ends_too(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        (pid,) = read_until(demo, r"\(process (\d+)\)").groups()

        os.kill(int(pid), signal.SIGKILL)
        _, errors = demo.communicate(timeout=STOP_LIMIT_S)

    assert demo.returncode == 1
    assert errors.startswith("nsqlake demo: ")


def test_a_data_path_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with running_demo(tmp_path / "file") as demo:
        _, errors = demo.communicate(timeout=STOP_LIMIT_S)

    assert demo.returncode == 1
    assert errors == f"nsqlake demo: cannot write to {tmp_path / 'file'}: Not a directory\n"


def test_help_names_the_daemons_and_the_tools(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])

    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in shown] == []


def test_the_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"nsqlake {__version__} (NSQ ")


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["demo", "--rate=0"], ["demo", "--rate=many"]])
def test_a_wrong_command_line_ends_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)

    assert stopped.value.code == 2
    assert "usage: nsqlake" in capsys.readouterr().err
