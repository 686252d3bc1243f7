"""An nsqd in a process of its own, ours unless NSQLAKE_INTEROP_NSQD names another."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes.certificates import CertificateAuthority

START_LIMIT_SECONDS = 20
STOP_LIMIT_SECONDS = 20


class Broker(NamedTuple):
    tcp_address: str
    http_address: str
    ca_file: str

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.http_address}/stats?format=json", timeout=5) as answer:
            stats: dict[str, Any] = json.load(answer)
        return stats

    def topics(self, prefix: str) -> dict[str, dict[str, Any]]:
        return {
            topic["topic_name"]: topic
            for topic in self.stats()["topics"]
            if topic["topic_name"].startswith(prefix)
        }


@contextlib.contextmanager
def running_nsqd(folder: Path) -> Iterator[Broker]:
    authority = CertificateAuthority(str(folder / "certificates"))
    server = authority.issue_server()
    data_path, log = folder / "data", folder / "nsqd.log"
    data_path.mkdir()
    other_nsqd = shlex.split(os.environ.get("NSQLAKE_INTEROP_NSQD", ""))
    command = [
        *(other_nsqd or [sys.executable, "-m", "nsqlake.apps.nsqd"]),
        "--tcp-address=127.0.0.1:0",
        "--http-address=127.0.0.1:0",
        "--https-address=127.0.0.1:0",
        f"--data-path={data_path}",
        f"--tls-cert={server.cert_file}",
        f"--tls-key={server.key_file}",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            tcp, http = (_listening(process, log, protocol) for protocol in ("TCP", "HTTP"))
            yield Broker(tcp, http, authority.ca_file)
        finally:
            _stop(process)


def _listening(process: subprocess.Popen[bytes], log: Path, protocol: str) -> str:
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while time.monotonic() < deadline:
        if found := re.search(rf"\b{protocol}: listening on (\S+)", log.read_text()):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"nsqd did not listen for {protocol}, it wrote:\n{log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
