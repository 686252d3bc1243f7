"""An nsqd in a process of its own that tests may kill, stop, freeze and start again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType

START_LIMIT_S = 30.0
STOP_LIMIT_S = 30.0
POLL_S = 0.002
REPOSITORY = Path(__file__).parents[2]

PLAIN = ("nsqlake.apps.nsqd",)

_LISTENING = re.compile(r"TCP: listening on \S+:(\d+)")
_STAMP = re.compile(r"^\S+ (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}) ", re.MULTILINE)


def kills(of_fifty: int) -> int:
    """How often a test kills: so many of fifty, and in proportion more when NSQLAKE_KILLS asks for more."""
    return max(1, round(of_fifty * int(os.environ.get("NSQLAKE_KILLS", "50")) / 50))


class Nsqd:
    """One data path and the daemon on it, if it runs. What every life logged is kept in `logs`."""

    def __init__(self, data_path: Path, *flags: str, program: Sequence[str] = PLAIN) -> None:
        self.data_path = data_path
        self.flags = flags
        self.program = program
        self.port = 0
        self.logs: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file = data_path.with_name(f"{data_path.name}.log")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the last life said, so far."""
        return self._log_file.read_text()

    @property
    def recovery_s(self) -> float:
        """From the daemon's first line to the moment it listens: without Python's own start."""
        before = self.log[: self.log.index("TCP: listening on") + 1]
        stamps = [datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f") for text in _STAMP.findall(before)]  # noqa: DTZ007
        return (stamps[-1] - stamps[0]).total_seconds()

    def spawn(self) -> None:
        """Start without waiting for anything."""
        assert not self.is_running
        command = [sys.executable, "-m", *self.program, *self.flags]
        command += [f"--data-path={self.data_path}", "--tcp-address=127.0.0.1:0", "--http-address="]
        with self._log_file.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=REPOSITORY)

    def start(self) -> Nsqd:
        self.spawn()
        self.port = int(self.wait_for_log(_LISTENING)[1])
        return self

    def wait_for_log(self, pattern: str | re.Pattern[str], limit_s: float = START_LIMIT_S) -> re.Match[str]:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            is_running = self.is_running
            if found := re.search(pattern, self.log):
                return found
            if not is_running:
                break
            time.sleep(POLL_S)
        raise AssertionError(f"nsqd did not log {pattern!r} but:\n{self.log}")

    def wait_until_ended(self, limit_s: float = STOP_LIMIT_S) -> int:
        """The exit code."""
        assert self._process is not None
        code = self._process.wait(limit_s)
        self.logs.append(self.log)
        return code

    def kill(self) -> None:
        """kill -9: the daemon has no say."""
        self.signal(signal.SIGKILL)
        self.wait_until_ended()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_until_ended()

    def restart(self) -> Nsqd:
        """Start again after a kill or a stop."""
        return self.start()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def close(self) -> None:
        """Whatever the test did, no process is left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._log_file.exists():
            print(f"nsqd on {self.data_path} logged in its last life:\n{self.log}")

    def __enter__(self) -> Nsqd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
