"""NSQ's own nsqd and nsqlookupd, on ports of their own."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.nsqd_process import wait_for
from tests.interop.go_processes import LIMIT_S, Running, fetch

Start = Callable[..., Running]

ADDRESSES = ("--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--broadcast-address=127.0.0.1")


class GoNsqd:
    def __init__(self, start: Start, folder: Path, *flags: str) -> None:
        folder.mkdir()
        self.process = start("nsqd", *ADDRESSES, f"--data-path={folder}", *flags)
        self.tcp_address = self.process.wait_listening("TCP")
        self.http_address = self.process.wait_listening("HTTP")

    def post(self, target: str, body: bytes = b"") -> None:
        """The answer is a word at times, and JSON at others."""
        request = urllib.request.Request(f"http://{self.http_address}{target}", data=body)
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            answer.read()

    def create(self, topic: str, channel: str) -> None:
        self.post(f"/topic/create?topic={topic}")
        self.post(f"/channel/create?topic={topic}&channel={channel}")

    def channel(self, topic: str, channel: str) -> dict[str, Any]:
        stats = fetch(self.http_address, f"/stats?format=json&topic={topic}&channel={channel}")
        found: dict[str, Any] = stats["topics"][0]["channels"][0]
        return found

    def wait_empty(self, topic: str, channel: str) -> None:
        def is_empty() -> bool:
            counts = self.channel(topic, channel)
            return not any(counts[name] for name in ("depth", "in_flight_count", "deferred_count"))

        wait_for(is_empty)


class GoLookupd:
    def __init__(self, start: Start) -> None:
        self.process = start("nsqlookupd", *ADDRESSES)
        self.tcp_address = self.process.wait_listening("TCP")
        self.http_address = self.process.wait_listening("HTTP")

    def wait_listed(self, topic: str) -> None:
        """Until it knows an nsqd that has the topic."""
        wait_for(lambda: f"topic:{topic}:" in fetch(self.http_address, "/debug"))
