"""NSQ's own nsqd, console and consumers, as published, with our nsqlookupd."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.lookupd_process import LookupdProcess
from tests.fakes.nsqd_process import wait_for
from tests.interop.go_daemons import GoNsqd, Start
from tests.interop.go_processes import LIMIT_S, fetch
from tests.interop.go_programs import GoPrograms

pytestmark = pytest.mark.interop


@pytest.fixture
def lookupd(tmp_path: Path) -> Iterator[LookupdProcess]:
    with LookupdProcess(str(tmp_path), "--tombstone-lifetime=1h") as process:
        yield process


@pytest.fixture
def go_nsqd(start: Start, tmp_path: Path, lookupd: LookupdProcess) -> GoNsqd:
    return GoNsqd(start, tmp_path / "go_nsqd", f"--lookupd-tcp-address={lookupd.tcp_address}")


def ask(lookupd: LookupdProcess, target: str) -> Any:
    return fetch(lookupd.http_address, target)


def test_a_go_nsqd_announces_and_takes_back_its_topics(lookupd: LookupdProcess, go_nsqd: GoNsqd) -> None:
    go_nsqd.post("/topic/create?topic=orders")
    go_nsqd.post("/channel/create?topic=orders&channel=archive")
    wait_for(lambda: ask(lookupd, "/channels?topic=orders")["channels"] == ["archive"])
    (producer,) = ask(lookupd, "/lookup?topic=orders")["producers"]
    assert f"{producer['broadcast_address']}:{producer['tcp_port']}" == go_nsqd.tcp_address

    go_nsqd.post("/topic/delete?topic=orders")

    wait_for(lambda: ask(lookupd, "/lookup?topic=orders")["producers"] == [])
    go_nsqd.process.stop()
    wait_for(lambda: ask(lookupd, "/nodes")["producers"] == [])


def test_a_go_nsqd_begins_a_topic_with_the_channels_it_has_elsewhere(
    lookupd: LookupdProcess, go_nsqd: GoNsqd
) -> None:
    fetch(lookupd.http_address, "/channel/create?topic=orders&channel=archive", method="POST")

    wait_for(lambda: len(ask(lookupd, "/nodes")["producers"]) == 1)
    go_nsqd.post("/pub?topic=orders", b"one")

    stats = fetch(go_nsqd.http_address, "/stats?format=json&topic=orders")
    assert [channel["channel_name"] for channel in stats["topics"][0]["channels"]] == ["archive"]


def test_a_go_consumer_finds_a_go_nsqd(
    lookupd: LookupdProcess, go_nsqd: GoNsqd, programs: GoPrograms
) -> None:
    go_nsqd.post("/topic/create?topic=orders")
    go_nsqd.post("/channel/create?topic=orders&channel=archive")
    go_nsqd.post("/mpub?topic=orders", b"one\ntwo")
    wait_for(lambda: ask(lookupd, "/channels?topic=orders")["channels"] == ["archive"])

    command = [programs.path("nsq_tail"), "--topic=orders", "--channel=archive", "-n", "2"]
    tail = subprocess.run(
        [*command, f"--lookupd-http-address={lookupd.http_address}"],
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )

    assert sorted(tail.stdout.split()) == [b"one", b"two"]


def test_the_go_console_shows_and_administers_through_our_lookupd(
    lookupd: LookupdProcess, go_nsqd: GoNsqd, start: Start
) -> None:
    go_nsqd.post("/topic/create?topic=orders")
    go_nsqd.post("/channel/create?topic=orders&channel=archive")
    wait_for(lambda: ask(lookupd, "/channels?topic=orders")["channels"] == ["archive"])
    nsqadmin = start(
        "nsqadmin", f"--lookupd-http-address={lookupd.http_address}", "--http-address=127.0.0.1:0"
    )
    admin = nsqadmin.wait_listening("HTTP")

    assert fetch(admin, "/api/topics")["topics"] == ["orders"]
    (node,) = fetch(admin, "/api/nodes")["nodes"]
    name = f"{node['broadcast_address']}:{node['http_port']}"
    assert (name, node["topics"]) == (go_nsqd.http_address, [{"topic": "orders", "tombstoned": False}])
    fetch(lookupd.http_address, f"/topic/tombstone?topic=orders&node={name}", method="POST")
    assert fetch(admin, "/api/nodes")["nodes"][0]["topics"] == [{"topic": "orders", "tombstoned": True}]
    fetch(admin, f"/api/nodes/{name}", method="DELETE", body=b'{"topic":"orders"}')
    wait_for(lambda: not fetch(admin, "/api/nodes")["nodes"][0]["topics"])
    fetch(admin, "/api/topics", method="POST", body=b'{"topic":"made","channel":"here"}')
    assert ask(lookupd, "/channels?topic=made")["channels"] == ["here"]
    fetch(admin, "/api/topics/made", method="DELETE")
    assert ask(lookupd, "/topics")["topics"] == ["orders"]
