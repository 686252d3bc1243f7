"""An nsqd in a process of its own, whose memory, processor time and log can be looked at."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Self

from nsqlake.wire import commands
from tests.fakes.tcp_client import TcpClient

LIMIT_S = 20.0


class NsqdProcess:
    """Runs from `with` to its end; `folder` gets its data and its log."""

    def __init__(self, folder: str, *flags: str, max_descriptors: int = 0) -> None:
        self.log_path = os.path.join(folder, "nsqd.log")
        data_path = os.path.join(folder, "data")
        os.makedirs(data_path, exist_ok=True)
        self._command = [
            sys.executable,
            "-m",
            "nsqlake.apps.nsqd",
            "--tcp-address=127.0.0.1:0",
            "--http-address=127.0.0.1:0",
            "--https-address=",
            f"--data-path={data_path}",
            *flags,
        ]
        if max_descriptors:
            self._command = ["sh", "-c", f'ulimit -n {max_descriptors} && exec "$@"', "sh", *self._command]

    def __enter__(self) -> Self:
        with open(self.log_path, "ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(lambda: self._has_address(begin) or self._process.poll() is not None)
            assert self._process.poll() is None, self.log
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            assert self._process.wait(LIMIT_S) in (0, -signal.SIGKILL), self.log
        finally:
            self._process.kill()
            self._process.wait()

    def _has_address(self, begin: int) -> bool:
        self._begin = begin
        self.tcp_address = self._find_address("TCP")
        return bool(self.tcp_address)

    def _find_address(self, protocol: str) -> str:
        found = re.search(rf"{protocol}: listening on (\S+)", self.log[self._begin :])
        return found[1] if found else ""

    @property
    def http_address(self) -> str:
        wait_for(lambda: bool(self._find_address("HTTP")))
        return self._find_address("HTTP")

    def kill(self) -> None:
        """As a crash does it."""
        self._process.kill()
        self._process.wait()

    def connect(self, **options: object) -> TcpClient:
        return TcpClient(self.tcp_address, **options)  # type: ignore[arg-type]

    @property
    def log(self) -> str:
        with open(self.log_path, encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            return file.read()

    @property
    def rss_bytes(self) -> int:
        return self._memory("VmRSS")

    @property
    def peak_rss_bytes(self) -> int:
        """The most since the last `reset_peak`."""
        return self._memory("VmHWM")

    def reset_peak(self) -> None:
        with open(f"/proc/{self._process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def _memory(self, name: str) -> int:
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as file:
            found = re.search(rf"{name}:\s+(\d+) kB", file.read())
        assert found is not None
        return int(found[1]) * 1024

    @property
    def cpu_s(self) -> float:
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def expect_alive(self) -> None:
        """It takes and delivers a message on a new connection."""
        with self.connect() as client:
            client.send(commands.sub("alive#ephemeral", "alive#ephemeral"))
            client.expect_ok()
            client.pub("alive#ephemeral", b"x")
            client.send(commands.rdy(1))
            client.fin(client.message())
            client.expect_nothing_so_far()


def wait_for(condition: Callable[[], bool], limit_s: float = LIMIT_S, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not become true in time"
        time.sleep(pause_s)
