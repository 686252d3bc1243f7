"""wrk as a load generator: starts it, reads its report, and refuses figures that hide errors."""

import os
import re
import resource
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from bench.load.errors import LoadError

MISSING = "wrk is not installed: apt-get install wrk, or brew install wrk"
SCRIPT = """\
local file = assert(io.open(os.getenv("BENCH_BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/octet-stream"
file:close()
"""
_RATE = re.compile(r"^Requests/sec:\s+([0-9.]+)", re.MULTILINE)
_P99 = re.compile(r"^\s+99%\s+([0-9.]+)(us|ms|s)$", re.MULTILINE)
_FAULTS = re.compile(r"^\s*(Non-2xx.*|Socket errors:.*)$", re.MULTILINE)
_MS_PER_UNIT = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True, slots=True)
class WrkReport:
    requests_per_second: float
    p99_ms: float
    cpu_seconds: float


def run_wrk(url: str, body: bytes, *, connections: int, threads: int, seconds: float) -> WrkReport:
    program = shutil.which("wrk")
    if program is None:
        raise LoadError(MISSING)
    with tempfile.TemporaryDirectory(prefix="nsqlake-wrk-") as folder:
        paths = [os.path.join(folder, name) for name in ("post.lua", "body")]
        for path, content in zip(paths, (SCRIPT.encode(), body), strict=True):
            with open(path, "wb") as file:
                file.write(content)
        # wrk takes whole seconds only.
        command = [program, f"-t{threads}", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--latency"]
        before = _children_cpu_seconds()
        done = subprocess.run(
            [*command, "-s", paths[0], url],
            env={**os.environ, "BENCH_BODY": paths[1]},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise LoadError(f"wrk failed: {done.stderr.strip() or done.stdout.strip()}")
    return parse_report(done.stdout, _children_cpu_seconds() - before)


def parse_report(text: str, cpu_seconds: float = 0.0) -> WrkReport:
    rate, p99 = _RATE.search(text), _P99.search(text)
    if fault := _FAULTS.search(text):
        raise LoadError(f"wrk reports {fault[1].strip()}")
    if rate is None or p99 is None:
        raise LoadError(f"wrk reported no rate:\n{text}")
    return WrkReport(float(rate[1]), float(p99[1]) * _MS_PER_UNIT[p99[2]], cpu_seconds)


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
