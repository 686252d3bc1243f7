"""The facts without which a figure means nothing: machine, versions, commit."""

import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


def machine_facts(data_root: str | None) -> dict[str, str | int]:
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10**6,
        "kernel": platform.release(),
        "data_filesystem": _filesystem_of(data_root or tempfile.gettempdir()),
        "python": platform.python_version(),
        "commit": _git_commit(),
    }


def version_of(command: Sequence[str]) -> str:
    """The first line a daemon answers to --version."""
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    return (done.stdout or done.stderr).strip().partition("\n")[0] or "unknown"


def _cpu_model() -> str:
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _filesystem_of(path: str) -> str:
    """The type of the longest mount point above `path`: a tmpfs makes every fsync free."""
    real = os.path.realpath(path)
    best_length, best_type = -1, "unknown"
    with open("/proc/mounts") as file:
        for line in file:
            _, mount_point, kind, *_ = line.split()
            inside = real == mount_point or real.startswith(mount_point.rstrip("/") + "/")
            if inside and len(mount_point) >= best_length:
                best_length, best_type = len(mount_point), kind
    return best_type


def _git_commit() -> str:
    root = Path(__file__).resolve().parent.parent
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")
