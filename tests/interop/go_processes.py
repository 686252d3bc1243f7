"""NSQ's programs in processes of their own, and questions to their HTTP APIs."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.fakes.nsqd_process import wait_for

LIMIT_S = 20.0


class Running:
    """A program of NSQ's in a process of its own."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    @property
    def output(self) -> str:
        return self._log.read_text()

    def wait_listening(self, protocol: str) -> str:
        pattern = rf"\b{protocol}: listening on (\S+)"
        wait_for(lambda: re.search(pattern, self.output) is not None or self.process.poll() is not None)
        found = re.search(pattern, self.output)
        assert found is not None, self.output
        return found[1]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
            self.process.wait()


def fetch(address: str, path: str, *, method: str = "GET", body: bytes | None = None) -> Any:
    request = urllib.request.Request(f"http://{address}{path}", data=body, method=method)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        text = answer.read()
    return json.loads(text) if text else None
