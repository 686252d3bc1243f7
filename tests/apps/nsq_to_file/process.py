"""nsq_to_file in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.fakes.nsqd_process import wait_for

LIMIT_S = 20.0


class ToolProcess:
    """Runs from `with` to its end. Files go to `folder`/out, whose names are `log` and the revision."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.output = folder / "out"
        self._log_path = folder / "tool.log"
        self._command = [
            sys.executable,
            "-m",
            "nsqlake.apps.nsq_to_file",
            f"--output-dir={self.output}",
            "--filename-format=log<REV>",
            *flags,
        ]

    def limit_file_size(self, size_bytes: int) -> Self:
        """Writing more is an error, as on a full disk."""
        # Python ignores SIGXFSZ, so that the write fails with EFBIG.
        self._command = ["prlimit", f"--fsize={size_bytes}", *self._command]
        return self

    def __enter__(self) -> Self:
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        assert self._process.stdout is not None
        assert self._process.stdout.read() == b"", "standard output is for payload, and there is none"
        self._process.stdout.close()
        self._process.wait()

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As a crash does it."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait(LIMIT_S)

    def wait_log(self, text: str) -> None:
        wait_for(lambda: text in self.log or self.exit_code is not None)
        assert text in self.log
