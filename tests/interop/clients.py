"""How each published client is fetched and turned into a command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".venv" / "interop"
FETCH_LIMIT_SECONDS = 180


class ClientUnavailableError(Exception):
    """The toolchain or the packages of a client cannot be had on this machine."""

    def __init__(self, client: str, reason: str, install: str) -> None:
        super().__init__(f"{client}: {reason}; to install: {install}")
        self.client, self.reason, self.install = client, reason, install


class Client(NamedTuple):
    name: str
    prepare: Callable[[Path], list[str]]  # the command to start, or ClientUnavailableError


Prepare = Callable[[Client], list[str] | ClientUnavailableError]


def _prepare_go_nsq(folder: Path) -> list[str]:
    source, binary = HERE / "go_nsq", folder / "go_nsq"
    install = "apt-get install golang-go (1.18 or newer)"
    require("go-nsq", "go", install)
    fetch("go-nsq", ["go", "mod", "download"], source, install="go mod download")
    build = ["go", "build", "-buildvcs=false", "-o", str(binary), "."]
    without_c_compiler = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(build, cwd=source, check=True, env=without_c_compiler)
    return [str(binary)]


def _prepare_nsqjs(folder: Path) -> list[str]:
    source, copy = HERE / "nsqjs", folder / "nsqjs"
    install = "apt-get install nodejs npm (Node 18 or newer)"
    require("nsqjs", "node", install)
    require("nsqjs", "npm", install)
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("node_modules"))
    fetch("nsqjs", ["npm", "ci", "--no-audit", "--no-fund"], copy, install="npm ci")
    return ["node", str(copy / "client.js")]


def _prepare_pynsq(_folder: Path) -> list[str]:
    requirements = HERE / "pynsq" / "requirements.txt"
    environment = CACHE / "pynsq"
    python, installed = environment / "bin" / "python", environment / "installed.txt"
    if not installed.exists() or installed.read_text() != requirements.read_text():
        venv = [sys.executable, "-m", "venv", "--clear", str(environment)]
        fetch("pynsq", venv, HERE, install="apt-get install python3-venv")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        fetch("pynsq", [*pip, "-r", str(requirements)], HERE, install=f"pip install -r {requirements.name}")
        installed.write_text(requirements.read_text())
    return [str(python), str(HERE / "pynsq" / "client.py")]


def require(client: str, tool: str, install: str) -> None:
    if shutil.which(tool) is None:
        raise ClientUnavailableError(client, f"{tool} is not installed", install)


def fetch(client: str, command: list[str], folder: Path, *, install: str) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=FETCH_LIMIT_SECONDS
        )
    except subprocess.CalledProcessError as error:
        reason = f"`{' '.join(command[:3])}` failed: {error.stderr[-500:]}"
        raise ClientUnavailableError(client, reason, install) from error
    except subprocess.TimeoutExpired as error:
        reason = f"`{' '.join(command[:3])}` took over {FETCH_LIMIT_SECONDS} s"
        raise ClientUnavailableError(client, reason, install) from error


CLIENTS = (
    Client("go-nsq", _prepare_go_nsq),
    Client("nsqjs", _prepare_nsqjs),
    Client("pynsq", _prepare_pynsq),
)
