"""Starts an nsqd on free ports and a fresh data path, and reads what it costs from /proc."""

import collections
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from bench.load.connection import Address
from bench.load.errors import LoadError

START_SECONDS = 30
LISTENING = re.compile(r"\b(TCP|HTTP): listening on (\S+):(\d+)")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
IDLE_SLICE_SECONDS = 0.1
IDLE_SHARE = 0.1
IDLE_LIMIT_SECONDS = 10.0


class Broker:
    """A running nsqd; leaving the `with` block kills it and removes its data, which nobody will miss."""

    def __init__(self, command: Sequence[str], flags: Sequence[str], data_root: str | None) -> None:
        self.address: Address = ("", 0)
        self._directory = tempfile.TemporaryDirectory(prefix="nsqlake-bench-", dir=data_root)
        addresses = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]
        self._arguments = [*command, *addresses, f"--data-path={self._directory.name}", *flags]
        self._tail: collections.deque[str] = collections.deque(maxlen=20)
        self._listening = threading.Event()
        self._http_address: Address = ("", 0)
        self._listening_http = threading.Event()

    def __enter__(self) -> Self:
        self._process = self._start()
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        self._listening.wait(START_SECONDS)
        if not self.address[1]:
            self._stop()
            raise LoadError(f"{' '.join(self._arguments)} does not listen:\n{''.join(self._tail)}")
        return self

    def _start(self) -> subprocess.Popen[str]:
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        try:
            return subprocess.Popen(self._arguments, stdin=quiet, stdout=quiet, stderr=pipe, text=True)
        except OSError as error:
            self._directory.cleanup()
            raise LoadError(f"cannot start {self._arguments[0]}: {error.strerror}") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._directory.cleanup()

    def _read_log(self, log: IO[str]) -> None:
        with log:
            for line in log:
                self._tail.append(line)
                if match := LISTENING.search(line):
                    self._note(match[1], (match[2], int(match[3])))
        self._listening.set()
        self._listening_http.set()

    def _note(self, listener: str, address: Address) -> None:
        if listener == "TCP":
            self.address = address
            self._listening.set()
        else:
            self._http_address = address
            self._listening_http.set()

    @property
    def http_address(self) -> Address:
        self._listening_http.wait(START_SECONDS)
        if not self._http_address[1]:
            raise LoadError(f"{self._arguments[0]} has no HTTP listener")
        return self._http_address

    def cpu_seconds(self) -> float:
        with open(f"/proc/{self._process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        user_ticks, system_ticks = int(fields[11]), int(fields[12])
        return (user_ticks + system_ticks) / CLOCK_TICKS

    def rss_bytes(self) -> int:
        with open(f"/proc/{self._process.pid}/status") as file:
            kilobytes = [int(line.split()[1]) for line in file if line.startswith("VmRSS:")]
        if not kilobytes:
            raise LoadError(f"the broker died:\n{''.join(self._tail)}")
        return kilobytes[0] * 1024

    def wait_idle(self) -> None:
        """Let it finish what it does in the background, such as moving a backlog from topic to channel."""
        give_up_at = time.monotonic() + IDLE_LIMIT_SECONDS
        used, quiet_slices = self.cpu_seconds(), 0
        while quiet_slices < 2 and time.monotonic() < give_up_at:
            time.sleep(IDLE_SLICE_SECONDS)
            before, used = used, self.cpu_seconds()
            quiet_slices = quiet_slices + 1 if used - before < IDLE_SHARE * IDLE_SLICE_SECONDS + 1e-9 else 0
