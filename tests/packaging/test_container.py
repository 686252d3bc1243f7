"""The Dockerfile, read as text: what it starts has to be what there is."""

import json
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.go_flags import parse_flags
from tests.architecture.source import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
FINAL = TEXT.rpartition("\nFROM ")[2]


def instruction(name: str) -> str:
    return re.findall(rf"^{name} +(.*)$", FINAL, re.MULTILINE)[-1]


def test_the_entry_point_is_our_command_with_flags_it_knows() -> None:
    program, *flags = json.loads(instruction("ENTRYPOINT"))

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    parsed = parse_flags(NsqdOptions, flags)
    assert program in scripts
    assert (parsed.values, parsed.arguments) == ({"data_path": instruction("VOLUME")}, [])


def test_the_flags_of_the_examples_are_known() -> None:
    examples = re.findall(r"nsqlake (--\S+)", "\n".join(re.findall(r"^#.*", TEXT, re.MULTILINE)))

    assert parse_flags(NsqdOptions, examples).values.keys() == {"broadcast_address"}


def test_the_ports_are_the_default_ones() -> None:
    options = NsqdOptions()

    addresses = (options.tcp_address, options.http_address, options.https_address)
    assert instruction("EXPOSE").split() == [address.rpartition(":")[2] for address in addresses]


def test_it_does_not_run_as_root_and_owns_only_its_data() -> None:
    user = instruction("USER")

    assert user not in ("root", "0")
    assert f"install -d -o {user} -g {user} -m 0700 {instruction('VOLUME')}" in instruction("RUN")
    assert FINAL.index("\nUSER ") > FINAL.index("\nRUN ")


@pytest.mark.parametrize(("status", "code"), [(b"200 OK", 0), (b"500 Internal Server Error", 1)])
def test_the_health_check_follows_ping(status: bytes, code: int) -> None:
    program, *arguments = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert program == "python"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/ping"
        probe = subprocess.Popen(
            [sys.executable, *arguments], env={"NSQD_PING_URL": url}, stderr=subprocess.DEVNULL
        )
        connection, _address = server.accept()
        with connection:
            request = connection.recv(4096)
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nOK")

    assert request.startswith(b"GET /ping ")
    assert probe.wait(30) == code
    assert "NSQD_PING_URL=http://127.0.0.1:4151/ping" in instruction("ENV")


def test_what_the_build_copies_exists_and_is_not_ignored() -> None:
    sources = re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    for name in " ".join(sources).split():
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    assert "*" in ignored


def test_a_builder_accepts_the_file(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("there is no docker here")
    checked = subprocess.run(
        [docker, "build", "--check", str(ROOT)], capture_output=True, text=True, timeout=60, check=False
    )
    if checked.returncode and re.search(r"daemon|buildx|unknown flag|resolve|lookup|dial", checked.stderr):
        pytest.skip(f"docker cannot check here: {checked.stderr.strip().splitlines()[-1]}")

    assert checked.returncode == 0, checked.stdout + checked.stderr
