"""Our command-line tools with NSQ's own nsqd and nsqlookupd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.go_daemons import GoLookupd, GoNsqd, Start
from tests.interop.go_processes import LIMIT_S, Running

pytestmark = pytest.mark.interop

TOPIC, CHANNEL = "orders", "archive"
BODIES = [b"message %d" % number for number in range(300)]


@pytest.fixture
def lookupd(start: Start) -> GoLookupd:
    return GoLookupd(start)


@pytest.fixture
def nsqd(start: Start, tmp_path: Path, lookupd: GoLookupd) -> GoNsqd:
    nsqd = GoNsqd(start, tmp_path / "nsqd", f"--lookupd-tcp-address={lookupd.tcp_address}")
    nsqd.create(TOPIC, CHANNEL)
    lookupd.wait_listed(TOPIC)
    return nsqd


def command(tool: str, *flags: str) -> list[str]:
    return [sys.executable, "-m", f"nsqlake.apps.{tool}", f"--topic={TOPIC}", *flags]


def run(tool: str, *flags: str, text: bytes = b"") -> bytes:
    """What it writes, once it has ended by itself."""
    return subprocess.run(
        command(tool, *flags), input=text, capture_output=True, timeout=LIMIT_S, check=True
    ).stdout


@pytest.fixture
def start_tool(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start_tool(tool: str, *flags: str) -> Running:
        started.append(Running(command(tool, *flags), tmp_path / f"our_{tool}.log"))
        return started[-1]

    yield start_tool
    for running in started:
        running.stop()


def publish(nsqd: GoNsqd, *bodies: bytes) -> None:
    nsqd.post(f"/mpub?topic={TOPIC}", b"\n".join(bodies))


def test_to_nsq_publishes_what_it_reads(nsqd: GoNsqd) -> None:
    run("to_nsq", f"--nsqd-tcp-address={nsqd.tcp_address}", text=b"one\ntwo\nthree\n")

    assert nsqd.channel(TOPIC, CHANNEL)["depth"] == 3


def test_nsq_tail_shows_what_it_finds_through_nsqlookupd(nsqd: GoNsqd, lookupd: GoLookupd) -> None:
    publish(nsqd, *BODIES)

    flags = (f"--channel={CHANNEL}", f"-n={len(BODIES)}", f"--lookupd-http-address={lookupd.http_address}")
    shown = run("nsq_tail", *flags)

    assert sorted(shown.splitlines()) == sorted(BODIES)
    nsqd.wait_empty(TOPIC, CHANNEL)


def test_nsq_to_file_writes_every_message(
    nsqd: GoNsqd, lookupd: GoLookupd, start_tool: Callable[..., Running], tmp_path: Path
) -> None:
    publish(nsqd, *BODIES)

    folder = tmp_path / "files"
    flags = (f"--channel={CHANNEL}", f"--output-dir={folder}", "--sync-interval=200ms")
    archiver = start_tool("nsq_to_file", *flags, f"--lookupd-http-address={lookupd.http_address}")
    nsqd.wait_empty(TOPIC, CHANNEL)
    archiver.stop()

    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    assert sorted(lines) == sorted(BODIES)
    assert archiver.process.returncode == 0, archiver.output


def test_nsq_to_nsq_copies_every_message(
    nsqd: GoNsqd, lookupd: GoLookupd, start_tool: Callable[..., Running]
) -> None:
    nsqd.create("copies", CHANNEL)
    publish(nsqd, *BODIES)

    to = (f"--destination-nsqd-tcp-address={nsqd.tcp_address}", "--destination-topic=copies")
    copier = start_tool(
        "nsq_to_nsq", f"--channel={CHANNEL}", f"--lookupd-http-address={lookupd.http_address}", *to
    )
    nsqd.wait_empty(TOPIC, CHANNEL)
    copier.stop()

    assert nsqd.channel("copies", CHANNEL)["depth"] == len(BODIES)
    assert copier.process.returncode == 0, copier.output


@pytest.mark.parametrize("kind", ["lookupd", "nsqd"])
def test_nsq_stat_shows_the_depth(kind: str, nsqd: GoNsqd, lookupd: GoLookupd) -> None:
    publish(nsqd, b"1", b"2", b"3")

    address = {"lookupd": lookupd.http_address, "nsqd": nsqd.http_address}[kind]
    flags = (f"--channel={CHANNEL}", f"--{kind}-http-address={address}", "--interval=100ms", "--count=2")
    shown = run("nsq_stat", *flags).decode()

    _rates, depths, metadata = shown.splitlines()[-1].split("|")
    assert depths.split() == ["3", "3", "0", "0", "0"]
    assert metadata.split() == ["0", "0", "3", "0"]
