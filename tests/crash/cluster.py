"""nsqlookupds and nsqds in processes of their own, which are killed and come back at their addresses."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fakes.lookupd_process import LookupdProcess
from tests.fakes.nsqd_process import NsqdProcess

# Below those that the system gives to outgoing connections, so that nobody takes one while its owner is dead.
PORTS = range(20_000, 32_000)
LIMIT_S = 5.0


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


def ask(http_address: str, target: str, method: str = "GET") -> Any:
    """The answer, or None when nobody gives one."""
    request = urllib.request.Request(f"http://{http_address}{target}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            text = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    return json.loads(text) if text else {}


class Lookupd:
    """One nsqlookupd."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.tcp_address, self.http_address = (f"127.0.0.1:{port}" for port in free_ports(2))
        flags = [f"--tcp-address={self.tcp_address}", f"--http-address={self.http_address}"]
        self.process = LookupdProcess(str(folder), *flags)

    def nsqds(self, topic: str) -> set[str]:
        """Addresses of those that it lists."""
        answer = ask(self.http_address, f"/lookup?topic={topic}") or {"producers": []}
        return {f"{each['broadcast_address']}:{each['tcp_port']}" for each in answer["producers"]}


class Nsqd:
    """One nsqd that announces itself to all `lookupds`."""

    def __init__(self, folder: Path, lookupds: list[Lookupd]) -> None:
        folder.mkdir()
        self.tcp_address, self.http_address = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.process = NsqdProcess(
            str(folder),
            f"--tcp-address={self.tcp_address}",
            f"--http-address={self.http_address}",
            "--broadcast-address=127.0.0.1",
            "--msg-timeout=5s",
            *(f"--lookupd-tcp-address={each.tcp_address}" for each in lookupds),
        )

    def create(self, topic: str, *channels: str) -> None:
        for channel in channels:
            target = f"/channel/create?topic={topic}&channel={channel}"
            assert ask(self.http_address, f"/topic/create?topic={topic}", "POST") is not None
            assert ask(self.http_address, target, "POST") is not None

    def channels(self, topic: str) -> dict[str, dict[str, Any]]:
        stats = ask(self.http_address, f"/stats?format=json&topic={topic}")
        return {channel["channel_name"]: channel for channel in stats["topics"][0]["channels"]}


class Cluster:
    def __init__(self, lookupds: list[Lookupd], nsqds: list[Nsqd]) -> None:
        self.lookupds, self.nsqds = lookupds, nsqds

    def is_announced(self, topic: str) -> bool:
        addresses = {nsqd.tcp_address for nsqd in self.nsqds}
        return all(lookupd.nsqds(topic) == addresses for lookupd in self.lookupds)


@contextlib.contextmanager
def running(folder: Path, *, lookupds: int, nsqds: int) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        finders = [Lookupd(folder / f"lookupd-{number}") for number in range(lookupds)]
        for lookupd in finders:
            stack.enter_context(lookupd.process)
        brokers = [Nsqd(folder / f"nsqd-{number}", finders) for number in range(nsqds)]
        for nsqd in brokers:
            stack.enter_context(nsqd.process)
        yield Cluster(finders, brokers)
