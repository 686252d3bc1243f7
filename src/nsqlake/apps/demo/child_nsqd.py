"""nsqd as a child process: started on a free port, watched, stopped by SIGTERM."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

__all__ = ["HOST", "HTTP_PORT", "NSQ_PORT", "ChildNsqd", "choose_port"]

HOST = "127.0.0.1"
NSQ_PORT = 4150
HTTP_PORT = 4151

_STOP_LIMIT_S = 30.0
_LISTENING = re.compile(rb"(TCP|HTTP): listening on [^\n]*:(\d+)\n")
_RETENTION = "10m"  # what was consumed can be had again for so long


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

    def __init__(self, directory: str, port: int, http_port: int = 0) -> None:
        """OSError when the directory cannot be written."""
        self.data_path = Path(directory, "nsqd")
        self.log_path = Path(directory, "nsqd.log")
        self.data_path.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = [
            f"--data-path={self.data_path}",
            f"--tcp-address={HOST}:{port}",
            f"--http-address={HOST}:{http_port}",
            f"--retention-time={_RETENTION}",
        ]
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
        """Where it listens for clients, None until it does."""
        return self._ports().get(b"TCP")

    @property
    def http_port(self) -> int | None:
        """Where its HTTP API is, None until it is there; it comes last."""
        return self._ports().get(b"HTTP")

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

    def _ports(self) -> dict[bytes, int]:
        return {name: int(port) for name, port in _LISTENING.findall(self._log())}

    def _log(self) -> bytes:
        with self.log_path.open("rb") as log:
            log.seek(self._log_begin)
            return log.read()
