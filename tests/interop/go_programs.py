"""NSQ's published programs, fetched and built once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.interop.clients import HERE, fetch, require

SOURCE = HERE / "go_tools"
PROGRAMS = ("nsq_stat", "nsq_tail", "nsq_to_file", "nsqadmin", "nsqd", "nsqlookupd", "to_nsq")


class GoPrograms(NamedTuple):
    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)


def build_programs(folder: Path) -> GoPrograms:
    """ClientUnavailableError when Go or the modules cannot be had."""
    require("NSQ's tools", "go", "apt-get install golang-go (1.19 or newer)")
    fetch("NSQ's tools", ["go", "mod", "download"], SOURCE, install="go mod download")
    packages = [f"github.com/nsqio/nsq/apps/{name}" for name in PROGRAMS]
    build = ["go", "build", "-buildvcs=false", "-o", f"{folder}{os.sep}", *packages]
    subprocess.run(build, cwd=SOURCE, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return GoPrograms(folder)
