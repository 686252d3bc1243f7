"""nsqd as a child process: started on a free port, watched, stopped by SIGTERM."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

__all__ = ["ChildNsqd", "choose_port"]

HOST = "127.0.0.1"
NSQ_PORT = 4150

_STOP_LIMIT_S = 30.0
_LISTENING = re.compile(rb"TCP: listening on [^\n]*:(\d+)\n")


def choose_port(port: int = NSQ_PORT) -> int:
    """`port`, or 0 for any free one if somebody has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return 0
    return port


class ChildNsqd:
    """One nsqd with its data in `<directory>/nsqd` and its log in `<directory>/nsqd.log`."""

    def __init__(self, directory: str, port: int) -> None:
        """OSError when the directory cannot be written."""
        self.data_path = Path(directory, "nsqd")
        self.log_path = Path(directory, "nsqd.log")
        self.data_path.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = [f"--data-path={self.data_path}", f"--tcp-address={HOST}:{port}", "--http-address="]
        with self.log_path.open("ab") as log:
            self._log_begin = log.seek(0, os.SEEK_END)
            # A session of its own: Ctrl-C goes to the demo alone, which stops the traffic first.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "nsqlake.apps.nsqd", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def port(self) -> int | None:
        """Where it listens, None until it does."""
        found = _LISTENING.search(self._log())
        return int(found[1]) if found else None

    @property
    def last_line(self) -> str:
        """The end of what it logged, most likely the reason why it stopped."""
        lines = self._log().decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it logged nothing"

    def stop(self) -> int:
        """SIGTERM, and SIGKILL if that takes too long; the exit code."""
        if self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _log(self) -> bytes:
        with self.log_path.open("rb") as log:
            log.seek(self._log_begin)
            return log.read()
