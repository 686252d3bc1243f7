"""NSQ's own tools and console, as published, against our nsqd."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.interop.go_processes import LIMIT_S, Running, fetch
from tests.interop.go_programs import GoPrograms

pytestmark = pytest.mark.interop


@pytest.fixture
def nsqd(tmp_path: Path) -> Iterator[NsqdProcess]:
    (tmp_path / "nsqd").mkdir()
    with NsqdProcess(str(tmp_path / "nsqd"), "--broadcast-address=127.0.0.1") as process:
        yield process


def publish(nsqd: NsqdProcess, *bodies: bytes) -> None:
    with nsqd.connect() as producer:
        producer.pub("orders", *bodies)


def channel_of(nsqd: NsqdProcess) -> dict[str, Any]:
    stats = fetch(nsqd.http_address, "/stats?format=json&topic=orders&channel=archive")
    channel: dict[str, Any] = stats["topics"][0]["channels"][0]
    return channel


def subscribe(nsqd: NsqdProcess) -> None:
    fetch(nsqd.http_address, "/topic/create?topic=orders", method="POST")
    fetch(nsqd.http_address, "/channel/create?topic=orders&channel=archive", method="POST")


def test_nsq_stat_shows_the_depth(nsqd: NsqdProcess, programs: GoPrograms) -> None:
    subscribe(nsqd)
    publish(nsqd, b"1", b"2", b"3")

    flags = ["--topic=orders", "--channel=archive", f"--nsqd-http-address={nsqd.http_address}"]
    command = [programs.path("nsq_stat"), *flags, "--interval=100ms", "--count=2"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

    _rates, depths, metadata = shown.splitlines()[-1].split("|")
    assert depths.split() == ["3", "3", "0", "0", "0"]
    assert metadata.split() == ["0", "0", "3", "0"]


def test_nsq_to_file_writes_every_message(
    nsqd: NsqdProcess, start: Callable[..., Running], tmp_path: Path
) -> None:
    bodies = [b"message %d" % number for number in range(500)]
    subscribe(nsqd)
    publish(nsqd, *bodies)

    folder = tmp_path / "files"
    flags = [f"--nsqd-tcp-address={nsqd.tcp_address}", f"--output-dir={folder}", "--sync-interval=200ms"]
    archiver = start("nsq_to_file", "--topic=orders", "--channel=archive", *flags)
    wait_for(lambda: channel_of(nsqd)["depth"] + channel_of(nsqd)["in_flight_count"] == 0)
    archiver.stop()

    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    assert sorted(lines) == sorted(bodies)


def test_nsqadmin_shows_and_administers_our_nsqd(nsqd: NsqdProcess, start: Callable[..., Running]) -> None:
    subscribe(nsqd)
    publish(nsqd, b"1", b"2")

    nsqadmin = start("nsqadmin", f"--nsqd-http-address={nsqd.http_address}", "--http-address=127.0.0.1:0")
    admin = nsqadmin.wait_listening("HTTP")

    assert fetch(admin, "/api/topics")["topics"] == ["orders"]
    topic = fetch(admin, "/api/topics/orders")
    assert (topic["message_count"], topic["channels"][0]["depth"]) == (2, 2)
    node = fetch(admin, "/api/nodes")["nodes"][0]
    assert f"{node['broadcast_address']}:{node['http_port']}" == nsqd.http_address
    fetch(admin, "/api/topics/orders/archive", method="POST", body=b'{"action":"pause"}')
    assert channel_of(nsqd)["paused"] is True
    fetch(admin, "/api/topics/orders/archive", method="POST", body=b'{"action":"empty"}')
    assert channel_of(nsqd)["depth"] == 0
    fetch(admin, "/api/topics/orders", method="DELETE")
    assert fetch(nsqd.http_address, "/stats?format=json")["topics"] == []


def test_to_nsq_publishes_what_it_reads(nsqd: NsqdProcess, programs: GoPrograms) -> None:
    subscribe(nsqd)

    command = [programs.path("to_nsq"), "--topic=orders", f"--nsqd-tcp-address={nsqd.tcp_address}"]
    subprocess.run(command, input=b"one\ntwo\nthree\n", capture_output=True, timeout=LIMIT_S, check=True)

    assert channel_of(nsqd)["depth"] == 3


def test_consumers_find_our_nsqd_through_nsqlookupd(
    start: Callable[..., Running], programs: GoPrograms, tmp_path: Path
) -> None:
    lookupd = start("nsqlookupd", "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
    tcp, http = lookupd.wait_listening("TCP"), lookupd.wait_listening("HTTP")
    (tmp_path / "nsqd").mkdir()
    flags = ("--broadcast-address=127.0.0.1", f"--lookupd-tcp-address={tcp}")
    with NsqdProcess(str(tmp_path / "nsqd"), *flags) as nsqd:
        subscribe(nsqd)
        publish(nsqd, b"one", b"two")
        wait_for(lambda: b"archive" in _lookup(http))

        command = [programs.path("nsq_tail"), "--topic=orders", "--channel=archive", "-n", "2"]
        tail = subprocess.run(
            [*command, f"--lookupd-http-address={http}"],
            capture_output=True,
            timeout=LIMIT_S,
            check=True,
        )

        assert sorted(tail.stdout.split()) == [b"one", b"two"]


def _lookup(http: str) -> bytes:
    try:
        with urllib.request.urlopen(f"http://{http}/lookup?topic=orders", timeout=LIMIT_S) as answer:
            found: bytes = answer.read()
    except urllib.error.HTTPError:
        return b""
    return found
